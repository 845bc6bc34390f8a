//! Watching a target: looks at a steady pace, and a report of all that they saw.
//!
//! Invariant: nothing is changed but accessed bits ([`crate::ages`]); we never look at ourselves. All
//! time is the time since watching began, in steps of the interval, so that a look that comes a little
//! late makes no page older.
//!
//! Words: a *look* goes through the whole target once; the books number looks as *rounds*; a *reading* is of one
//! process's tables; a *walk* is the engine's ([`engine::Memory::walk`]; what reports call `walks` are looks).
//!
//! Floors: [`source`], `people`, `phase`, `kernel_sums`, `own`, `group`, `bins`, `shares` and `curve` know one thing each;
//! `compose` makes a report of them; `round` is a look; here is the pace.

mod bins;
mod compose;
pub(crate) mod curve;
mod error;
mod falling;
mod group;
mod kernel_sums;
pub(crate) mod own;
mod parts;
mod people;
mod phase;
mod round;
mod shares;
pub mod source;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use engine::workingset::RefaultCurve;
use engine::{Millis, Pages};

use crate::ages::{Ages, Pauses};
use crate::report::{AgeSource, Curve, Report};
use crate::system::events::Events;
use crate::system::family::{Departure, Family, Target};
use crate::system::vmstat::has_multi_gen;
use crate::system::{Filesystems, Group, Groups, Identity, Mapping, Proc, Vmstat};
use crate::system::{own_cpu, thread_cpu};

use curve::Seen;
pub use error::WatchError;
use kernel_sums::KernelSums;
pub use parts::NameOf;
use parts::Parts;
use people::People;
pub use round::Sharing;
use round::{Round, SharedScans};
pub use shares::Late;

/// Between two looks, events of forks and exits are taken at least so often: the kernel keeps some
/// 20,000 for us.
const PULSE: Duration = Duration::from_millis(250);

/// Between looks, to follow who lives may take this part of a processor: without process events it is a reading of all of /proc, which takes
/// a tenth of a second where there are ten thousand.
const FOLLOW_SHARE: u32 = 50;

/// What must be known where reclaim ages by accessed bits.
const MULTI_GEN: &str = "the kernel's multi-gen LRU is on: when it ages, it clears accessed bits, and pages that it \
    took them from look older than they are";

/// What is watched, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose memory.
    pub target: Target,
    /// Time between two looks.
    pub interval: Duration,
    /// The longest that a clearing of accessed bits may be expected to hold up a process that takes page
    /// faults; none for what suits the interval ([`Pauses`]).
    pub max_wait: Option<Duration>,
    /// A source other than the best that works.
    pub source: Option<AgeSource>,
    /// Whether this process is pagetide's own: then its memory is locked, and it stays readable to itself. One that
    /// only calls us keeps its ways.
    pub own_process: bool,
}

/// A watch.
pub struct Watch {
    settings: Settings,
    ages: Ages,
    family: Family,
    events: Option<Events>,
    proc: Proc,
    groups: Option<Groups>,
    /// The control group that was asked for.
    group: Option<Group>,
    people: People,
    kernel: KernelSums,
    /// Before this it is too early to follow who lives between two looks, by what the last time took.
    follow_next: Instant,
    /// How the first process ended, if the kernel's events told.
    exit: Option<i32>,
    /// The first process's command line, also when it is gone.
    command: String,
    notes: Vec<String>,
    /// The machine's counters when watching began.
    vmstat: Vmstat,
    begin: Instant,
    /// The processor time that we had used before.
    cpu_before: Duration,
    members: Vec<Identity>,
    /// Processes that are not looked at, with their descendants.
    left_out: BTreeSet<u32>,
    /// Who is in the target's group, as somebody else has just listed it.
    listed: Option<Vec<u32>>,
    /// The look that is under way.
    round: Option<Round>,
    /// Members that could not be read in the last round, and why the first of them.
    denied: (u64, String),
    /// Members whose memory was locked at the last look, so that nothing of it could be read.
    locked: Vec<Identity>,
    /// Time of the last round, milliseconds.
    now_ms: u64,
    /// When the last look that is over was: what is told is as of then, while another one is under way, too.
    ended_ms: u64,
    /// How tenants share the time of scans.
    shared: SharedScans,
    rounds: u64,
    peak_bytes: u64,
    curve: RefaultCurve,
    parts: Option<Parts>,
    finished: bool,
}

/// Refuses a target that is a thread: who is watched is a process, with all its threads.
fn refuse_thread(proc: &Proc, target: &Target) -> Result<(), WatchError> {
    let Target::Descendants(pid) = *target else {
        return Ok(());
    };
    match proc.status(pid)?.filter(|status| status.tgid != pid) {
        None => Ok(()),
        Some(status) => {
            let own = status.tgid;
            let what = format!("cannot watch {pid}: it is a thread of process {own}");
            Err(WatchError::failure(what, format!("give {own}")))
        }
    }
}

