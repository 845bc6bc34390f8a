//! How `report`, `stat`, `reclaim` and `detach` reach the manager of a target.
//!
//! The manager of PID binds the abstract Unix socket `pagetide.PID` (it leaves nothing behind when
//! it is killed). One connection carries one JSON line each way. The kernel's word on who is at the
//! other end (`SO_PEERCRED`, unix(7)) is the only access control, checked by both sides.
//!
//! Invariant: nothing a client does can block the manager or make it grow: every buffer, the number
//! of clients and their time are bounded; a client that is slow is dropped.

mod client;
mod error;
mod protocol;
mod server;

pub use client::{ask, manager_of};
pub use error::ControlError;
pub use protocol::{Complaint, Pong, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX, Request, Response};
pub use server::ControlServer;

/// Name of the socket of the manager of `pid`, without the leading zero byte. Abstract names live
/// in the network namespace: manager and client must share it.
#[must_use]
pub fn socket_name(pid: u32) -> String {
    format!("pagetide.{pid}")
}

#[cfg(test)]
mod tests;
