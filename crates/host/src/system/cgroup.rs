//! The control groups that count memory: where they are, who is in them, how much they hold.
//!
//! Invariant: there is one hierarchy of them, version 1 or 2, and every [`Group`] lies below its mount.
//! Other hierarchies of a host that has several say nothing of memory and are never read. Paths are
//! as seen from our own cgroup namespace.

mod hierarchy;
mod members;
mod resolve;
mod usage;
pub(crate) mod walk;

use std::path::PathBuf;

pub(crate) use members::{own_processes, parse_procs};
pub use usage::{
    Cache, Usage, parse_cache, parse_dirty, parse_idle_cache, parse_node_caches, parse_sum,
    parse_written,
};

/// Which interface the memory controller has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// A hierarchy of its own, files such as `memory.usage_in_bytes`.
    V1,
    /// The unified hierarchy, files such as `memory.current`.
    V2,
}

/// The hierarchy of the memory controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Groups {
    /// Its interface.
    pub version: Version,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// Which group is mounted there: `/`, unless only a part of the hierarchy is shown to us.
    root: PathBuf,
}

/// A control group. It may be gone at any time; its files then are `None`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Group {
    /// Below the mount, beginning with `/`.
    pub path: PathBuf,
    /// Its directory.
    pub dir: PathBuf,
}

#[cfg(test)]
mod tests;