impl Watch {
    /// Begins to watch; the first look is [`Watch::look`]'s.
    ///
    /// # Errors
    /// There is no such target, or no right to look at it.
    pub fn open(settings: Settings) -> Result<Watch, WatchError> {
        let own = own::Own::prepared(settings.own_process);
        let proc = Proc::system()?;
        refuse_thread(&proc, &settings.target)?;
        let chosen = source::choose(settings.source)
            .map_err(|(what, hint)| WatchError::missing(what, hint))?;
        let mut notes = chosen.notes;
        let events = match Events::open() {
            Ok(events) => Some(events),
            Err(error) => {
                let hint = error.hint();
                notes.push(format!(
                    "forks and exits are found by looks alone: {error}; to change that: {hint}"
                ));
                None
            }
        };
        let groups = match Groups::find(&proc) {
            // That says nothing of control groups.
            Err(error) if error.lack().is_some() => return Err(error.into()),
            found => found.ok(),
        };
        let group = match (&settings.target, &groups) {
            (Target::Group(group), _) => Some(group.clone()),
            (Target::All, Some(groups)) => Some(groups.root()),
            _ => None,
        };
        let family = Family::new(proc.clone(), groups.clone(), settings.target.clone())?;
        if let Err(why) = own.lock_memory(&proc) {
            notes.push(why);
        }
        let places = (proc.clone(), Filesystems::system(&proc)?, proc.nodes()?);
        if has_multi_gen() {
            notes.push(MULTI_GEN.to_owned());
        }
        let vmstat = proc.vmstat().unwrap_or_default();
        let pauses = Pauses::new(settings.max_wait, settings.interval);
        Ok(Watch {
            ages: Ages::new(chosen.source, places, pauses, 0),
            settings,
            family,
            events,
            proc,
            groups,
            group,
            people: People::default(),
            kernel: KernelSums::default(),
            follow_next: Instant::now(),
            exit: None,
            command: String::new(),
            notes,
            vmstat,
            begin: Instant::now(),
            cpu_before: own_cpu(),
            members: Vec::new(),
            left_out: BTreeSet::new(),
            listed: None,
            round: None,
            denied: (0, String::new()),
            locked: Vec::new(),
            now_ms: 0,
            ended_ms: 0,
            shared: SharedScans::default(),
            rounds: 0,
            peak_bytes: 0,
            curve: RefaultCurve::default(),
            parts: None,
            finished: false,
        })
    }

    /// Waits until the next look is due (the first one is at once), looks, and reports all until now.
    ///
    /// # Errors
    /// The target cannot be read at all.
    pub fn look(&mut self) -> Result<Report, WatchError> {
        self.wait();
        self.look_now(&mut ())?;
        self.note_curve(0);
        let report = self.report();
        self.note_parts(&report.processes);
        Ok(report)
    }

    /// What less memory would cost, as far as looks know.
    #[must_use]
    pub fn curve(&self) -> Option<Curve> {
        curve::report_of(&self.curve)
    }

    /// Once after each look that the curve is to know of: `back` pages had left and were back.
    pub fn note_curve(&mut self, back: u64) {
        let mut seen = Seen::default();
        for space in self.members.iter().filter_map(|one| self.ages.space(*one)) {
            seen.add(self.ages.books(), space.owner);
        }
        let books = self.ages.books();
        self.curve
            .begin_is(|begin| Millis(books.representative_ms(begin.0)));
        self.curve.look(seen.into_look(self.now_ms, back));
    }

