//! Finding the hierarchy of the memory controller, and a process' place in it.
//!
//! Invariant: version 1 comes first: on a host with both, a controller that has a hierarchy of its own
//! is not in the unified one.

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
    /// The hierarchy that this process sees.
    ///
    /// # Errors
    /// If no hierarchy counts memory.
    pub fn find(proc: &Proc) -> Result<Groups, Error> {
        let text = proc.read_own("self/mountinfo")?.unwrap_or_default();
        Groups::at(&text)
    }

    /// The hierarchy of a mountinfo text.
    ///
    /// # Errors
    /// If no hierarchy of it counts memory.
    pub fn at(mountinfo: &[u8]) -> Result<Groups, Error> {
        let mounts = mountinfo::parse(mountinfo);
        let of_type = |fs_type: &[u8]| {
            let mut found: Vec<_> = mounts
                .iter()
                .filter(|mount| mount.fs_type == fs_type)
                .collect();
            // Containers may see several: the one that shows most is the one to use.
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

    fn of(mount: &Mount, version: Version) -> Groups {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        Groups {
            version,
            mount: path(&mount.point),
            root: path(&mount.root),
        }
    }

    /// The group that a process is in; `None` if the process is gone, or its group is outside of
    /// what the mount shows.
    ///
    /// # Errors
    /// If `/proc` hides it.
    pub fn of_process(&self, proc: &Proc, pid: u32) -> Result<Option<Group>, Error> {
        let mut text = Vec::with_capacity(1024);
        if !proc.read(pid, "cgroup", &mut text)? {
            return Ok(None);
        }
        Ok(parse_membership(&text, self.version)
            .and_then(|path| self.below(Path::new(OsStr::from_bytes(path))))
            .map(|relative| self.group(&relative)))
    }

    /// A path of the hierarchy as one below the mount.
    pub(super) fn below(&self, path: &Path) -> Option<PathBuf> {
        let rest = path.strip_prefix(&self.root).ok()?;
        // Groups beside our namespace's root begin with `/..`: they have no name here.
        rest.components()
            .all(|c| matches!(c, Component::Normal(_)))
            .then(|| rest.to_owned())
    }

    /// The group at a path below the mount.
    pub(super) fn group(&self, relative: &Path) -> Group {
        Group {
            path: Path::new("/").join(relative),
            dir: self.mount.join(relative),
        }
    }

    /// Whether a group says which controllers those below it have (version 2).
    #[must_use]
    pub fn has_subtree_control(&self) -> bool {
        self.version == Version::V2
    }

    /// The group that the mount shows as the first: all others are below it.
    #[must_use]
    pub fn root(&self) -> Group {
        self.group(Path::new(""))
    }
}

/// Whether groups of this mount count memory.
///
/// # Errors
/// Descriptors or memory are lacking: that says nothing of the mount.
fn offers_memory(mount: &Mount) -> Result<bool, Error> {
    let file = Path::new(OsStr::from_bytes(&mount.point)).join("cgroup.controllers");
    let text = match read_path(&file) {
        Err(errno) if is_lack(errno) => return Err(Error::reading(&file, errno)),
        text => text.ok().flatten().unwrap_or_default(),
    };
    Ok(words(text.trim_ascii()).any(|word| word == b"memory"))
}

/// The memory controller's path in a `/proc/PID/cgroup` text (cgroups(7)): lines of
/// `number:controllers:path`, where a path may hold colons, and version 2 has number 0 and no names.
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
    // A process may outlive the name of its group.
    Some(path.strip_suffix(b" (deleted)").unwrap_or(path))
}
