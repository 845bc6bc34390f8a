//! The control socket: how `report`, `stat`, `reclaim` and `detach` reach the manager of a tenant.
//!
//! The manager of PID listens on the Unix socket `control/PID` in pagetide's directory, to which
//! only the manager's user has access (`/run/pagetide` for root). One connection carries one JSON
//! line each way. The kernel says which process is at the other end (`SO_PEERPIDFD`, `SO_PEERCRED`,
//! unix(7)); both sides check that. A peer in another pid namespace is refused.
//!
//! Invariant: no client can block the manager or make it grow: every buffer, the number of clients
//! and their time are bounded, and a slow client is dropped. No user but root and the manager's own
//! can pretend to be a manager, or keep one from listening.

mod error;
mod peer;
mod protocol;
mod socket;
mod tenant;

mod client;
mod server;

mod find;

pub use client::{ask, manager_of};
pub use error::ControlError;
pub(crate) use find::wait_for_name;
pub use find::{
    Managed, find, find_begun, is_anothers, is_held_by_a_stranger, managed_pids, managers,
};
pub(crate) use peer::{Peer, Tracer, shares_our_pids};
pub use protocol::{
    Ask, Done, Pong, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX, Request, Response, Stat, Stats,
    TenantAsk, TenantRow,
};
pub use server::{Answer, ControlServer};
pub use tenant::Tenant;

/// Longest time for which an ending manager still sends the responses that it has begun to send.
pub(crate) const LAST_ANSWER: std::time::Duration = std::time::Duration::from_secs(1);

#[cfg(test)]
mod tests;
