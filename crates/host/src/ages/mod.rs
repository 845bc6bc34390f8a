//! The ages of some processes' pages: each scan reads their page tables into the age table.
//!
//! Invariant: a scan changes nothing of a process except its accessed bits. It clears them only if
//! that is expected to block the process's page faults no longer than allowed. If a bit was not
//! cleared and is found set again, the age becomes unknown, never young or old. A process that used
//! no processor time since the last scan accessed nothing: its pages grow older without a walk,
//! unless the kernel migrated pages.
//!
//! Submodules: `claim` (one pagetide clears a process's bits), `clearing`, `pauses` (how long that
//! may take), `space` (of one process), `reader` (walks it), `age_memory` (our own memory's limit).

mod age_memory;
mod buffered_walk;
mod claim;
mod costs;
mod found;
mod listener;
mod slices;

mod postponed;
mod space;

mod clearing;
mod page;
mod pauses;

mod reader;

mod in_parts;
mod outcome;
mod parallel;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use pagetables::access::{self, Access};
use pagetables::{Grain, Piece, Sink, Source, WalkResult};

use crate::age_table::{AgeTable, Owner};
use crate::system::{Filesystems, Identity, Mapping, Nodes, Proc, thread_cpu};

use age_memory::AgeMemory;
pub use costs::Costs;
pub use found::{Hidden, WalkSums};
use in_parts::InParts;
pub use listener::{Listener, PieceContext};
pub use outcome::ScanOutcome;
use outcome::Step;
pub use page::MemoryKind;
use page::PieceRecorder;
use parallel::{Next, Read};
pub use pauses::Pauses;
use reader::{Job, ProcessReader, WalkBounds, WalkStart};
use space::ActivityCounters;
pub use space::Space;

/// Most processes in one call of [`Ages::scan_at`]. To find out whether one process has run takes
/// about 20 us.
const SEVERAL_MAX: usize = 64;
/// Most page table entries in one call of [`Ages::scan_at`]: about 20 ms of one processor.
const SEVERAL_ENTRIES_MAX: u64 = 256 << 10;

/// Time for which a device number (st_dev) is assumed to mean the same file system: after an
/// unmount the kernel reuses the number of an overlay or tmpfs. With stale numbers, mappings of
/// overlays and shared memory would be taken for devices and would not be read.
const DEVICE_NUMBERS_TTL: Duration = Duration::from_secs(10);
/// [`DEVICE_NUMBERS_TTL`] for a scan with a new process. It is shorter: a process that is walked
/// once and then stays idle would keep a wrong kind of memory forever.
const DEVICE_NUMBERS_TTL_OF_NEW: Duration = Duration::from_secs(1);

/// The ages of a set of processes.
pub struct Ages {
    reader: ProcessReader,
    /// Readers for helper threads; created when the first parallel walk needs them.
    helpers: Vec<ProcessReader>,
    /// Number of processors that our process may use.
    processors: usize,
    age_table: AgeTable,
    spaces: BTreeMap<Identity, Space>,
    nodes: Nodes,
    pauses: Pauses,
    costs: Costs,
    /// Address spaces walked in this scan: several processes may have the same one (vfork,
    /// CLONE_VM).
    read: BTreeSet<u64>,
    /// The large process that is being walked in slices, if any.
    in_parts: Option<(Job, InParts)>,
    /// The host's count of migrated pages when this scan began.
    moved: u64,
    /// Time between this scan and the previous one.
    apart: Duration,
    /// Whether additional scans may keep file bits ([`Ages::keep_file_bits`]).
    may_keep_file_bits: bool,
    /// Whether this scan keeps file bits.
    keeps_file_bits: bool,
    /// Time of the last scan that cleared file bits, in milliseconds.
    files_cleared_ms: u64,
    /// The part of [`Ages::swapped_pages`] that belongs to processes that have ended.
    swapped_of_ended: (i64, u64),
    /// Processor time of each process's walk in this scan.
    took: Vec<(Identity, Duration)>,
    /// For each owner, the time as of which its ages are known, in milliseconds.
    known_ms: Vec<u64>,
    /// Accounts for our memory for ages, and its limit.
    age_memory: AgeMemory,
    /// Time at which cached device numbers were last dropped.
    numbers: Instant,
    /// Number of further walks, by all readers together, for which a foreign clearer is assumed.
    foreign_clearer: u32,
}

