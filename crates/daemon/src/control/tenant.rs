//! What a manager manages, and the name of its socket.
//!
//! Invariant: one tenant has one name; names of different tenants differ (paths of control groups by a
//! hash of 64 bits, because names are short).

use std::fmt;
use std::path::{Path, PathBuf};

use crate::hash::fnv1a;

/// What one manager manages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tenant {
    /// A process and its descendants.
    Pid(u32),
    /// The processes of a control group, by its path below the mount.
    Group(PathBuf),
    /// The same, where only the name of its manager's socket is known: the hash of its path.
    GroupNamed(u64),
    /// The tree of tenants below a root (`serve`).
    Tree(PathBuf),
}

impl Tenant {
    /// Name of the socket of its manager, without the leading zero byte. Abstract names live in the
    /// network namespace: manager and client must share it.
    #[must_use]
    pub fn socket_name(&self) -> String {
        match self {
            Tenant::Pid(pid) => format!("pagetide.{pid}"),
            Tenant::Group(path) => {
                Tenant::GroupNamed(fnv1a(path.to_string_lossy().as_bytes())).socket_name()
            }
            Tenant::GroupNamed(hash) => format!("pagetide.group.{hash:016x}"),
            Tenant::Tree(root) => format!("pagetide.tree.{:016x}", fnv1a(plain(root).as_bytes())),
        }
    }

    /// The process, unless it is a group.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match self {
            Tenant::Pid(pid) => Some(*pid),
            Tenant::Group(_) | Tenant::GroupNamed(_) | Tenant::Tree(_) => None,
        }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tenant::Pid(pid) => write!(f, "pid {pid}"),
            Tenant::Group(path) => write!(f, "control group {}", path.display()),
            Tenant::GroupNamed(_) => write!(f, "its control group"),
            Tenant::Tree(root) => write!(f, "the tenants below {}", root.display()),
        }
    }
}

/// `/a/` and `a` are one root.
fn plain(root: &Path) -> String {
    let parts = root.iter().filter(|part| *part != "/");
    parts.collect::<PathBuf>().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_differ() {
        let group = |path: &str| Tenant::Group(path.into()).socket_name();
        assert_eq!(Tenant::Pid(7).socket_name(), "pagetide.7");
        assert_ne!(group("/a/b"), group("/a/c"));
        let tree = |path: &str| Tenant::Tree(path.into()).socket_name();
        assert_eq!(tree("/a/b/"), tree("a/b"));
        assert_ne!(tree("a/b"), group("a/b"));
        assert!(group(&"/long".repeat(1000)).len() < 100);
    }
}
