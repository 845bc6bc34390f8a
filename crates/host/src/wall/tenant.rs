//! Walls with names that people give: the groups of a tree of tenants.
//!
//! Invariant: a group is a tenant's if it carries our mark and lies below the tree's root; who can lock its directory
//! has no living manager before it. What was asked for it stands on it, so that whoever takes it up knows.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, XattrFlags, fgetxattr, flock, fsetxattr};
use rustix::io::Errno;

use super::limits::Limits;
use super::mark::Mark;
use super::{Wall, files, group_of, place};
use crate::system::{Groups, Identity};

/// What was asked for a tenant, in its manager's words.
const ASKED: &str = "user.pagetide.asked";
/// Longer than any of these.
const ASKED_MAX: usize = 512;

impl Wall {
    /// Makes a group for a tenant at `path`, or takes up the one that is there if nobody else has it. On version 2 the
    /// group above hands memory down from now on.
    ///
    /// # Errors
    /// The kernel's: EEXIST where another manager has it or somebody else made it; EBUSY where the group above has
    /// processes (version 2).
    pub fn tenant(
        groups: &Groups,
        path: &Path,
        manager: Identity,
        take_up: bool,
    ) -> Result<Wall, Errno> {
        if let Some(above) = path.parent().filter(|_| groups.has_subtree_control()) {
            place::hand_down(above)?;
        }
        let made = match rustix::fs::mkdir(path, 0o755.into()) {
            Ok(()) => true,
            Err(Errno::EXIST) if take_up => false,
            Err(errno) => return Err(errno),
        };
        let opened = Wall::open_tenant(groups, path, manager, made);
        if made && opened.is_err() {
            let _ = rustix::fs::rmdir(path);
        }
        opened
    }

    fn open_tenant(
        groups: &Groups,
        path: &Path,
        manager: Identity,
        made: bool,
    ) -> Result<Wall, Errno> {
        let dir = files::open_dir(path)?;
        if !made && Mark::of(&dir).is_none() {
            return Err(Errno::EXIST);
        }
        flock(&dir, FlockOperation::NonBlockingLockExclusive).map_err(|_| Errno::EXIST)?;
        let mark = Mark {
            manager,
            ceiling: Limits::default(),
        };
        mark.set(&dir)?;
        let group = group_of(groups, path).ok_or(Errno::NOENT)?;
        Ok(Wall::of(groups.clone(), group, dir, &mark, None))
    }

    /// The groups right below this one.
    #[must_use]
    pub fn below(&self) -> Vec<PathBuf> {
        files::folders(&self.group().dir)
    }

    /// Removes it alone: its limits stay as they are if it cannot be.
    ///
    /// # Errors
    /// The kernel's: EBUSY where there are processes or groups in it.
    pub fn remove_tenant(&self) -> Result<(), Errno> {
        match rustix::fs::rmdir(&self.group().dir) {
            // The kernel's words for a group below it, in a control group's file system.
            Err(Errno::NOTEMPTY) => Err(Errno::BUSY),
            done => done,
        }
    }

    /// Moves a process in.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take(&self, pid: &str) -> Result<(), Errno> {
        files::write(self.dir(), "cgroup.procs", pid)
    }

    /// The processes of this group alone.
    ///
    /// # Errors
    /// The kernel's.
    pub fn own_pids(&self) -> io::Result<Vec<u32>> {
        let pids = self.groups().own_processes(self.group());
        Ok(pids.map_err(io::Error::other)?.unwrap_or_default())
    }

    /// One of its files as the kernel has it.
    ///
    /// # Errors
    /// The kernel's; ENODEV for a group that is gone.
    pub fn file(&self, name: &str) -> Result<Vec<u8>, Errno> {
        files::read(self.dir(), name)
    }

    /// Remembers what was asked for it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn note_asked(&self, text: &str) -> Result<(), Errno> {
        fsetxattr(self.dir(), ASKED, text.as_bytes(), XattrFlags::empty())
    }

    /// What was asked for it, if anything.
    #[must_use]
    pub fn asked(&self) -> Option<String> {
        let mut text = [0; ASKED_MAX];
        let length = fgetxattr(self.dir(), ASKED, &mut text[..]).ok()?;
        Some(String::from_utf8_lossy(text.get(..length)?).into_owned())
    }
}
