//! The manager of one tenant: a stand-in that follows processes and pages nothing out, until the real
//! module is here.

use std::time::{Duration, Instant};

use engine::units::{Limit, Swappiness};

use crate::report::{AgeSource, Process, Report};
use crate::system::family::Departure;
use crate::system::{Events, Family, Proc, Target};
use crate::wall::Wall;
use crate::watch::WatchError;

/// What is to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// So many bytes, the coldest first.
    Bytes(u64),
    /// What was not accessed for so long.
    OlderThan(Duration),
    /// Everything.
    All,
}

/// The limits of one tenant, in the meaning of cgroup v2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Never reclaimed for another below this.
    pub min: Limit,
    /// Reclaimed below this only when nothing else is left.
    pub low: Limit,
    /// Above this, reclaimed and slowed.
    pub high: Limit,
    /// Never above this.
    pub max: Limit,
    /// At most so much in swap.
    pub swap_max: Limit,
}

/// How to manage.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose memory.
    pub target: Target,
    /// Time between two looks.
    pub interval: Duration,
    /// The longest that a clearing of accessed bits may hold a process up.
    pub max_wait: Option<Duration>,
    /// Limits.
    pub limits: Limits,
    /// Active and inactive lists in place of generations.
    pub classic: bool,
    /// Anonymous against file pages.
    pub swappiness: Swappiness,
    /// What is older leaves, whatever the limits.
    pub evict_older_than: Option<Duration>,
    /// How often that is done.
    pub every: Duration,
    /// Decide and explain only.
    pub dry_run: bool,
    /// Go on with less than was asked for.
    pub best_effort: bool,
}

/// Pages that were asked for and stayed, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Mapped more than once.
    pub shared: u64,
    /// Locked.
    pub locked: u64,
    /// Accessed meanwhile.
    pub referenced: u64,
    /// In use by the kernel.
    pub busy: u64,
}

/// What a reclaim came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reclaimed {
    /// Pages that were advised.
    pub asked_pages: u64,
    /// Pages that left.
    pub evicted_pages: u64,
    /// Pages that stayed.
    pub kept: Kept,
    /// Swap is full, or there is none.
    pub no_swap: bool,
}

/// A manager.
pub struct Manager {
    settings: Settings,
    wall: Option<Wall>,
    family: Family,
    events: Option<Events>,
    proc: Proc,
    begin: Instant,
    exit: Option<i32>,
    is_finished: bool,
}

impl Manager {
    /// Begins.
    ///
    /// # Errors
    /// No such target, or not the right.
    pub fn start(settings: Settings, wall: Option<Wall>) -> Result<Manager, WatchError> {
        let proc = Proc::system()?;
        let groups = crate::system::Groups::find(&proc).ok();
        let events = Events::open().ok();
        let family = Family::new(proc.clone(), groups, settings.target.clone())?;
        Ok(Manager {
            settings,
            wall,
            family,
            events,
            proc,
            begin: Instant::now(),
            exit: None,
            is_finished: false,
        })
    }

    /// Does all that is due; how long until the next thing is.
    ///
    /// # Errors
    /// The target cannot be read.
    pub fn work(&mut self) -> Result<Duration, WatchError> {
        let changes = self.family.update(self.events.as_mut())?;
        for gone in &changes.gone {
            if let (
                Target::Descendants(first),
                Departure::Ended {
                    status: Some(status),
                },
            ) = (&self.settings.target, gone.how)
                && *first == gone.identity.pid
            {
                let (code, signal) = (status >> 8 & 0xff, status & 0x7f);
                self.exit = i32::try_from(if signal == 0 { code } else { 128 + signal }).ok();
            }
        }
        self.is_finished = self.family.members().next().is_none();
        Ok(Duration::from_millis(100))
    }

    /// Whether all processes have ended.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.is_finished
    }

    /// All until now.
    pub fn report(&mut self) -> Report {
        let processes: Vec<Process> = self
            .family
            .members()
            .filter_map(|member| {
                let pid = member.identity.pid;
                let status = self.proc.status(pid).ok()??;
                Some(Process {
                    pid,
                    command: member.comm.clone(),
                    uid: status.uid,
                    resident_bytes: status.rss,
                    swapped_bytes: status.swap,
                    ..Process::default()
                })
            })
            .collect();
        Report {
            pid: match self.settings.target {
                Target::Descendants(pid) => Some(pid),
                _ => None,
            },
            wall_ms: u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX),
            exit: self.exit,
            resident_bytes: processes.iter().map(|process| process.resident_bytes).sum(),
            swapped_bytes: processes.iter().map(|process| process.swapped_bytes).sum(),
            age_source: AgeSource::PageTables,
            processes,
            ..Report::default()
        }
    }

    /// Puts pages out.
    ///
    /// # Errors
    /// None yet.
    pub fn reclaim(&mut self, _ask: Ask) -> Result<Reclaimed, WatchError> {
        Ok(Reclaimed::default())
    }

    /// Reads back what is out; pages.
    ///
    /// # Errors
    /// None yet.
    pub fn bring_back(&mut self) -> Result<u64, WatchError> {
        Ok(0)
    }

    /// Other limits from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.settings.limits = limits;
    }

    /// Counters under the names of memory.stat.
    #[must_use]
    pub fn stat(&self) -> Vec<(&'static str, u64)> {
        vec![("anon", 0), ("file", 0)]
    }

    /// What was done since the last call, and why.
    pub fn actions(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Ends, and gives the wall back.
    #[must_use]
    pub fn end(self) -> Option<Wall> {
        self.wall
    }
}