impl Ages {
    /// Creates an empty set of processes; `now_ms` is as in [`AgeTable::new`].
    #[must_use]
    pub fn new(
        source: Box<dyn Source>,
        (proc, filesystems, nodes): (Proc, Filesystems, Nodes),
        pauses: Pauses,
        now_ms: u64,
    ) -> Ages {
        Ages {
            reader: ProcessReader {
                source,
                proc,
                filesystems,
                needs_names: false,
            },
            helpers: Vec::new(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            age_table: AgeTable::new(now_ms),
            spaces: BTreeMap::new(),
            nodes,
            pauses,
            costs: Costs::default(),
            read: BTreeSet::new(),
            in_parts: None,
            moved: 0,
            apart: Duration::ZERO,
            may_keep_file_bits: false,
            keeps_file_bits: false,
            files_cleared_ms: now_ms,
            swapped_of_ended: (0, 0),
            took: Vec::new(),
            known_ms: Vec::new(),
            age_memory: AgeMemory::default(),
            numbers: Instant::now(),
            foreign_clearer: 0,
        }
    }

    /// Returns the source of accessed bits.
    #[must_use]
    pub fn source(&self) -> &dyn Source {
        &*self.reader.source
    }

    /// Returns the NUMA nodes. [`MemoryKind::of`] returns indexes into them.
    #[must_use]
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Returns the age table.
    #[must_use]
    pub fn age_table(&self) -> &AgeTable {
        &self.age_table
    }

    /// Returns the number of pages of all kinds that this owner owns.
    #[must_use]
    pub fn resident(&self, owner: Owner) -> u64 {
        self.age_table.owned_by(owner)
    }

    /// Returns the state of a process's address space; `None` if the process was never walked.
    #[must_use]
    pub fn space(&self, identity: Identity) -> Option<&Space> {
        let in_parts = self.in_parts.as_ref().map(|(job, _)| job);
        let in_parts = in_parts.filter(|job| job.identity == identity);
        let known = self.spaces.get(&identity);
        known.or_else(|| in_parts.map(|job| &job.space))
    }

    /// Returns two sums over all processes, including ended ones: by how many pages their swap has
    /// grown since each process's first walk, and their major faults since then.
    #[must_use]
    pub fn swapped_pages(&self) -> (i64, u64) {
        let sum = |(net, majors): (i64, u64), space: &Space| {
            let (more, faults) = space.swapped_since();
            (net + more, majors + faults)
        };
        self.spaces.values().fold(self.swapped_of_ended, sum)
    }

    /// Returns what holding a process's mmap_lock costs, as of the last walk: the number of entries
    /// (including swap entries) that the kernel would visit, and how long the lock may be held.
    /// Returns zeros for an unknown process.
    pub(crate) fn lock_cost(&self, identity: Identity) -> (u64, Duration) {
        let space = self.spaces.get(&identity);
        space.map_or((0, Duration::ZERO), |space| {
            (space.entries() + space.found.swapped, space.at_most)
        })
    }

    /// Makes the next scan walk this process even if it is idle, so that listeners are notified of
    /// all its pages again.
    pub fn read_again(&mut self, identity: Identity) {
        if let Some(space) = self.spaces.get_mut(&identity) {
            space.note_activity(ActivityCounters::default());
        }
    }

    /// Records that code outside of scans cleared bits of this process, and continues at the
    /// address `next`. The next walk takes a clear bit for an unknown age, not for an old one.
    pub fn take_bits(&mut self, identity: Identity, next: u64) {
        if let Some(space) = self.spaces.get_mut(&identity) {
            (space.taken, space.take_from) = (true, next);
        }
    }

    /// Makes additional scans, between two regular ones, keep the accessed bits of files, which the
    /// kernel's own reclaim at `memory.max` uses. The age of a file page is then exact to one
    /// interval. (When all bits were cleared five times a second, a program that thrashed in 66 MiB
    /// lost its code pages: 9,000 to 18,000 of them were read again, against 1,300 to 5,200 under
    /// the kernel alone.)
    pub fn keep_file_bits(&mut self) {
        self.may_keep_file_bits = true;
    }

    /// Sets whether listeners get the names of mappings, as `/proc/PID/maps` prints them.
    pub fn need_names(&mut self, needs_names: bool) {
        let readers = self.helpers.iter_mut().chain([&mut self.reader]);
        readers.for_each(|reader| reader.needs_names = needs_names);
    }

    /// Returns whether a process's mmap_lock is held so that `access` would have to wait for it.
    pub fn is_locked(&mut self, pid: u32, access: Access) -> bool {
        let source = &mut self.reader.source;
        // The next call of `peek` reuses the files that are opened here.
        source
            .begin(pid)
            .and_then(|()| source.is_locked(pid, access))
            .unwrap_or_else(|error| access::is_locked(&error))
    }

    /// Returns the mappings of a process; empty if it has ended or may not be read.
    pub fn mappings(&mut self, pid: u32) -> Vec<Mapping> {
        let maps = self.reader.mappings(pid).ok().flatten();
        self.reader.source.end();
        maps.map(|maps| maps.mappings).unwrap_or_default()
    }

    /// Passes the current page table entries of a process to `sink`, without changing any age
    /// ([`Source::peek`]).
    ///
    /// # Errors
    /// The process has ended, or may not be read.
    pub fn peek(&mut self, pid: u32, ranges: &[Range<u64>], sink: &mut Sink<'_>) -> io::Result<()> {
        self.reader.source.peek(pid, ranges, sink)
    }

    /// Returns the time that scans have taken so far.
    #[must_use]
    pub fn costs(&self) -> Costs {
        self.costs
    }

    /// Begins a scan at time `now_ms`. `moved`: the host's count of migrated pages. Forgets all
    /// processes except `members`. The caller passes each member to [`Ages::scan_at`] before
    /// [`Ages::end_scan`].
    pub fn begin_scan(
        &mut self,
        (now_ms, moved): (u64, u64),
        members: &[Identity],
        listener: &mut dyn Listener,
    ) {
        access::trim_workers();
        let members_now: BTreeSet<Identity> = members.iter().copied().collect();
        let is_gone = |identity: &Identity| !members_now.contains(identity);
        let gone: Vec<Identity> = self.spaces.keys().copied().filter(is_gone).collect();
        for identity in gone {
            self.forget(identity, listener);
        }
        self.forget_numbers(members);
        self.moved = moved;
        let before_ms = self.age_table.last_scan_ms();
        self.apart = Duration::from_millis(now_ms.saturating_sub(before_ms));
        let since_cleared = Duration::from_millis(now_ms.saturating_sub(self.files_cleared_ms));
        // A regular scan may come a little before the interval has passed.
        let is_early = since_cleared < self.pauses.interval() * 3 / 4;
        self.keeps_file_bits = self.may_keep_file_bits && is_early;
        if !self.keeps_file_bits {
            self.files_cleared_ms = now_ms;
        }
        self.age_table.begin_scan(now_ms);
        self.read.clear();
        self.took.clear();
    }

    /// Returns how many processes at the beginning of `left` should be passed to one call of
    /// [`Ages::scan_at`]. A process that was never walked may have any size, so it is passed alone.
    #[must_use]
    pub fn several(&self, left: &[Identity]) -> usize {
        let most = if self.processors > 1 { SEVERAL_MAX } else { 1 };
        let mut entries = 0;
        let fits = |identity: &&Identity| {
            let space = self.spaces.get(identity);
            entries += space.map_or(SEVERAL_ENTRIES_MAX, Space::entries);
            entries <= SEVERAL_ENTRIES_MAX
        };
        left.iter().take(most).take_while(fits).count().max(1)
    }

    /// Scans some processes and reports each of their pages to `listener`; returns the outcome of
    /// each process, in any order.
    pub fn scan_at(
        &mut self,
        identities: &[Identity],
        listener: &mut dyn Listener,
    ) -> Vec<(Identity, ScanOutcome)> {
        let (mut small, mut alone, mut idle) = (Vec::new(), Vec::new(), Vec::new());
        let (mut scanned, mut ids) = (Vec::new(), BTreeSet::new());
        self.age_memory.all_read();
        for &identity in identities {
            match self.decide(identity) {
                Step::Is(what) => scanned.push((identity, what)),
                Step::Idle => idle.push(identity),
                // Processes that share an address space are walked one after the other: the first
                // walk clears bits that the second would need.
                Step::Read(job) if job.is_small() && ids.insert(job.space.id) => small.push(*job),
                Step::Read(job) => alone.push(*job),
            }
        }
        let read = small.len() + alone.len();
        if identities.len() == 1
            && let Some(job) = alone.pop()
        {
            scanned.extend(self.begin_in_parts(job, listener));
        }
        scanned.extend(self.read_together(small, listener));
        for job in alone {
            scanned.push(self.read_alone(job, listener));
        }
        self.share_foreign_clearer(read);
        // Idle processes come last: processes that share their memory may have run.
        for identity in idle {
            self.note_idle(identity);
            scanned.push((identity, ScanOutcome::Done));
        }
        self.forget_unread(&scanned, listener);
        scanned
    }

    /// Returns whether a process is being walked in slices. If so, the caller must call
    /// [`Ages::go_on`] until that walk ends, before it scans other processes.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.in_parts.is_some()
    }

