//! The control groups of the memory controller: where they are, which processes are in them, how
//! much memory they use.
//!
//! Invariant: there is one hierarchy with the memory controller, version 1 or 2, and every
//! [`Group`] lies below its mount. Hierarchies of other controllers are never read. Paths are as
//! seen in our own cgroup namespace.

mod hierarchy;
mod usage;
pub(crate) mod walk;

mod members;
mod resolve;

use std::path::PathBuf;

pub(crate) use members::{own_processes, parse_procs};
pub(crate) use usage::parse_counter;
pub use usage::{
    Cache, Usage, Zswap, parse_cache, parse_dirty, parse_idle_cache, parse_limit_reclaims,
    parse_node_caches, parse_scanned, parse_sum, parse_used_cache, parse_written,
};

/// The interface version of the memory controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// A hierarchy of its own, with files such as `memory.usage_in_bytes`.
    V1,
    /// The unified hierarchy, with files such as `memory.current`.
    V2,
}

/// The hierarchy of the memory controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Groups {
    /// Interface version of the hierarchy.
    pub version: Version,
    /// The directory where the hierarchy is mounted.
    pub mount: PathBuf,
    /// The path, in the hierarchy, of the group that is mounted: `/`, unless only a part of the
    /// hierarchy is mounted.
    root: PathBuf,
}

/// A control group. It may be removed at any time; reading its files then returns `None`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Group {
    /// Path of the group below the mount, beginning with `/`.
    pub path: PathBuf,
    /// Directory of the group.
    pub dir: PathBuf,
}

#[cfg(test)]
mod tests;
