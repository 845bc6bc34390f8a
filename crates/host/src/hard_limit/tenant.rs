//! Limited cgroups with names that users choose: the cgroups of `serve`'s tenants.
//!
//! Invariant: a cgroup belongs to a tenant if it carries our ownership xattr and lies below the
//! root of the tree of tenants. A process that can lock the cgroup's directory knows that no
//! earlier manager is alive. A tenant's settings are attributes of the cgroup, so that the next
//! manager knows them. If another user owns the cgroup's directory, or may write it, its attributes
//! are not trusted.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use engine::Limit;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::handle::Handle;
use super::limits::Limits;
use super::ownership::{self, OwnershipXattr};
use super::{HardLimit, attribute, files, group_of, group_place, lowered};
use crate::system::cgroup::walk::{Most, Next, count_below, names_below, walk};
use crate::system::cgroup::{Version, parse_procs};
use crate::system::proc::read_path;
use crate::system::text::number;
use crate::system::{Groups, Identity};

/// Name of the attribute with a tenant's settings, in its manager's format.
const REQUESTED: &str = "asked";
/// Name of the attribute with the settings of a tenant's reports, in the format of the reports'
/// code.
const REPORTS: &str = "reports";
/// Name of the attribute, on the tree's root, with the report settings of cgroups on which we may
/// write no attributes.
const REPORTS_OF_OTHERS: &str = "reports.others";
/// Files of the kernel's protection: memory that it never reclaims, then memory that it reclaims
/// last.
const PROTECTION: [&str; 2] = ["memory.min", "memory.low"];

/// Returns whether only we can have written the attributes of a cgroup. Every user with write
/// access to the directory can write them; and systemd makes users the owners of their slices, but
/// not of the limits.
fn has_our_notes(dir: &OwnedFd) -> bool {
    let me = rustix::process::geteuid().as_raw();
    rustix::fs::fstat(dir).is_ok_and(|stat| stat.st_uid == me && stat.st_mode & 0o022 == 0)
}

/// Parses the text of memory.min or memory.low: bytes; `u64::MAX` for `max`, 0 if it is no number.
fn bytes(text: &[u8]) -> u64 {
    match text.trim_ascii() {
        b"max" => u64::MAX,
        text => number(text).unwrap_or(0),
    }
}

/// The children of a cgroup: their number, and some of their names.
#[derive(Debug, Default)]
pub struct Below {
    /// Names of children, at most as many as requested.
    pub names: Vec<OsString>,
    /// Number of all children.
    pub count: u64,
}

impl HardLimit {
    /// Makes a cgroup for a tenant at `path`, or claims the existing one if no other manager owns
    /// it. On version 2 the memory controller is then enabled for the children of the parent. On
    /// failure the parent stays unchanged.
    ///
    /// # Errors
    /// The kernel's error: EEXIST if another manager owns the cgroup or another program made it;
    /// EBUSY if the parent has processes (version 2).
    pub fn tenant(
        groups: &Groups,
        path: &Path,
        manager: Identity,
        take_up: bool,
    ) -> Result<HardLimit, Errno> {
        let made = match rustix::fs::mkdir(path, files::PASSED_THROUGH.into()) {
            Ok(()) => true,
            Err(Errno::EXIST) if take_up => false,
            Err(errno) => return Err(errno),
        };
        let above = path.parent().filter(|_| groups.has_subtree_control());
        let handed = above.map_or(Ok(()), group_place::enable_memory);
        let opened = handed.and_then(|()| HardLimit::open_tenant(groups, path, manager, made));
        if made && opened.is_err() {
            let _ = rustix::fs::rmdir(path);
        }
        opened
    }

    /// Claims the existing cgroup of a tenant. If the cgroup has been removed meanwhile, it is not
    /// recreated.
    ///
    /// # Errors
    /// As [`HardLimit::tenant`].
    pub fn take_up(groups: &Groups, path: &Path, manager: Identity) -> Result<HardLimit, Errno> {
        // The cgroup belongs to another program: neither it nor its parent is changed. If the
        // memory controller were enabled for its children, the parent could no longer have
        // processes.
        if !HardLimit::is_marked(path) {
            return Err(Errno::EXIST);
        }
        if let Some(above) = path.parent().filter(|_| groups.has_subtree_control()) {
            group_place::enable_memory(above)?;
        }
        HardLimit::open_tenant(groups, path, manager, false)
    }

    /// Returns one of the host's own cgroups, without changing it: without ownership xattr or lock.
    /// We remove such a cgroup only if a user requests it.
    ///
    /// # Errors
    /// The kernel's error: the cgroup is gone, or may not be read.
    pub fn of_host(groups: &Groups, path: &Path, manager: Identity) -> Result<HardLimit, Errno> {
        let dir = files::open_dir(path)?;
        let group = group_of(groups, path).ok_or(Errno::NOENT)?;
        let mark = OwnershipXattr {
            manager,
            ceiling: Limits::default(),
        };
        if has_our_notes(&dir) {
            lowered::undo(&dir);
        }
        let dir = Handle::name(&dir)?;
        Ok(HardLimit::of(groups.clone(), group, dir, &mark, None))
    }