    /// Reads the next slice of the process that is being walked in slices. Returns its outcome
    /// after the last slice; `None` before.
    pub fn go_on(&mut self, listener: &mut dyn Listener) -> Option<(Identity, ScanOutcome)> {
        let (mut job, mut parts) = self.in_parts.take()?;
        let worked = thread_cpu();
        let reported = self.read_next_slice(&mut job, &mut parts, listener);
        job.took += thread_cpu().saturating_sub(worked);
        let reported = match reported {
            Ok(false) => {
                self.in_parts = Some((job, parts));
                return None;
            }
            reported => reported,
        };
        let scanned = self.put_back(job, reported);
        self.forget_unread(std::slice::from_ref(&scanned), listener);
        Some(scanned)
    }

    /// Begins to walk one process in slices; returns its outcome if that is known at once.
    fn begin_in_parts(
        &mut self,
        mut job: Job,
        listener: &mut dyn Listener,
    ) -> Option<(Identity, ScanOutcome)> {
        let worked = thread_cpu();
        let begun = self.begin_reading(&mut job, listener);
        job.took += thread_cpu().saturating_sub(worked);
        match begun {
            Ok(Some(parts)) => {
                self.in_parts = Some((job, parts));
                self.go_on(listener)
            }
            reported => Some(self.put_back(job, reported.map(|_| false))),
        }
    }

