//! The wall: one control group of our own around what `run` starts, with the kernel's limits on it.
//!
//! Invariant: of `run`, limits are put on no group but one that carries our name and our mark (`mark.rs`) and
//! whose lock we hold; of `serve`, on tenants with that mark and lock and, where it may change them, on the host's
//! own groups, which have neither (`tenant.rs`; whether or not it may, what a killed one had lowered there is put
//! back: `lowered.rs`). The limits of groups above hold as before: on version 2 one of them is told to hand memory
//! down, and nothing else. Nobody but the processes that [`Wall::enter`] and [`Wall::take`] are given, and on
//! version 2 our own manager (`place.rs`), is moved. What is left when a manager is killed is the group alone: its
//! guard ([`guard`]) lifts the limits, and a later start takes it up ([`Wall::left_behind`]).

mod attribute;
mod close_in;
mod due;
mod error;
mod files;
mod fresh;
pub mod guard;
mod handle;
mod limits;
mod lowered;
mod mark;
mod place;
mod reclaim;
mod scope;
mod tenant;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::system::cgroup::Version;
use crate::system::cgroup::walk::{Most, Next, is_gone, walk};
use crate::system::{Group, Groups, Identity, Proc};

pub use due::{Due, Refused};
pub use error::WallError;
pub(crate) use error::make_room;
use fresh::Fresh;
use handle::{Handle, Opened};
use limits::Limits;
use mark::Mark;
use place::{Leaf, Place, Request};
pub(crate) use scope::is_there as has_systemd;
pub use tenant::Below;

/// One control group of ours. A clone is the same group; dropping the last one removes nothing, but gives
/// up the claim on it, as if the manager had ended.
#[derive(Clone, Debug)]
pub struct Wall(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    groups: Groups,
    group: Group,
    /// One of our own is locked (flock(2)) for as long as the manager lives: who can lock it has no
    /// living manager before it.
    dir: Handle,
    manager: Identity,
    /// Limits of groups that are beside the wall and not above it, which hold for it all the same.
    ceiling: Limits,
    /// Where the manager stands, if it had to leave its group for the wall to be below that.
    leaf: Option<Leaf>,
    /// A limit is lowered and put back by one thread at a time.
    turn: Mutex<()>,
    /// While a limit stands on it: the kernel's counters of it are kept fresh.
    fresh: Mutex<Option<Fresh>>,
}

/// For the kernel to take apart who has just ended.
const LEAVING: Duration = Duration::from_millis(500);

impl Wall {
    /// An empty group for a manager, below the group that we are in; on version 2, where a group that has
    /// processes can have no group below it that counts memory, at the nearest place (`wall/place.rs`).
    ///
    /// `peers` are further processes of ours that may be moved out of our group with the calling one.
    ///
    /// # Errors
    /// If there is no place for one, or it may not be made. Nothing is left then.
    pub fn make(proc: &Proc, manager: Identity, peers: &[u32]) -> Result<Wall, WallError> {
        let groups = Groups::find(proc)?;
        let own = groups
            .of_process(proc, std::process::id())?
            .ok_or(WallError::Unseen)?;
        let name = mark::name(manager);
        let mut ours = vec![std::process::id(), manager.pid];
        ours.extend_from_slice(peers);
        ours.sort_unstable();
        ours.dedup();
        let scope = |own: &Group, pids: &[u32]| scope::start(&name, own, pids);
        let request = Request {
            groups: &groups,
            proc,
            ours: &ours,
            name: &name,
            scope: scope::is_there().then_some(&scope),
        };
        let place = request.find(&own)?;
        match Wall::make_at(groups, &place, manager, &name) {
            Ok(wall) => Ok(wall),
            Err(error) => {
                if let Some(leaf) = &place.leaf {
                    leaf.undo();
                }
                Err(error)
            }
        }
    }

    fn make_at(
        groups: Groups,
        place: &Place,
        manager: Identity,
        name: &str,
    ) -> Result<Wall, WallError> {
        let path = place.parent.join(name);
        let failed = |errno| WallError::making(&path, errno);
        rustix::fs::mkdir(&path, files::PASSED_THROUGH.into()).map_err(failed)?;
        let mark = Mark {
            manager,
            ceiling: place.ceiling,
        };
        let open = || -> Result<OwnedFd, Errno> {
            let dir = files::open_dir(&path)?;
            flock(&dir, FlockOperation::NonBlockingLockExclusive)?;
            mark.set(&dir)?;
            Ok(dir)
        };
        let wall = open().map_err(failed).and_then(|dir| {
            let group = group_of(&groups, &path).ok_or(WallError::Unseen)?;
            let wall = Wall::of(groups, group, Handle::Held(dir), &mark, place.leaf.clone());
            // Also tells whether memory is counted there at all.
            wall.lift()
                .and_then(|()| wall.charged())
                .map_err(|why| WallError::NoLimits {
                    path: path.clone(),
                    why,
                })?;
            Ok(wall)
        });
        if wall.is_err() {
            let _ = rustix::fs::rmdir(&path);
        }
        wall
    }

    fn of(groups: Groups, group: Group, dir: Handle, mark: &Mark, leaf: Option<Leaf>) -> Wall {
        Wall(Arc::new(Inner {
            groups,
            group,
            dir,
            manager: mark.manager,
            ceiling: mark.ceiling,
            leaf,
            turn: Mutex::new(()),
            fresh: Mutex::new(None),
        }))
    }

    /// Walls of managers that are dead, wherever the hierarchy shows them and if they are of our user:
    /// `manager` has them now. Their limits stay until they are lifted, set or removed.
    ///
    /// # Errors
    /// If there are no control groups that count memory.
    pub fn left_behind(proc: &Proc, manager: Identity) -> Result<Vec<Wall>, WallError> {
        let groups = Groups::find(proc)?;
        Ok(Wall::claim_below(&groups, manager))
    }

