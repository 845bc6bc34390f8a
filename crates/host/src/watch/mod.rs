//! Watches a target: scans the target at a steady interval, and reports what the scans found.
//!
//! Invariant: nothing is changed except accessed bits ([`crate::ages`]); pagetide never scans its
//! own process. Scan times are whole intervals since the start of the watch, so that a scan that
//! begins a little late makes no page older.
//!
//! Terms: a *scan* reads every process of the target once. Reading the page tables of one process
//! is a *walk* (in some names, a reading); [`engine::Memory::walk`] is the engine's. The field
//! `walks` of reports counts scans.
//!
//! Submodules: `mapped_files`, [`source`], `process_names`, `phase`, `kernel_sums`, `own`, `group`,
//! `bins`, `shares` and `curve` each do one thing; `compose` makes a report from their results;
//! `scan_in_progress` does a scan; this module decides when to scan.

mod mapped_files;

mod bins;
mod error;
mod falling;
mod group;
mod kernel_sums;
pub(crate) mod own;
mod phase;
mod process_names;
mod shares;
pub mod source;

mod compose;
pub(crate) mod curve;

mod parts;
mod scan_in_progress;

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
use process_names::ProcessNames;
pub use scan_in_progress::Sharing;
use scan_in_progress::{ScanInProgress, SharedScans};
pub use shares::Late;

/// Longest time between two reads of the kernel's fork and exit events while no scan runs. The
/// kernel buffers about 20,000 events for us.
const PULSE: Duration = Duration::from_millis(250);

/// Pause after listing processes between two scans, as a multiple of the processor time that the
/// listing took. Without process events a listing reads all of /proc: 0.1 s with ten thousand
/// processes.
const FOLLOW_SHARE: u32 = 50;

/// A note for reports: the multi-gen LRU also clears accessed bits, which changes the ages that we
/// see.
const MULTI_GEN: &str = "the kernel's multi-gen LRU is on: its aging clears accessed bits, and \
    such pages may be younger than reported";

/// Settings of a watch.
#[derive(Clone, Debug)]
pub struct WatchSettings {
    /// The processes to watch.
    pub target: Target,
    /// Time between two scans.
    pub interval: Duration,
    /// Longest time for which clearing accessed bits may be expected to delay a process with page
    /// faults; `None` for a value that suits the interval ([`Pauses`]).
    pub max_wait: Option<Duration>,
    /// The source of accessed bits; `None` for the best source that works here.
    pub source: Option<AgeSource>,
    /// Limit of pagetide's own memory for ages, bytes. `None`: three quarters of the memory that
    /// the limits of our control groups allow this process; no limit if they set none.
    pub memory: Option<u64>,
    /// Whether this process is pagetide itself. If so, its memory is locked, and its `/proc` files
    /// are kept readable to it. For a program that only uses this library, nothing is changed.
    pub own_process: bool,
}

/// A watch of one target.
pub struct Watch {
    settings: WatchSettings,
    ages: Ages,
    family: Family,
    events: Option<Events>,
    proc: Proc,
    groups: Option<Groups>,
    /// The control group that is the target; `None` if the target is a process or all processes.
    group: Option<Group>,
    people: ProcessNames,
    kernel: KernelSums,
    /// Earliest time of the next listing of processes between two scans ([`FOLLOW_SHARE`]).
    follow_next: Instant,
    /// Exit code of the target's first process, if the kernel's events reported it.
    exit: Option<i32>,
    /// Command line of the target's first process; kept after the process has ended.
    command: String,
    notes: Vec<String>,
    /// The host's counters of swapped pages when the watch began.
    vmstat: Vmstat,
    begin: Instant,
    /// Processor time that this process had used before the watch began.
    cpu_before: Duration,
    members: Vec<Identity>,
    /// PIDs of excluded processes: neither they nor their descendants are scanned.
    left_out: BTreeSet<u32>,
    /// PIDs in the target's control group, if the caller has just listed them ([`Watch::list`]).
    listed: Option<Vec<u32>>,
    /// The scan that is running; `None` between two scans.
    round: Option<ScanInProgress>,
    /// Number of processes that the last scan could not read, and the error of the first one.
    denied: (u64, String),
    /// Processes that the last scan could not read because their mmap_lock was held.
    locked: Vec<Identity>,
    /// Time of the last scan that began, milliseconds since the watch began.
    now_ms: u64,
    /// Time of the last completed scan, milliseconds since the watch began. Reports are as of this
    /// time, even while another scan runs.
    ended_ms: u64,
    /// Divides the time of scans among tenants.
    shared: SharedScans,
    rounds: u64,
    peak_bytes: u64,
    curve: RefaultCurve,
    parts: Option<Parts>,
    finished: bool,
}