    /// Forgets processes whose outcome in `scanned` is that they could not be read.
    fn forget_unread(&mut self, scanned: &[(Identity, ScanOutcome)], listener: &mut dyn Listener) {
        for (identity, what) in scanned {
            if !matches!(what, ScanOutcome::Done) {
                self.forget(*identity, listener);
            }
        }
    }

    /// Ends a scan, after all members were scanned.
    pub fn end_scan(&mut self) {
        self.age_table.end_scan();
    }

    /// Drops cached device numbers, which may mean another file system by now.
    fn forget_numbers(&mut self, members: &[Identity]) {
        let is_new = |one: &Identity| !self.spaces.contains_key(one);
        let kept = match members.iter().any(is_new) {
            true => DEVICE_NUMBERS_TTL_OF_NEW,
            false => DEVICE_NUMBERS_TTL,
        };
        if self.numbers.elapsed() < kept {
            return;
        }
        self.numbers = Instant::now();
        let reader = &mut self.reader;
        // If our own mount table cannot be read, numbers are learned from the mappings of
        // processes.
        let _ = reader.filesystems.refresh(&reader.proc);
        for helper in &mut self.helpers {
            helper.filesystems.clone_from(&reader.filesystems);
        }
    }

    fn forget(&mut self, identity: Identity, listener: &mut dyn Listener) {
        if let Some(space) = self.spaces.remove(&identity) {
            listener.gone(space.owner);
            let (more, faults) = space.swapped_since();
            self.swapped_of_ended.0 += more;
            self.swapped_of_ended.1 += faults;
            self.age_table.remove_owner(space.owner);
        }
    }