    /// Time since watching began, milliseconds.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        Millis::from(self.begin.elapsed()).0
    }

    /// The time of the last look, milliseconds since watching began.
    #[must_use]
    pub fn looked_ms(&self) -> u64 {
        self.now_ms
    }

    /// The time of the last look that is over: ages are told as of then.
    #[must_use]
    pub fn ended_ms(&self) -> u64 {
        self.ended_ms
    }

    /// The next look is now.
    pub fn advance(&mut self) {
        self.now_ms = self.elapsed_ms().max(self.now_ms + 1);
    }

    /// The ages.
    #[must_use]
    pub fn ages(&self) -> &Ages {
        &self.ages
    }

    /// The ages, to look at entries, and where processes are read.
    pub fn ages_and_proc(&mut self) -> (&mut Ages, &Proc) {
        (&mut self.ages, &self.proc)
    }

    /// Time between two looks.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.settings.interval
    }

    /// Time until the next look, for who keeps the pace by himself: the interval, or a little less, another part of it
    /// after each look (`phase`).
    #[must_use]
    pub fn apart(&self) -> Duration {
        self.apart_of(self.settings.interval)
    }

    /// [`Watch::apart`], where somebody wants looks to be `every` apart and not the interval.
    #[must_use]
    pub fn apart_of(&self, every: Duration) -> Duration {
        phase::apart(self.rounds, every)
    }

    /// The mappings of a process; none if it is gone or may not be read.
    pub fn mappings(&mut self, pid: u32) -> Vec<Mapping> {
        self.ages.mappings(pid)
    }

    /// The processes of the last look.
    #[must_use]
    pub fn members(&self) -> &[Identity] {
        &self.members
    }

    /// Entries of private memory that were swapped out at the last look.
    #[must_use]
    pub fn swapped_pages(&self) -> Pages {
        let spaces = self.members.iter().filter_map(|one| self.ages.space(*one));
        Pages(spaces.map(|space| space.found.swapped).sum())
    }

    /// Where processes are read.
    #[must_use]
    pub fn proc(&self) -> &Proc {
        &self.proc
    }

    /// Whether all processes are gone: the last report was the last.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// Sleeps until the next round is due, and sets its time.
    fn wait(&mut self) {
        if self.rounds == 0 {
            return;
        }
        let interval_ms = self.interval_ms();
        let late = phase::late(self.rounds, self.settings.interval);
        let due = self.begin + Duration::from_millis(self.now_ms + interval_ms) + late;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(PULSE));
            if left > PULSE {
                // What lives between two looks is seen here, at least its coming and going.
                let _ = self.follow_if_cheap();
            }
        }
        let late = self.elapsed_ms();
        // The time in whole intervals, the nearest: a look a little late is a look in time.
        let nearest = (late + interval_ms / 2) / interval_ms * interval_ms;
        self.now_ms = nearest.max(self.now_ms + 1);
    }

    fn interval_ms(&self) -> u64 {
        Millis::from(self.settings.interval).0.max(1)
    }

    fn update_members(&mut self) -> Result<(), WatchError> {
        self.follow()?;
        let members = self.family.members();
        let members = members.filter(|member| !self.is_left_out(member.identity.pid));
        self.members = members.map(|member| member.identity).collect();
        self.members.sort_unstable();
        let may_be_empty = !matches!(self.settings.target, Target::Descendants(_));
        if self.rounds == 0 && self.members.is_empty() && !may_be_empty {
            if matches!(self.settings.target, Target::Descendants(pid) if pid == std::process::id())
            {
                let what = "cannot watch pagetide itself: it leaves itself alone";
                return Err(WatchError::failure(what, "give another process"));
            }
            return Err(WatchError::failure(
                format!(
                    "cannot watch {}: no process of it has memory of its own",
                    self.name()
                ),
                "give a process that runs; `pagetide top` shows them",
            ));
        }
        Ok(())
    }

    /// Who is in the target's control group and in those below it, for the next look: it need not list them again.
    pub fn list(&mut self, pids: Vec<u32>) {
        self.listed = Some(pids);
    }

    /// From the next look on, these processes and their descendants are not looked at.
    pub fn leave_out(&mut self, pids: BTreeSet<u32>) {
        self.left_out = pids;
    }

    fn is_left_out(&self, pid: u32) -> bool {
        let mut pid = Some(pid);
        // A look is not one moment, so parents may form a ring.
        for _ in 0..64 {
            let Some(one) = pid.filter(|_| !self.left_out.is_empty()) else {
                return false;
            };
            if self.left_out.contains(&one) {
                return true;
            }
            pid = self.family.member(one).map(|member| member.parent);
        }
        false
    }

    /// Brings the family up to date, and notes how the first process ended and whether all have.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn follow(&mut self) -> Result<(), WatchError> {
        let (worked, listed) = (thread_cpu(), self.listed.take());
        let changes = self.family.update(self.events.as_mut(), listed)?;
        let worked = thread_cpu().saturating_sub(worked);
        self.follow_next = Instant::now() + worked * FOLLOW_SHARE;
        self.finished = self.family.members().next().is_none()
            && match &self.settings.target {
                Target::Descendants(_) => true,
                Target::Group(group) => !group.dir.is_dir(),
                Target::All => false,
            };
        let Target::Descendants(first) = self.settings.target else {
            return Ok(());
        };
        for gone in changes
            .gone
            .iter()
            .filter(|gone| gone.identity.pid == first)
        {
            if let Departure::Ended {
                status: Some(status),
            } = gone.how
            {
                self.exit = Some(exit_code(status));
            }
        }
        Ok(())
    }

    /// The same between two looks, unless it is too dear so soon.
    ///
    /// # Errors
    /// As [`Watch::follow`].
    pub fn follow_if_cheap(&mut self) -> Result<(), WatchError> {
        match Instant::now() < self.follow_next {
            true => Ok(()),
            false => self.follow(),
        }
    }

    /// Whether a process is one of those that are watched, as of now. The story: a child of three seconds was nobody's until the next look, so
    /// a second manager of it began or was refused by chance.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn has(&mut self, pid: u32) -> Result<bool, WatchError> {
        self.follow()?;
        Ok(self.family.member(pid).is_some() && !self.is_left_out(pid))
    }

    /// The target in words.
    fn name(&self) -> String {
        match &self.settings.target {
            Target::Descendants(pid) => format!("pid {pid}"),
            Target::Group(group) => group.path.display().to_string(),
            Target::All => "all processes".to_owned(),
        }
    }
}

/// A status of wait(2) as a shell gives it.
fn exit_code(status: u32) -> i32 {
    let (code, signal) = (status >> 8 & 0xff, status & 0x7f);
    let shown = if signal == 0 { code } else { 128 + signal };
    i32::try_from(shown).unwrap_or(i32::MAX)
}