/// Returns an error if the target's PID is that of a thread, as only whole processes can be
/// watched.
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

/// Opens the kernel's fork and exit events. If they are not available, adds a note and returns
/// `None`.
fn events(notes: &mut Vec<String>) -> Option<Events> {
    match Events::open() {
        Ok(events) => Some(events),
        Err(error) => {
            let hint = error.hint();
            notes.push(format!(
                "forks and exits are found only by scans: {error}; to change that: {hint}"
            ));
            None
        }
    }
}

impl Watch {
    /// Begins to watch; [`Watch::scan`] makes the first scan.
    ///
    /// # Errors
    /// There is no such target, or we have no right to read it.
    pub fn open(settings: WatchSettings) -> Result<Watch, WatchError> {
        let own = own::OwnProcess::prepared(settings.own_process);
        let proc = Proc::system()?;
        refuse_thread(&proc, &settings.target)?;
        let chosen = source::choose(settings.source)
            .map_err(|(what, hint)| WatchError::missing(what, hint))?;
        let mut notes = chosen.notes;
        let events = events(&mut notes);
        let groups = match Groups::find(&proc) {
            // An error for lack of descriptors or memory does not mean that there are no groups.
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
        let memory = settings.memory;
        let mut watch = Watch {
            ages: Ages::new(chosen.source, places, pauses, 0),
            settings,
            family,
            events,
            proc,
            groups,
            group,
            people: ProcessNames::default(),
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
        };
        watch.limit_memory(memory);
        Ok(watch)
    }

    /// Waits until the next scan must begin (the first begins at once), scans, and returns a
    /// report.
    ///
    /// # Errors
    /// The target cannot be read at all.
    pub fn scan(&mut self) -> Result<Report, WatchError> {
        self.wait();
        self.scan_now(&mut ())?;
        self.note_curve(0);
        let report = self.report();
        self.note_parts(&report.processes);
        Ok(report)
    }

    /// Returns the refault curve: how many refaults less memory would cause; `None` before enough
    /// is known.
    #[must_use]
    pub fn curve(&self) -> Option<Curve> {
        curve::report_of(&self.curve)
    }

    /// Adds the last scan to the curve. Must be called once after each scan that should count.
    /// `back`: number of swapped-out pages that were refaulted since the scan before.
    pub fn note_curve(&mut self, back: u64) {
        let mut seen = Seen::default();
        for one in &self.members {
            match self.ages.space(*one) {
                Some(space) => seen.add(self.ages.age_table(), space.owner),
                None => seen.add_unread(self.unread_pages(*one)),
            }
        }
        let age_table = self.ages.age_table();
        self.curve
            .rename_begin(|begin| Millis(age_table.representative_ms(begin.0)));
        self.curve.scan(seen.into_scan(self.now_ms, back));
    }

    /// Returns the time since the watch began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Returns the time since the watch began, milliseconds.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        Millis::from(self.elapsed()).0
    }

    /// Returns the time of the last scan that began, milliseconds since the watch began.
    #[must_use]
    pub fn scanned_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns the time of the last completed scan, milliseconds since the watch began; reported
    /// ages are as of this time.
    #[must_use]
    pub fn ended_ms(&self) -> u64 {
        self.ended_ms
    }

    /// Sets the time of the next scan to now.
    pub fn advance(&mut self) {
        self.now_ms = self.elapsed_ms().max(self.now_ms + 1);
    }

    /// Returns the ages of all scanned pages.
    #[must_use]
    pub fn ages(&self) -> &Ages {
        &self.ages
    }

    /// Returns the ages, with which a caller can read page table entries again, and the `/proc` in
    /// use.
    pub fn ages_and_proc(&mut self) -> (&mut Ages, &Proc) {
        (&mut self.ages, &self.proc)
    }