    /// Decides what this scan does with a process. If the process must be walked, its [`Space`] is
    /// moved from `spaces` to the returned job.
    fn decide(&mut self, identity: Identity) -> Step {
        let Ok(cpu) = pagetables::cpu_time(identity.pid) else {
            return Step::Is(ScanOutcome::Gone);
        };
        let Ok(Some(resident)) = self.reader.proc.resident(identity.pid) else {
            return Step::Is(ScanOutcome::Gone);
        };
        if !self.fits_memory_limit(identity, resident) {
            return Step::Is(ScanOutcome::NoRoom);
        }
        let mut idle = false;
        if let Some(space) = self.spaces.get_mut(&identity) {
            idle = space.used_no_cpu(cpu, self.moved);
            // Bits that additional scans kept are cleared by the next regular scan, even in an idle
            // process. Otherwise all its file pages would be young when the process runs again.
            let is_left = space.kept_bits && !self.keeps_file_bits;
            let (age_table, owner) = (&self.age_table, space.owner);
            let may_sleep =
                idle && space.is_same_size(resident) && !is_left && !age_table.is_due(owner);
            if may_sleep && !space.must_walk_while_idle(|| age_table.has_unknown(owner)) {
                space.at_most = self.pauses.idle();
                return Step::Idle;
            }
        }
        let stat = match self.reader.proc.stat(identity.pid) {
            // The PID may belong to another process by now.
            Ok(Some(stat)) if stat.identity() == identity => stat,
            Err(error) if error.is_locked() => return Step::Is(ScanOutcome::Locked),
            _ => return Step::Is(ScanOutcome::Gone),
        };
        let Some(space) = self.take_space(identity) else {
            let why = io::Error::other("more processes than can be watched");
            return Step::Is(ScanOutcome::Denied(why));
        };
        // For a process that was postponed, this is longer than the time between two scans.
        let since = self
            .age_table
            .last_scan_ms()
            .saturating_sub(self.known_ms(space.owner));
        let apart = match space.was_read() {
            true => self.apart.max(Duration::from_millis(since)),
            false => self.apart,
        };
        let now = ActivityCounters {
            cpu,
            resident,
            faults: stat.minor_faults + stat.major_faults,
            majors: stat.major_faults,
            moved: self.moved,
        };
        Step::Read(Box::new(Job {
            identity,
            space,
            now,
            apart,
            took: Duration::ZERO,
            idle,
        }))
    }

    /// Records that a process was idle: its pages grow older.
    fn note_idle(&mut self, identity: Identity) {
        if let Some(space) = self.spaces.get(&identity) {
            let owner = space.owner;
            self.read.insert(space.id);
            self.age_table.skip(owner);
            self.note_known(owner);
        }
    }

    /// Walks several small processes, in parallel if that is faster, and reports their pages.
    fn read_together(
        &mut self,
        jobs: Vec<Job>,
        listener: &mut dyn Listener,
    ) -> Vec<(Identity, ScanOutcome)> {
        let free = || self.reader.proc.idle(self.processors);
        let helpers = parallel::workers(&jobs, free) - 1;
        while self.helpers.len() < helpers {
            let Some(another) = self.reader.another() else {
                // A failed attempt to create a reader takes milliseconds, so it is not repeated for
                // each group of processes.
                self.processors = 1;
                break;
            };
            self.helpers.push(another);
        }
        let mut all = std::mem::take(&mut self.helpers);
        let helpers = helpers.min(all.len());
        let work = (jobs, self.bounds());
        let mut scanned = Vec::new();
        let costs = parallel::read(&mut all[..helpers], work, |next| {
            scanned.push(match next {
                Next::Read(job) => self.read_alone(*job, listener),
                Next::Report(done) => {
                    let ((mut job, read), worked) = (*done, thread_cpu());
                    let reported = self.report_buffered(&mut job, read, listener);
                    job.took += thread_cpu().saturating_sub(worked);
                    self.put_back(job, reported)
                }
            });
        });
        self.helpers = all;
        self.costs.add(costs);
        scanned
    }

    /// Makes all readers know of a foreign clearer that one of them has detected, as it is
    /// arbitrary which reader walks which process. They forget it after a number of walks by all of
    /// them together. `read`: number of walks just done.
    fn share_foreign_clearer(&mut self, read: usize) {
        let read = u32::try_from(read).unwrap_or(u32::MAX);
        let others = self.helpers.iter().map(|one| one.source.foreign_clearer());
        let most = others
            .max()
            .unwrap_or(0)
            .max(self.reader.source.foreign_clearer());
        // A number above ours means that a reader has detected a foreign clearer since the last
        // call.
        self.foreign_clearer = match most > self.foreign_clearer {
            true => most,
            false => self.foreign_clearer.saturating_sub(read),
        };
        let readers = self.helpers.iter_mut().chain([&mut self.reader]);
        readers.for_each(|one| one.source.hear_of_foreign_clearer(self.foreign_clearer));
    }

    /// Walks one process and reports its pages.
    fn read_alone(&mut self, mut job: Job, listener: &mut dyn Listener) -> (Identity, ScanOutcome) {
        let worked = thread_cpu();
        let reported = if job.is_small() {
            let bounds = self.bounds();
            let read = parallel::read_one(&mut self.reader, &mut job, bounds, &mut self.costs);
            self.report_buffered(&mut job, read, listener)
        } else {
            self.read_and_report(&mut job, listener)
        };
        job.took = thread_cpu().saturating_sub(worked);
        self.put_back(job, reported)
    }

