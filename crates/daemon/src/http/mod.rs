//! A small HTTP/1.1 server for one user: it serves metrics and a page.
//!
//! Invariant: a request can change nothing (GET and HEAD, no bodies). Bytes of a request, time for
//! a request and number of connections are bounded. The server does not depend on what it serves
//! ([`Site`]), and runs in a thread of its own without privileges (`host::confine`).
//!
//! Why no library: well-maintained ones bring a runtime and hundreds of dependencies, and the
//! others have none of these bounds. Untrusted bytes are parsed by `httparse`, which servers in
//! production use; the rest is below 1,000 lines.
//!
//! Floors: `address`, `date`, `door`, `query`, `stream`, `token`; `answer`; `head`; `gate`;
//! `client`; `listener`; `server`.

mod address;
mod date;
mod door;
mod query;
mod stream;
mod token;

mod answer;

mod head;

mod gate;

mod client;

mod listener;

#[cfg(test)]
mod fuzz;
mod server;

pub use address::{Address, AddressError};
pub use answer::{Answer, Status};
pub use head::Head;
pub use query::{Query, encoded};
pub use server::{Server, Site};
pub use token::{Token, nonce};
