//! Where the wall can be.
//!
//! Invariant: every limit that holds for our own group holds for the wall, by the kernel where the wall is
//! below that group, else by a ceiling that we keep. Nobody is moved but the calling process and its peers,
//! and these stay within their own group or a scope that systemd makes for them.
//!
//! Version 1: below our own group, always. Version 2 knows no group that has processes and groups below it
//! that count memory (cgroups(7), "no internal processes"), its root alone excepted. So, in this order:
//! 1. below our own group where it may have such groups: it is the root;
//! 2. below it after all who are in it, which must be ourselves alone, moved to a leaf of their own beside the
//!    wall: a delegated group, such as `systemd-run --user --scope -p Delegate=yes` makes one;
//! 3. in the same way in a transient scope that systemd delegates to us;
//! 4. beside our own group, below the nearest group above that hands memory down and that we may write: root
//!    without systemd.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

use super::error::WallError;
use super::files;
use super::limits::Limits;
use crate::system::cgroup::Version;
use crate::system::cgroup::walk::names_below;
use crate::system::proc::read_path;
use crate::system::text::{lines, words};
use crate::system::{Group, Groups, Proc};

const SUBTREE: &str = "cgroup.subtree_control";
/// For systemd to have moved us.
const MOVING: Duration = Duration::from_secs(3);

/// A directory for the wall.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) parent: PathBuf,
    pub(super) ceiling: Limits,
    pub(super) leaf: Option<Leaf>,
}

/// The group beside the wall in which the manager stands, so that the group of both has no processes.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    dir: PathBuf,
    /// Whether it was us who had the group above hand memory down.
    enabled: bool,
}

/// Asks for a scope in the slice of a group, with these processes in it.
pub(super) type AskScope<'a> = dyn Fn(&Group, &[u32]) -> Result<(), String> + 'a;

/// What is asked for a place.
pub(super) struct Request<'a> {
    pub(super) groups: &'a Groups,
    pub(super) proc: &'a Proc,
    /// The processes that may be moved.
    pub(super) ours: &'a [u32],
    /// The wall's name.
    pub(super) name: &'a str,
    /// Asks systemd for a scope; `None` where there is no systemd.
    pub(super) scope: Option<&'a AskScope<'a>>,
}

impl Request<'_> {
    /// A place for the wall of the processes in `own`.
    pub(super) fn find(&self, own: &Group) -> Result<Place, WallError> {
        if self.groups.version == Version::V1 {
            return Ok(Place::below(&own.dir, Limits::default(), None));
        }
        match hand_down(&own.dir) {
            Ok(()) => return Ok(Place::below(&own.dir, Limits::default(), None)),
            // Nor can any other group be made by that mount. (The story: in a container root was told to run as root.)
            Err(Errno::ROFS) => {
                return Err(WallError::ReadOnly {
                    path: own.dir.clone(),
                });
            }
            Err(_) => {}
        }
        let mut tried = match self.alone(own) {
            Ok(leaf) => return Ok(Place::below(&own.dir, Limits::default(), Some(leaf))),
            Err(why) => why,
        };
        if let Some(scope) = self.scope {
            match self.in_scope(own, scope) {
                Ok(place) => return Ok(place),
                Err(why) => tried = why,
            }
        }
        // A scope that was made and did not do is ours to stay in; limits of our first group hold.
        self.beside(own).ok_or_else(|| WallError::NoPlace {
            own: own.dir.clone(),
            why: tried,
        })
    }

    /// A leaf for all who are in a group, if that is nobody but us.
    fn alone(&self, own: &Group) -> Result<Leaf, String> {
        let inside = self.groups.own_processes(own).map_err(|e| e.to_string())?;
        let others = inside.as_deref().unwrap_or_default().iter();
        let others = others.filter(|pid| !self.ours.contains(pid)).count();
        if others > 0 {
            return Err(format!("{others} other processes are in our own group"));
        }
        let leaf = Leaf {
            dir: own.dir.join(format!("{}.manager", self.name)),
            enabled: true,
        };
        let failed = |errno: Errno| {
            leaf.undo();
            format!("{}: {errno}", leaf.dir.display())
        };
        rustix::fs::mkdir(&leaf.dir, 0o755.into())
            .map_err(|errno| format!("{}: {errno}", leaf.dir.display()))?;
        for pid in inside.unwrap_or_default() {
            put(&leaf.dir.join("cgroup.procs"), &pid.to_string()).map_err(failed)?;
        }
        hand_down(&own.dir).map_err(failed)?;
        Ok(leaf)
    }

    fn in_scope(&self, own: &Group, scope: &AskScope<'_>) -> Result<Place, String> {
        scope(own, self.ours)?;
        let end = Instant::now() + MOVING;
        let new = loop {
            let pid = std::process::id();
            let now = self.groups.of_process(self.proc, pid);
            match now.map_err(|error| error.to_string())? {
                // One after the other is moved: whoever came when memory is handed down already would be refused.
                Some(now) if now != *own && self.are_in(&now) => break now,
                _ if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
                _ => return Err("systemd made a scope and did not move all of us there".to_owned()),
            }
        };
        let leaf = self.alone(&new)?;
        let ceiling = beside_limits(&own.dir, &new.dir, &self.groups.mount);
        Ok(Place::below(&new.dir, ceiling, Some(leaf)))
    }

    /// Whether all who may be moved are there; who has ended does not matter.
    fn are_in(&self, group: &Group) -> bool {
        let home = |pid: &u32| self.groups.of_process(self.proc, *pid).ok().flatten();
        let mut homes = self.ours.iter().filter_map(home);
        homes.all(|home| home == *group)
    }

    fn beside(&self, own: &Group) -> Option<Place> {
        let mount = &self.groups.mount;
        let mut above = own.dir.ancestors().skip(1);
        let parent = above.find(|dir| {
            dir.starts_with(mount)
                && may_write(dir)
                && may_write(&dir.join("cgroup.procs"))
                && hand_down(dir).is_ok()
        })?;
        let ceiling = beside_limits(&own.dir, parent, mount);
        Some(Place::below(parent, ceiling, None))
    }
}