    fn bounds(&self) -> WalkBounds {
        WalkBounds {
            pauses: self.pauses,
            keeps_file_bits: self.keeps_file_bits,
        }
    }

    /// Reports the pages of a buffered walk; returns false if the process has no memory.
    fn report_buffered(
        &mut self,
        job: &mut Job,
        read: Read,
        listener: &mut dyn Listener,
    ) -> io::Result<bool> {
        let Some((begun, walk, reading)) = read? else {
            return Ok(false);
        };
        listener.begin(begun.before.owner, job.identity, &begun.maps);
        let begin = Instant::now();
        let (_, found) =
            self.record_pieces((&begun, WalkSums::default()), listener, |_, sink| {
                walk.replay(sink);
                Ok(())
            })?;
        self.costs.reading += begin.elapsed();
        self.store_walk(job, &reading, found, listener);
        Ok(true)
    }

    /// Walks a process of any size, reports each piece at once, and clears the set bits. Returns
    /// false if the process has no memory.
    fn read_and_report(&mut self, job: &mut Job, listener: &mut dyn Listener) -> io::Result<bool> {
        let Some(mut reading) = self.begin_reading(job, listener)? else {
            return Ok(false);
        };
        while !self.read_next_slice(job, &mut reading, listener)? {}
        Ok(true)
    }

    /// Passes each piece that `produce` yields to the age table, then to `listener`. Returns the
    /// result of `produce`, and `found` plus the sums of these pieces.
    fn record_pieces<T>(
        &mut self,
        (begun, found): (&WalkStart, WalkSums),
        listener: &mut dyn Listener,
        produce: impl FnOnce(&mut dyn Source, &mut Sink<'_>) -> io::Result<T>,
    ) -> io::Result<(T, WalkSums)> {
        let source = &mut *self.reader.source;
        let mask = source.frame_mask();
        let mut recorder = PieceRecorder::new(
            (&mut self.age_table, &self.nodes),
            begun.before,
            &begun.maps.mappings,
            mask,
        );
        recorder.found = found;
        let reported = produce(source, &mut |number: usize, piece: Piece<'_>| {
            recorder.record(number, piece);
            listener.hear(recorder.reported(number), piece);
        })?;
        Ok((reported, recorder.found))
    }

    /// Stores the results of a walk in the process's [`Space`], after all its pages were reported.
    fn store_walk(
        &mut self,
        job: &mut Job,
        reading: &WalkResult,
        found: WalkSums,
        listener: &mut dyn Listener,
    ) {
        let space = &mut job.space;
        // The end of a walk shows whether a secondary MMU has registered; that applies from the
        // next scan on. Open descriptors of such devices are known before the walk.
        let is_first = self.read.insert(reading.space);
        space.store_sums(reading, found, is_first);
        space.note_activity(job.now);
        if is_first {
            listener.end(space.owner, job.identity, space.found.unsure == 0);
        } else {
            // Another process with the same address space (CLONE_VM) was walked first in this scan.
            // The pages belong to that process, so that each page counts once.
            listener.gone(space.owner);
        }
    }

    fn put_back(&mut self, job: Job, reported: io::Result<bool>) -> (Identity, ScanOutcome) {
        self.took.push((job.identity, job.took));
        if let Ok(true) = reported {
            self.note_known(job.space.owner);
        }
        self.spaces.insert(job.identity, job.space);
        let scanned = match reported {
            Ok(true) => ScanOutcome::Done,
            Ok(false) => ScanOutcome::Gone,
            Err(error) if error.kind() == io::ErrorKind::NotFound => ScanOutcome::Gone,
            Err(error) if access::is_locked(&error) => ScanOutcome::Locked,
            Err(error) => ScanOutcome::Denied(error),
        };
        (job.identity, scanned)
    }

    fn take_space(&mut self, identity: Identity) -> Option<Space> {
        match self.spaces.remove(&identity) {
            Some(space) => Some(space),
            None => {
                let mut space = Space::new(self.age_table.add_owner()?);
                let has_bits = self.reader.source.grain() != Grain::None;
                space.no_source = (!has_bits).then_some(Hidden::NoSource);
                Some(space)
            }
        }
    }
}
