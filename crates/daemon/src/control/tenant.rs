//! What a manager manages, and the name of its socket.
//!
//! Invariant: one tenant has one name, and different tenants have different names. A control
//! group's name is a 64-bit hash of its path, because a socket's address has at most 108 bytes.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::hash::fnv1a;

/// What one manager manages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tenant {
    /// A process, by its pid, and the descendants of the process.
    Pid(u32),
    /// The processes of a control group, by its path below the mount.
    Group(PathBuf),
    /// A control group of which only the socket's name is known, which contains this hash of the
    /// path.
    GroupNamed(u64),
    /// The tree of tenants below a root (`serve`).
    Tree(PathBuf),
}

impl Tenant {
    /// Name of the socket of the tenant's manager, in the directory of the manager's user.
    #[must_use]
    pub fn socket_name(&self) -> String {
        match self {
            Tenant::Pid(pid) => pid.to_string(),
            Tenant::Group(path) => {
                Tenant::GroupNamed(fnv1a(path.to_string_lossy().as_bytes())).socket_name()
            }
            Tenant::GroupNamed(hash) => format!("group.{hash:016x}"),
            Tenant::Tree(root) => format!("tree.{:016x}", fnv1a(plain(root).as_bytes())),
        }
    }

    /// Returns the tenant that has a socket of this name; `None` if the name does not identify the
    /// tenant, as for a tree.
    #[must_use]
    pub(super) fn of_socket_name(name: &str) -> Option<Tenant> {
        if let Some(hash) = name.strip_prefix("group.") {
            return u64::from_str_radix(hash, 16).ok().map(Tenant::GroupNamed);
        }
        name.parse().ok().map(Tenant::Pid)
    }

    /// The pid of the process; `None` for a group or a tree.
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

/// Normalizes a path, so that `/a/` and `a` are the same root.
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
        assert_eq!(Tenant::Pid(7).socket_name(), "7");
        assert_ne!(group("/a/b"), group("/a/c"));
        let tree = |path: &str| Tenant::Tree(path.into()).socket_name();
        assert_eq!(tree("/a/b/"), tree("a/b"));
        assert_ne!(tree("a/b"), group("a/b"));
        // Directory and name together must fit into a socket's address, which has 108 bytes.
        assert!(group(&"/long".repeat(1000)).len() < 30);
    }

    #[test]
    fn a_name_yields_its_tenant() {
        let of = |tenant: &Tenant| Tenant::of_socket_name(&tenant.socket_name());
        for tenant in [Tenant::Pid(7), Tenant::GroupNamed(u64::MAX)] {
            assert_eq!(of(&tenant), Some(tenant));
        }
        for other in [
            ".",
            "..",
            ".lock",
            "",
            "tree.00ff",
            "-7",
            "99999999999",
            "group.x",
        ] {
            assert_eq!(Tenant::of_socket_name(other), None, "{other}");
        }
    }
}
