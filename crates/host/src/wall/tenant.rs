//! Walls with names that people give: the groups of a tree of tenants.
//!
//! Invariant: a group is a tenant's if it carries our mark and lies below the tree's root; who can lock its directory
//! has no living manager before it. What was asked for it stands on it, so that whoever takes it up knows: what stands on a group
//! whose directory others own or may write was written by anybody, and is not believed.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::handle::Handle;
use super::limits::Limits;
use super::mark::{self, Mark};
use super::{Wall, attribute, files, group_of, lowered, place};
use crate::system::cgroup::walk::{Most, Next, count_below, names_below, walk};
use crate::system::cgroup::{Version, parse_procs};
use crate::system::proc::read_path;
use crate::system::text::number;
use crate::system::{Groups, Identity};

/// What was asked for a tenant, in its manager's words.
const ASKED: &str = "asked";
/// What was asked of its reports, in the words of whoever makes them.
const REPORTS: &str = "reports";
/// The same of groups that take no notes from us, on the tree's root.
const REPORTS_OF_OTHERS: &str = "reports.others";
/// What the kernel keeps of a group: never reclaimed, and last of all.
const PROTECTION: [&str; 2] = ["memory.min", "memory.low"];

/// Whether what stands on a group was written by us: its attributes are writable to whoever may write the directory, and the
/// service manager gives users' slices to them, with limits that stay root's.
fn has_our_notes(dir: &OwnedFd) -> bool {
    let me = rustix::process::geteuid().as_raw();
    rustix::fs::fstat(dir).is_ok_and(|stat| stat.st_uid == me && stat.st_mode & 0o022 == 0)
}

/// What a file of protection says, bytes; 0 where it is none.
fn bytes(text: &[u8]) -> u64 {
    match text.trim_ascii() {
        b"max" => u64::MAX,
        text => number(text).unwrap_or(0),
    }
}

/// Groups right below one.
#[derive(Debug, Default)]
pub struct Below {
    /// Their names, as many as were asked for.
    pub names: Vec<OsString>,
    /// How many there are.
    pub count: u64,
}

