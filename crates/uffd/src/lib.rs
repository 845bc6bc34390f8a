//! Every system call of the pager, and all its unsafe code.
//!
//! [`abi`] holds the plain structures of the kernel interfaces; keeper and manager share it. The
//! rest (feature `host`) is the manager's side: thin, safe wrappers that bounds-check what they can
//! and report errors as [`std::io::Error`]. Nothing here decides.
#![cfg_attr(not(feature = "host"), no_std)]

pub mod abi;
#[cfg(feature = "host")]
pub mod fds;
#[cfg(feature = "host")]
pub mod pagemap;
#[cfg(feature = "host")]
pub mod probe;
#[cfg(feature = "host")]
pub mod process;
#[cfg(feature = "host")]
pub mod ptrace;
#[cfg(feature = "host")]
pub mod shared;
#[cfg(feature = "host")]
pub mod stub;
#[cfg(feature = "host")]
pub mod vm;
