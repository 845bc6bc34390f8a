//! Reads what the kernel reports about processes, control groups, pressure and swap.
//!
//! Invariant: nothing in these modules decides or prints. Parsers accept any bytes. Readers take
//! the path of a root directory ([`Proc::at`]), so that tests can use a tree of their own. If a
//! file or process disappears before or while it is read, the result is `None`, not an error.
//!
//! Modules, from the lowest to the highest: [`text`], [`proc`] and [`mountinfo`]; the parsers and
//! readers of single files; [`family`], which keeps track of a target's processes.

pub(crate) mod descriptors;
pub mod paths;
pub mod rights;
pub mod start;
pub mod text;

pub mod error;
pub mod mountinfo;
pub mod private_dir;

pub mod events;
pub mod proc;

pub mod cgroup;
pub mod filesystems;
pub mod load;
pub mod nodes;
pub mod swap;
pub mod vmstat;

pub mod maps;
pub mod pressure;

pub mod process;

pub mod family;
#[cfg(test)]
pub(crate) mod testing;

pub use cgroup::{Group, Groups};
pub use error::Error;
pub use events::{Event, Events};
pub use family::{Family, Target};
pub use filesystems::Filesystems;
pub use load::{own_cpu, thread_cpu};
pub use maps::Maps;
pub use nodes::{NodeMemory, Nodes};
pub use pagetables::access;
pub use pagetables::{Device, Mapping, MappingKind as Kind};
pub use paths::{NoPattern, PathPattern};
pub use proc::Proc;
pub use process::Identity;
pub use vmstat::Vmstat;