    /// Returns the time between two scans.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.settings.interval
    }

    /// Returns the time until the next scan, for callers that wait themselves: the interval or a
    /// little less, by an amount that differs from scan to scan (`phase`).
    #[must_use]
    pub fn until_next_scan(&self) -> Duration {
        self.until_next_scan_of(self.settings.interval)
    }

    /// Returns the time until the next scan if scans are to be `every` apart (see
    /// [`Watch::until_next_scan`]).
    #[must_use]
    pub fn until_next_scan_of(&self, every: Duration) -> Duration {
        phase::until_next_scan(self.rounds, every)
    }

    /// Returns the mappings of a process; empty if the process has ended or may not be read.
    pub fn mappings(&mut self, pid: u32) -> Vec<Mapping> {
        self.ages.mappings(pid)
    }

    /// Returns the processes that the last scan covered.
    #[must_use]
    pub fn members(&self) -> &[Identity] {
        &self.members
    }

    /// Returns the number of private pages that were swapped out at the last scan.
    #[must_use]
    pub fn swapped_pages(&self) -> Pages {
        let spaces = self.members.iter().filter_map(|one| self.ages.space(*one));
        Pages(spaces.map(|space| space.found.swapped).sum())
    }

    /// Returns the `/proc` from which processes are read.
    #[must_use]
    pub fn proc(&self) -> &Proc {
        &self.proc
    }

    /// Returns whether all processes have ended, so that the last report is final.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// Sleeps until the next scan must begin, and sets the time of that scan.
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
                // Finds processes that begin and end between two scans.
                let _ = self.follow_if_cheap();
            }
        }
        let late = self.elapsed_ms();
        // Rounds to the nearest whole interval: a scan that begins a little late counts as on time.
        let nearest = (late + interval_ms / 2) / interval_ms * interval_ms;
        self.now_ms = nearest.max(self.now_ms + 1);
    }

    fn interval_ms(&self) -> u64 {
        Millis::from(self.settings.interval).0.max(1)
    }

    /// Lists the processes of the target that the next scan must cover.
    fn update_members(&mut self) -> Result<(), WatchError> {
        self.follow()?;
        let members = self.family.members();
        let members = members.filter(|member| !self.is_excluded(member.identity.pid));
        self.members = members.map(|member| member.identity).collect();
        self.members.sort_unstable();
        let may_be_empty = !matches!(self.settings.target, Target::Descendants(_));
        if self.rounds == 0 && self.members.is_empty() && !may_be_empty {
            if matches!(self.settings.target, Target::Descendants(pid) if pid == std::process::id())
            {
                let what = "cannot watch pagetide itself: it does not manage itself";
                return Err(WatchError::failure(what, "give another process"));
            }
            return Err(WatchError::failure(
                format!(
                    "cannot watch {}: no process of it has memory of its own",
                    self.name()
                ),
                "give a running process; `pagetide top` lists them",
            ));
        }
        Ok(())
    }

    /// Passes the PIDs in the target's control group and the groups below to the next scan, which
    /// then does not list them itself.
    pub fn list(&mut self, pids: Vec<u32>) {
        self.listed = Some(pids);
    }

    /// Sets the limit of pagetide's own memory for ages, bytes; `None` as in
    /// [`WatchSettings::memory`].
    pub fn limit_memory(&mut self, bytes: Option<u64>) {
        let bytes = bytes.or_else(|| own::memory(&self.proc, self.groups.as_ref()));
        self.ages.limit_memory(bytes);
    }

    /// Excludes these processes and their descendants, from the next scan on.
    pub fn exclude(&mut self, pids: BTreeSet<u32>) {
        self.left_out = pids;
    }

    /// Returns whether a process or one of its ancestors is excluded ([`Watch::exclude`]).
    fn is_excluded(&self, pid: u32) -> bool {
        let mut pid = Some(pid);
        // Processes are read one after the other, so their parents may seem to form a ring.
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

    /// Updates the list of processes; records the first process's exit code, and whether all
    /// processes have ended.
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

    /// Calls [`Watch::follow`] between two scans; does nothing if that would take too much of the
    /// time (`FOLLOW_SHARE`).
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn follow_if_cheap(&mut self) -> Result<(), WatchError> {
        match Instant::now() < self.follow_next {
            true => Ok(()),
            false => self.follow(),
        }
    }

    /// Returns whether a process belongs to the target. Lists processes first, so that children
    /// that started since the last scan count: otherwise a second manager could start for such a
    /// child.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn has(&mut self, pid: u32) -> Result<bool, WatchError> {
        self.follow()?;
        Ok(self.family.member(pid).is_some() && !self.is_excluded(pid))
    }

    /// Returns the target in words, for reports.
    fn name(&self) -> String {
        match &self.settings.target {
            Target::Descendants(pid) => format!("pid {pid}"),
            Target::Group(group) => group.path.display().to_string(),
            Target::All => "all processes".to_owned(),
        }
    }
}

/// Converts a status of wait(2) to the exit code that a shell shows.
fn exit_code(status: u32) -> i32 {
    let (code, signal) = (status >> 8 & 0xff, status & 0x7f);
    let shown = if signal == 0 { code } else { 128 + signal };
    i32::try_from(shown).unwrap_or(i32::MAX)
}