impl Place {
    fn below(parent: &Path, ceiling: Limits, leaf: Option<Leaf>) -> Place {
        Place {
            parent: parent.to_owned(),
            ceiling,
            leaf,
        }
    }
}

impl Leaf {
    /// The empty one that a dead manager left beside its wall. Who handed memory down is not known.
    pub(super) fn left_beside(wall: &Path) -> Option<Leaf> {
        let name = wall.file_name()?.to_str()?;
        let dir = wall.with_file_name(format!("{name}.manager"));
        let enabled = false;
        dir.is_dir().then_some(Leaf { dir, enabled })
    }

    /// Whether no other group is right below the one that it is in.
    fn is_alone_below(&self, above: &Path) -> bool {
        let below = files::open_dir(above).and_then(|above| names_below(&above, 2));
        let name = self.dir.file_name().map(OsStr::as_bytes);
        below.is_ok_and(|below| {
            let mut names = below.names.iter().map(|name| Some(name.to_bytes()));
            names.len() == 1 && names.all(|found| found == name)
        })
    }

    /// Back to the group that it is in, if no other group below that needs memory counted. What does not
    /// succeed is left: it limits nothing.
    pub(super) fn undo(&self) {
        let Some(above) = self.dir.parent() else {
            return;
        };
        if self.enabled && self.is_alone_below(above) {
            let _ = hand_down_no_more(above);
            let inside = read_path(&self.dir.join("cgroup.procs"));
            for pid in lines(&inside.ok().flatten().unwrap_or_default()) {
                let _ = put(&above.join("cgroup.procs"), &String::from_utf8_lossy(pid));
            }
        }
        let _ = rustix::fs::rmdir(&self.dir);
    }
}

/// Limits of our own group and those above it which are not above `parent`, nor that group itself: those
/// hold for the wall by themselves.
fn beside_limits(own: &Path, parent: &Path, mount: &Path) -> Limits {
    own.ancestors()
        .take_while(|dir| dir.starts_with(mount) && !parent.starts_with(dir))
        .map(Limits::of_v2)
        .fold(Limits::default(), Limits::least)
}

/// Whether groups below this one count memory, after asking for it.
pub(super) fn hand_down(dir: &Path) -> Result<(), Errno> {
    let file = dir.join(SUBTREE);
    let text = read_path(&file)?.ok_or(Errno::NOENT)?;
    if words(text.trim_ascii()).any(|word| word == b"memory") {
        return Ok(());
    }
    put(&file, "+memory")
}

/// Groups below this one need not count memory any more.
pub(super) fn hand_down_no_more(dir: &Path) -> Result<(), Errno> {
    put(&dir.join(SUBTREE), "-memory")
}

fn may_write(path: &Path) -> bool {
    accessat(CWD, path, Access::WRITE_OK, AtFlags::empty()).is_ok()
}

/// One write(2) to a file that is there.
fn put(path: &Path, text: &str) -> Result<(), Errno> {
    let dir = files::open_dir(path.parent().ok_or(Errno::NOENT)?)?;
    let name = path.file_name().and_then(|name| name.to_str());
    files::write(&dir, name.ok_or(Errno::NOENT)?, text)
}