    /// Makes a cgroup as one of the host's own: without ownership xattr or lock.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make_for_host(
        groups: &Groups,
        path: &Path,
        manager: Identity,
    ) -> Result<HardLimit, Errno> {
        rustix::fs::mkdir(path, 0o755.into())?;
        HardLimit::of_host(groups, path, manager)
    }

    /// Returns whether a manager with our rights owns or owned the cgroup; otherwise it may be the
    /// host's own.
    #[must_use]
    pub fn is_marked(path: &Path) -> bool {
        files::open_dir(path).is_ok_and(|dir| OwnershipXattr::of(&dir).is_some())
    }

    /// Returns whether any manager, even one with other rights than ours, owns or owned the cgroup.
    /// We must not change such a cgroup.
    #[must_use]
    pub(crate) fn has_any_manager(path: &Path) -> bool {
        files::open_dir(path).is_ok_and(|dir| ownership::has_any_manager(&dir))
    }

    /// Like [`HardLimit::has_any_manager`], for an open cgroup.
    #[must_use]
    pub(crate) fn has_any_manager_open(dir: &OwnedFd) -> bool {
        ownership::has_any_manager(dir)
    }

    /// Returns whether `name` is the name of a hard-limit cgroup of `run`. Such a cgroup belongs to
    /// its manager; if that is dead, the next `run` claims it.
    #[must_use]
    pub(crate) fn is_of_run(name: &OsStr) -> bool {
        ownership::manager_of_name(name).is_some()
    }

    /// Returns the kernel's max, high and swap.max of the cgroup.
    #[must_use]
    pub fn kernel_limits(&self) -> [Limit; 3] {
        match self.version() {
            Version::V1 => {
                let max = self.max().unwrap_or_default();
                [max, Limit::Max, self.swap_apart().unwrap_or_default()]
            }
            Version::V2 => {
                let limits = Limits::of_v2(&self.group().dir);
                [limits.max, limits.high, limits.swap_max]
            }
        }
    }

    /// Returns the kernel's memory.min, then memory.low, of the cgroup in bytes; `u64::MAX` if all
    /// memory is protected. Zeros on version 1 and for the root of version 2, which have no such
    /// files.
    #[must_use]
    pub fn kernel_protection(&self) -> [u64; 2] {
        match self.version() {
            Version::V1 => [0, 0],
            Version::V2 => PROTECTION.map(|name| bytes(&self.file(name).unwrap_or_default())),
        }
    }

    /// Returns the lowest memory.min, then the lowest memory.low, of all cgroups above, in bytes;
    /// `u64::MAX` if none of them has such a file. When the kernel reclaims from a cgroup above,
    /// this is the most memory of this cgroup that it protects.
    #[must_use]
    pub fn protection_above(&self) -> [u64; 2] {
        let mount = &self.groups().mount;
        let above = self.group().dir.ancestors().skip(1);
        let above: Vec<&Path> = above.take_while(|dir| dir.starts_with(mount)).collect();
        PROTECTION.map(|name| {
            let files = above.iter().map(|dir| read_path(&dir.join(name)));
            let found = files.filter_map(|text| Some(bytes(&text.ok()??)));
            found.min().unwrap_or(u64::MAX)
        })
    }

    /// Locks the cgroup at `path` and claims it for `manager`. `made`: we have just made it, so it
    /// has no ownership xattr yet.
    fn open_tenant(
        groups: &Groups,
        path: &Path,
        manager: Identity,
        made: bool,
    ) -> Result<HardLimit, Errno> {
        let dir = files::open_dir(path)?;
        if !made && OwnershipXattr::of(&dir).is_none() {
            return Err(Errno::EXIST);
        }
        // An earlier version of pagetide may have made the directory with another mode.
        let _ = rustix::fs::fchmod(&dir, files::PASSED_THROUGH.into());
        flock(&dir, FlockOperation::NonBlockingLockExclusive).map_err(|_| Errno::EXIST)?;
        let mark = OwnershipXattr {
            manager,
            ceiling: Limits::default(),
        };
        mark.set(&dir)?;
        if has_our_notes(&dir) {
            lowered::undo(&dir);
        }
        let group = group_of(groups, path).ok_or(Errno::NOENT)?;
        Ok(HardLimit::of(
            groups.clone(),
            group,
            Handle::hold(dir)?,
            &mark,
            None,
        ))
    }

    /// Returns the number of this cgroup's children, and the names of at most `most` of them.
    ///
    /// # Errors
    /// The kernel's error; ENODEV if the cgroup is gone.
    pub fn below(&self, most: usize) -> Result<Below, Errno> {
        let dir = self.dir()?;
        let found = names_below(&dir, most)?;
        let names = found.names.into_iter();
        let names: Vec<OsString> = names
            .map(|name| OsString::from_vec(name.into_bytes()))
            .collect();
        let seen = names.len() as u64 + u64::from(found.has_more);
        let count = count_below(&dir)?.unwrap_or(0).max(seen);
        Ok(Below { names, count })
    }

    /// Returns whether `matches` returns true for the name of any cgroup below this one, at any
    /// depth.
    ///
    /// # Errors
    /// The kernel's error; E2BIG if there are too many cgroups below to visit all.
    pub fn has_any_below(&self, matches: impl Fn(&OsStr) -> bool) -> Result<bool, Errno> {
        const MOST: Most = Most {
            groups: 4096,
            below_each: 4096,
        };
        let (dir, mut found) = (files::open_again(&*self.dir()?)?, false);
        let is_all = walk::<Errno>(dir, MOST, &mut |visited| {
            found |= visited.name().is_some_and(&matches);
            Ok(if found { Next::Beside } else { Next::Below })
        })?;
        match is_all || found {
            true => Ok(found),
            false => Err(Errno::TOOBIG),
        }
    }

    /// Removes this cgroup, but no cgroup below it. If that fails, the cgroup's limits stay as they
    /// are.
    ///
    /// # Errors
    /// The kernel's error: EBUSY if there are processes or cgroups in it.
    pub fn remove_tenant(&self) -> Result<(), Errno> {
        match rustix::fs::rmdir(&self.group().dir) {
            // The cgroup file system returns this error if there is a child cgroup.
            Err(Errno::NOTEMPTY) => Err(Errno::BUSY),
            done => done,
        }
    }

    /// Disables the memory controller for the children if the cgroup has none, so that it can have
    /// processes again: version 2 does not allow both (cgroups(7), "no internal processes").
    pub fn disable_memory(&self) {
        let hands_down = self.groups().has_subtree_control();
        // A cgroup that cannot be read may have children.
        let is_empty = || self.below(1).is_ok_and(|below| below.names.is_empty());
        if hands_down && is_empty() {
            // If the kernel refuses, nothing changes.
            let _ = group_place::disable_memory(&self.group().dir);
        }
    }

    /// Moves a process into the cgroup.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn take(&self, pid: &str) -> Result<(), Errno> {
        self.put("cgroup.procs", pid)
    }

    /// Returns the pids of this cgroup, without those of cgroups below. `None` if the cgroup is
    /// gone, even if another cgroup has its path now.
    ///
    /// # Errors
    /// The kernel's error: EOPNOTSUPP for a threaded cgroup, whose processes its parent lists.
    pub fn own_pids(&self) -> Result<Option<Vec<u32>>, Errno> {
        match self.file("cgroup.procs") {
            Ok(text) => Ok(Some(parse_procs(&text))),
            Err(Errno::NODEV | Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Returns the content of one of the cgroup's files.
    ///
    /// # Errors
    /// The kernel's error; ENODEV if the cgroup is gone.
    pub fn file(&self, name: &str) -> Result<Vec<u8>, Errno> {
        files::read(&*self.dir()?, name)
    }

    /// Stores the tenant's settings on the cgroup.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn note_requested(&self, text: &str) -> Result<(), Errno> {
        self.note(REQUESTED, text)
    }

    /// Returns the stored settings of the tenant; `None` if there are none.
    #[must_use]
    pub fn requested(&self) -> Option<String> {
        self.noted(REQUESTED)
    }

    /// Stores the settings of the tenant's reports on the cgroup.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn note_reports(&self, text: &str) -> Result<(), Errno> {
        self.note(REPORTS, text)
    }

    /// Returns the stored settings of the tenant's reports; `None` if there are none.
    #[must_use]
    pub fn reports(&self) -> Option<String> {
        self.noted(REPORTS)
    }

    /// Stores on this cgroup the report settings of other cgroups, on which we may write no
    /// attributes. The concatenation of `parts` is the settings; only parts that have changed are
    /// written.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn note_reports_of_others(&self, parts: &[String]) -> Result<(), Errno> {
        let name = |number: usize| format!("{REPORTS_OF_OTHERS}.{number}");
        for (number, text) in parts.iter().enumerate() {
            let name = name(number);
            if self.noted(&name).as_ref() != Some(text) {
                self.note(&name, text)?;
            }
        }
        // Removes the parts that a longer list, stored before, had in addition.
        let mut rest = (parts.len()..).take_while(|number| self.noted(&name(*number)).is_some());
        rest.try_for_each(|number| self.note(&name(number), ""))
    }

    /// Returns the stored report settings of other cgroups; empty if there are none.
    #[must_use]
    pub fn reports_of_others(&self) -> String {
        let parts = (0..).map_while(|number| self.noted(&format!("{REPORTS_OF_OTHERS}.{number}")));
        parts.collect()
    }

    /// Writes a note on the cgroup; an empty text removes the note.
    fn note(&self, name: &str, text: &str) -> Result<(), Errno> {
        attribute::set(&*self.dir()?, name, text.as_bytes())
    }

    /// Returns the text of a note that we have written; `None` if there is no note that can be
    /// trusted.
    fn noted(&self, name: &str) -> Option<String> {
        let dir = self.dir().ok()?;
        if !has_our_notes(&dir) {
            return None;
        }
        let text = attribute::get(&dir, name)?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}
