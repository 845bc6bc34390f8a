//! What the kernel says of processes, control groups, pressure and swap.
//!
//! Invariant: nothing here decides or prints. Parsers take bytes and accept any; readers take a root
//! ([`Proc::at`]), so that tests can put a tree of their own there. What goes away while it is read is
//! `None`, not an error. Floors, from the ground: [`text`], [`proc`] and [`mountinfo`]; the parsers and
//! their readers; [`family`], which keeps a target's processes, on top.

pub mod cgroup;
pub(crate) mod descriptors;
pub mod error;
pub mod events;
pub mod family;
pub mod filesystems;
pub mod load;
pub mod maps;
pub mod mountinfo;
pub mod nodes;
pub mod paths;
pub mod pressure;
pub mod private_dir;
pub mod proc;
pub mod process;
pub mod rights;
pub mod start;
pub mod swap;
#[cfg(test)]
pub(crate) mod testing;
pub mod text;
pub mod vmstat;

pub use cgroup::{Group, Groups};
pub use error::Error;
pub use events::{Event, Events};
pub use family::{Family, Target};
pub use filesystems::Filesystems;
pub use load::{own_cpu, thread_cpu};
pub use maps::{Kind, Mapping, Maps};
pub use mountinfo::Device;
pub use nodes::Nodes;
pub use pagetables::access;
pub use paths::{NoPattern, PathPattern};
pub use proc::Proc;
pub use process::Identity;
pub use vmstat::Vmstat;
