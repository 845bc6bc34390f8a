//! A small server of HTTP/1.1 for one user: metrics and a page.
//!
//! Invariant: nothing can be changed by it (GET and HEAD, no bodies); everything is bounded: bytes of a question, time for
//! it, connections. It knows nothing of what it serves ([`Site`]), and runs in a thread of its own, without rights (`host::confine`).
//!
//! Why not a crate: those that are well kept come with a runtime of their own and hundreds of dependencies, and those that do
//! not have none of these bounds. Bytes of strangers are read by `httparse`, which browsers' servers use; what is left is
//! below 1,000 lines.
//!
//! Floors: `address`, `date`, `door`, `query`, `stream`, `token`; `answer`; `head`; `gate`; `client`; `listener`; `server`.

mod address;
mod answer;
mod client;
mod date;
mod door;
#[cfg(test)]
mod fuzz;
mod gate;
mod head;
mod listener;
mod query;
mod server;
mod stream;
mod token;

pub use address::{Address, AddressError};
pub use answer::{Answer, Status};
pub use head::Head;
pub use query::{Query, encoded};
pub use server::{Server, Site};
pub use token::{Token, nonce};