impl Wall {
    /// Makes a group for a tenant at `path`, or takes up the one that is there if nobody else has it. On version 2 the
    /// group above hands memory down from now on; where none could be made it is as it was.
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
        let made = match rustix::fs::mkdir(path, files::PASSED_THROUGH.into()) {
            Ok(()) => true,
            Err(Errno::EXIST) if take_up => false,
            Err(errno) => return Err(errno),
        };
        let above = path.parent().filter(|_| groups.has_subtree_control());
        let handed = above.map_or(Ok(()), place::hand_down);
        let opened = handed.and_then(|()| Wall::open_tenant(groups, path, manager, made));
        if made && opened.is_err() {
            let _ = rustix::fs::rmdir(path);
        }
        opened
    }

    /// The group of a tenant that was found: one that somebody has removed meanwhile is not made again.
    ///
    /// # Errors
    /// As [`Wall::tenant`].
    pub fn take_up(groups: &Groups, path: &Path, manager: Identity) -> Result<Wall, Errno> {
        // Somebody else's: neither it nor the one above is changed. (The story: a tenant whose program made groups of its own had memory handed down to
        // them, and took no process any more.)
        if !Wall::is_marked(path) {
            return Err(Errno::EXIST);
        }
        if let Some(above) = path.parent().filter(|_| groups.has_subtree_control()) {
            place::hand_down(above)?;
        }
        Wall::open_tenant(groups, path, manager, false)
    }

    /// A group of the host's own, as it is: neither marked nor locked, and never removed by us unless asked to.
    ///
    /// # Errors
    /// The kernel's: it is gone, or may not be read.
    pub fn of_host(groups: &Groups, path: &Path, manager: Identity) -> Result<Wall, Errno> {
        let dir = files::open_dir(path)?;
        let group = group_of(groups, path).ok_or(Errno::NOENT)?;
        let mark = Mark {
            manager,
            ceiling: Limits::default(),
        };
        if has_our_notes(&dir) {
            lowered::undo(&dir);
        }
        let dir = Handle::name(&dir)?;
        Ok(Wall::of(groups.clone(), group, dir, &mark, None))
    }

    /// Makes a group among the host's own.
    ///
    /// # Errors
    /// The kernel's.
    pub fn make_for_host(groups: &Groups, path: &Path, manager: Identity) -> Result<Wall, Errno> {
        rustix::fs::mkdir(path, 0o755.into())?;
        Wall::of_host(groups, path, manager)
    }

    /// Whether a manager of ours has, or had, a group: it is not the host's own.
    #[must_use]
    pub fn is_marked(path: &Path) -> bool {
        files::open_dir(path).is_ok_and(|dir| Mark::of(&dir).is_some())
    }

    /// The same of a manager that may have other rights than ours: its group is left alone.
    #[must_use]
    pub(crate) fn is_anybodys(path: &Path) -> bool {
        files::open_dir(path).is_ok_and(|dir| mark::is_anybodys(&dir))
    }

    /// The same of an open group.
    #[must_use]
    pub(crate) fn is_anybodys_open(dir: &OwnedFd) -> bool {
        mark::is_anybodys(dir)
    }

    /// Whether a group of this name is the wall of a `run`: its manager's, and if that is dead, the next `run`'s to take up.
    #[must_use]
    pub(crate) fn is_of_run(name: &OsStr) -> bool {
        mark::is_name(name).is_some()
    }

    /// The kernel's own limits on it: max, high and swap.max in bytes.
    #[must_use]
    pub fn kernel_limits(&self) -> [Option<u64>; 3] {
        match self.version() {
            Version::V1 => {
                let max = self.max().ok().flatten();
                let both = self.both().ok().flatten().flatten();
                let swap = both.zip(max).map(|(both, max)| both.saturating_sub(max));
                [max, None, swap]
            }
            Version::V2 => {
                let limits = Limits::of_v2(&self.group().dir);
                [limits.max, limits.high, limits.swap_max]
            }
        }
    }

    /// What the kernel keeps of it from its own reclaim, min and low in bytes, `u64::MAX` for all. Version 1 knows neither, nor
    /// does the first group of version 2.
    #[must_use]
    pub fn kernel_protection(&self) -> [u64; 2] {
        match self.version() {
            Version::V1 => [0, 0],
            Version::V2 => PROTECTION.map(|name| bytes(&self.file(name).unwrap_or_default())),
        }
    }

    /// The least of min and of low, bytes, that any group above it has; `u64::MAX` where none has such files. The kernel protects no group by more
    /// than those above it from what reclaims these.
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
        // One that was made by an earlier version, too.
        let _ = rustix::fs::fchmod(&dir, files::PASSED_THROUGH.into());
        flock(&dir, FlockOperation::NonBlockingLockExclusive).map_err(|_| Errno::EXIST)?;
        let mark = Mark {
            manager,
            ceiling: Limits::default(),
        };
        mark.set(&dir)?;
        if has_our_notes(&dir) {
            lowered::undo(&dir);
        }
        let group = group_of(groups, path).ok_or(Errno::NOENT)?;
        Ok(Wall::of(
            groups.clone(),
            group,
            Handle::hold(dir)?,
            &mark,
            None,
        ))
    }

    /// The groups right below this one, `most` of them at most.
    ///
    /// # Errors
    /// The kernel's; ENODEV if it is gone.
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

    /// Whether the name of a group below this one, at any depth, is such a one.
    ///
    /// # Errors
    /// The kernel's; E2BIG where too many groups are below it to visit all.
    pub fn has_any_below(&self, is_such: impl Fn(&OsStr) -> bool) -> Result<bool, Errno> {
        const MOST: Most = Most {
            groups: 4096,
            below_each: 4096,
        };
        let (dir, mut found) = (files::open_again(&*self.dir()?)?, false);
        let is_all = walk::<Errno>(dir, MOST, &mut |visited| {
            found |= visited.name().is_some_and(&is_such);
            Ok(if found { Next::Beside } else { Next::Below })
        })?;
        match is_all || found {
            true => Ok(found),
            false => Err(Errno::TOOBIG),
        }
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

    /// Where nobody is below it any more it may have processes once more: a group of version 2 that hands memory down takes none
    /// (cgroups(7), "no internal processes").
    pub fn hand_down_no_more(&self) {
        let hands_down = self.groups().has_subtree_control();
        // What cannot be read may have groups below it.
        let is_empty = || self.below(1).is_ok_and(|below| below.names.is_empty());
        if hands_down && is_empty() {
            // Refused, it is as it was.
            let _ = place::hand_down_no_more(&self.group().dir);
        }
    }

    /// Moves a process in.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take(&self, pid: &str) -> Result<(), Errno> {
        self.put("cgroup.procs", pid)
    }

    /// The processes of this group alone; none if it is gone, whatever has its name now.
    ///
    /// # Errors
    /// The kernel's: EOPNOTSUPP of a group of threads, whose processes are listed above it.
    pub fn own_pids(&self) -> Result<Option<Vec<u32>>, Errno> {
        match self.file("cgroup.procs") {
            Ok(text) => Ok(Some(parse_procs(&text))),
            Err(Errno::NODEV | Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// One of its files as the kernel has it.
    ///
    /// # Errors
    /// The kernel's; ENODEV for a group that is gone.
    pub fn file(&self, name: &str) -> Result<Vec<u8>, Errno> {
        files::read(&*self.dir()?, name)
    }

    /// Remembers what was asked for it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn note_asked(&self, text: &str) -> Result<(), Errno> {
        self.note(ASKED, text)
    }

    /// What was asked for it, if anything.
    #[must_use]
    pub fn asked(&self) -> Option<String> {
        self.noted(ASKED)
    }

    /// Remembers what was asked of its reports.
    ///
    /// # Errors
    /// The kernel's.
    pub fn note_reports(&self, text: &str) -> Result<(), Errno> {
        self.note(REPORTS, text)
    }

    /// What was asked of its reports, if anything.
    #[must_use]
    pub fn reports(&self) -> Option<String> {
        self.noted(REPORTS)
    }

    /// Remembers what was asked of reports of groups that are not this one, and take no notes: in parts, of which most are as they were.
    ///
    /// # Errors
    /// The kernel's.
    pub fn note_reports_of_others(&self, parts: &[String]) -> Result<(), Errno> {
        let name = |number: usize| format!("{REPORTS_OF_OTHERS}.{number}");
        for (number, text) in parts.iter().enumerate() {
            let name = name(number);
            if self.noted(&name).as_ref() != Some(text) {
                self.note(&name, text)?;
            }
        }
        // Of a longer list that stood there nothing is left.
        let mut rest = (parts.len()..).take_while(|number| self.noted(&name(*number)).is_some());
        rest.try_for_each(|number| self.note(&name(number), ""))
    }

    /// That, empty if nothing was.
    #[must_use]
    pub fn reports_of_others(&self) -> String {
        let parts = (0..).map_while(|number| self.noted(&format!("{REPORTS_OF_OTHERS}.{number}")));
        parts.collect()
    }

    /// Nothing is noted where nothing was asked.
    fn note(&self, name: &str, text: &str) -> Result<(), Errno> {
        attribute::set(&*self.dir()?, name, text.as_bytes())
    }

    /// What we wrote there.
    fn noted(&self, name: &str) -> Option<String> {
        let dir = self.dir().ok()?;
        if !has_our_notes(&dir) {
            return None;
        }
        let text = attribute::get(&dir, name)?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}