    /// (At each start of a `run`: so this takes a bounded time, however many groups anybody has
    /// made.)
    fn claim_below(groups: &Groups, manager: Identity) -> Vec<Wall> {
        const MOST: Most = Most {
            groups: 20_000,
            below_each: 1000,
        };
        let mut found = Vec::new();
        let Ok(top) = files::open_dir(&groups.mount) else {
            return found;
        };
        // What cannot be read is not taken up.
        let _ = walk::<Errno>(top, MOST, &mut |visited| {
            if visited.name().is_some_and(Wall::is_of_run) {
                let path = visited.path(&groups.mount);
                found.extend(Wall::claim(groups, &path, manager));
            }
            Ok(Next::Below)
        });
        found
    }

    fn claim(groups: &Groups, path: &Path, manager: Identity) -> Option<Wall> {
        mark::is_name(path.file_name()?)?;
        let dir = files::open_dir(path).ok()?;
        let stat = rustix::fs::fstat(&dir).ok()?;
        // Of another user, it is not for us to say whether its limits matter.
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return None;
        }
        let mark = Mark::of(&dir)?;
        flock(&dir, FlockOperation::NonBlockingLockExclusive).ok()?;
        let mark = Mark { manager, ..mark };
        mark.set(&dir).ok()?;
        let group = group_of(groups, path)?;
        let leaf = Leaf::left_beside(path);
        Some(Wall::of(
            groups.clone(),
            group,
            Handle::Held(dir),
            &mark,
            leaf,
        ))
    }

    /// The group, for reports and messages.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.0.group
    }

    /// The hierarchy that it is in.
    #[must_use]
    pub fn groups(&self) -> &Groups {
        &self.0.groups
    }

    /// Which interface its limits have.
    #[must_use]
    pub fn version(&self) -> Version {
        self.0.groups.version
    }

    /// Who has it.
    #[must_use]
    pub fn manager(&self) -> Identity {
        self.0.manager
    }

    fn dir(&self) -> Result<Opened<'_>, Errno> {
        self.0.dir.open(&self.0.group.dir)
    }

    /// The same for several uses in a row.
    fn opened(&self) -> io::Result<Opened<'_>> {
        self.dir().map_err(|errno| self.io_error("", errno))
    }

    /// Writes one of its files.
    fn put(&self, file: &str, text: &str) -> Result<(), Errno> {
        files::write(&*self.dir()?, file, text)
    }

    /// Moves a process with all its threads in. What it was charged for before stays where it was, so this
    /// comes before its exec.
    ///
    /// # Errors
    /// If it is gone, or may not be moved.
    pub fn enter(&self, pid: u32) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// The processes in it, those in groups that they made below it included.
    ///
    /// # Errors
    /// If it is gone, or cannot be read.
    pub fn pids(&self) -> io::Result<Vec<u32>> {
        let pids = self.0.groups.processes(&self.0.group);
        pids.map_err(io::Error::other)?
            .ok_or_else(|| self.io_error("cgroup.procs", Errno::NOENT))
    }

    /// Lifts it, and removes it if nobody is in it; whether it is gone. Who is left stays in it, without a
    /// limit, as do groups that somebody made below it: they are not ours.
    ///
    /// # Errors
    /// If the kernel refuses for another reason.
    pub fn remove(&self) -> io::Result<bool> {
        match self.lift() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.undo_leaf();
                return Ok(true);
            }
            Err(error) => return Err(error),
        }
        let end = Instant::now() + LEAVING;
        loop {
            match rustix::fs::rmdir(&self.0.group.dir) {
                Ok(()) | Err(Errno::NOENT) => break,
                Err(Errno::BUSY | Errno::NOTEMPTY) => {}
                Err(errno) => return Err(self.io_error("", errno)),
            }
            // Who is in it, and groups that somebody made below it, do not go by waiting.
            let is_used = self.has_below() || !self.pids().unwrap_or_default().is_empty();
            if is_used || Instant::now() >= end {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.undo_leaf();
        Ok(true)
    }

    /// Whether there are groups below it; what cannot be read may have some.
    fn has_below(&self) -> bool {
        self.below(1)
            .map_or_else(|errno| !is_gone(errno), |below| below.count > 0)
    }

    /// What was made beside it goes, too.
    fn undo_leaf(&self) {
        if let Some(leaf) = &self.0.leaf {
            leaf.undo();
        }
    }

    /// Whether it still is a group. By its open directory: another of the same name may stand at its place by now. (The story: a service was killed
    /// and started anew, and the events of the one that was gone were told to be none.)
    #[must_use]
    pub fn is_there(&self) -> bool {
        let procs = self.file("cgroup.procs");
        !matches!(procs, Err(Errno::NODEV | Errno::NOENT))
            && self.0.group.dir.join("cgroup.procs").exists()
    }

    fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        self.file(file).map_err(|errno| self.io_error(file, errno))
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        self.put(file, text)
            .map_err(|errno| self.io_error(file, errno))
    }

    /// What the kernel said, and of which file.
    fn io_error(&self, file: &str, errno: Errno) -> io::Error {
        let mut text = self.0.group.dir.join(file).display().to_string();
        let _ = write!(text, ": {errno}");
        io::Error::new(files::kind(errno), text)
    }
}

/// The group of a directory below the mount.
fn group_of(groups: &Groups, dir: &Path) -> Option<Group> {
    let relative = dir.strip_prefix(&groups.mount).ok()?;
    Some(Group {
        path: PathBuf::from("/").join(relative),
        dir: dir.to_owned(),
    })
}
