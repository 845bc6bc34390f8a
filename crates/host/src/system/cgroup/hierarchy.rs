//! Finds the hierarchy of the memory controller, and a process's group in it.
//!
//! Invariant: if a version 1 hierarchy has the memory controller, it is used. (On a host with both
//! versions, a controller that is in a hierarchy of version 1 is not in the unified one.)

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::{Group, Groups, Version};
use crate::system::descriptors::is_lack;
use crate::system::error::Error;
use crate::system::mountinfo::{self, Mount};
use crate::system::proc::{Proc, read_path};
use crate::system::text::{lines, words};

impl Groups {
    /// Finds the hierarchy of the memory controller among the mounts that this process sees.
    ///
    /// # Errors
    /// No hierarchy has the memory controller.
    pub fn find(proc: &Proc) -> Result<Groups, Error> {
        let text = proc.read_own("self/mountinfo")?.unwrap_or_default();
        Groups::at(&text)
    }

    /// Finds the hierarchy of the memory controller in a mountinfo text.
    ///
    /// # Errors
    /// No hierarchy in it has the memory controller.
    pub fn at(mountinfo: &[u8]) -> Result<Groups, Error> {
        let mounts = mountinfo::parse(mountinfo);
        let of_type = |fs_type: &[u8]| {
            let mut found: Vec<_> = mounts
                .iter()
                .filter(|mount| mount.fs_type == fs_type)
                .collect();
            // A container may have several mounts. The one with the shortest root shows the most
            // groups.
            found.sort_by_key(|mount| mount.root.len());
            found
        };
        if let Some(mount) = of_type(b"cgroup")
            .iter()
            .find(|mount| mount.has_option("memory"))
        {
            return Ok(Groups::of(mount, Version::V1));
        }
        let unified = of_type(b"cgroup2");
        for mount in &unified {
            if offers_memory(mount)? {
                return Ok(Groups::of(mount, Version::V2));
            }
        }
        let why = match unified.first() {
            Some(mount) => format!(
                "the control groups at {} do not have it (cgroup.controllers)",
                Path::new(OsStr::from_bytes(&mount.point)).display()
            ),
            None => "no control group file system is mounted".to_owned(),
        };
        Err(Error::NoController { why })
    }

    /// Returns the hierarchy that a mount shows.
    fn of(mount: &Mount, version: Version) -> Groups {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        Groups {
            version,
            mount: path(&mount.point),
            root: path(&mount.root),
        }
    }

    /// Returns the group of a process; `None` if the process is gone, or if its group is not below
    /// the mount.
    ///
    /// # Errors
    /// `/proc` hides the process.
    pub fn of_process(&self, proc: &Proc, pid: u32) -> Result<Option<Group>, Error> {
        let mut text = Vec::with_capacity(1024);
        if !proc.read(pid, "cgroup", &mut text)? {
            return Ok(None);
        }
        Ok(parse_membership(&text, self.version)
            .and_then(|path| self.below(Path::new(OsStr::from_bytes(path))))
            .map(|relative| self.group(&relative)))
    }

    /// Returns the name of a process's group for users: its path below the mount. The name of a
    /// group outside of our cgroup namespace is its path in `/proc/PID/cgroup`, such as
    /// `/../system.slice`. `None` if the process is gone, or its group is unknown.
    #[must_use]
    pub fn name_of_process(&self, proc: &Proc, pid: u32) -> Option<String> {
        let mut text = Vec::with_capacity(1024);
        proc.read(pid, "cgroup", &mut text).ok()?.then_some(())?;
        let path = Path::new(OsStr::from_bytes(parse_membership(&text, self.version)?));
        let below = self.below(path).map(|relative| self.group(&relative).path);
        Some(below.as_deref().unwrap_or(path).display().to_string())
    }

    /// Converts a path in the hierarchy to a path relative to the mount; `None` if the group is not
    /// below the mount.
    pub(super) fn below(&self, path: &Path) -> Option<PathBuf> {
        let rest = path.strip_prefix(&self.root).ok()?;
        // The path of a group outside of our cgroup namespace begins with `/..`: no path below the
        // mount leads to it.
        rest.components()
            .all(|c| matches!(c, Component::Normal(_)))
            .then(|| rest.to_owned())
    }

    /// Returns the group with this path relative to the mount.
    pub(super) fn group(&self, relative: &Path) -> Group {
        Group {
            path: Path::new("/").join(relative),
            dir: self.mount.join(relative),
        }
    }

    /// Returns whether the groups decide which controllers their children have
    /// (`cgroup.subtree_control`, version 2).
    #[must_use]
    pub fn has_subtree_control(&self) -> bool {
        self.version == Version::V2
    }

    /// Returns the group at the mount; all other visible groups are below it.
    #[must_use]
    pub fn root(&self) -> Group {
        self.group(Path::new(""))
    }
}

/// Returns whether the groups of this mount can have the memory controller.
///
/// # Errors
/// The kernel has no descriptors or no memory left. Then nothing is known about the mount.
fn offers_memory(mount: &Mount) -> Result<bool, Error> {
    let file = Path::new(OsStr::from_bytes(&mount.point)).join("cgroup.controllers");
    let text = match read_path(&file) {
        Err(errno) if is_lack(errno) => return Err(Error::reading(&file, errno)),
        text => text.ok().flatten().unwrap_or_default(),
    };
    Ok(words(text.trim_ascii()).any(|word| word == b"memory"))
}

/// Returns the path of a process's group in the memory controller's hierarchy, from the text of
/// `/proc/PID/cgroup` (cgroups(7)). Its lines are `number:controllers:path`; a path may contain
/// colons. The line of version 2 has the number 0 and no controllers.
#[must_use]
pub(super) fn parse_membership(text: &[u8], version: Version) -> Option<&[u8]> {
    let path = lines(text).find_map(|line| {
        let mut fields = line.splitn(3, |&b| b == b':');
        let (number, names, path) = (fields.next()?, fields.next()?, fields.next()?);
        let ours = match version {
            Version::V1 => names.split(|&b| b == b',').any(|name| name == b"memory"),
            Version::V2 => number == b"0" && names.is_empty(),
        };
        ours.then_some(path)
    })?;
    // The kernel appends ` (deleted)` if the process is still in a group that was removed.
    Some(path.strip_suffix(b" (deleted)").unwrap_or(path))
}
