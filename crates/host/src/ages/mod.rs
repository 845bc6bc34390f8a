//! The ages of some processes' pages: each round reads their tables into the books.
//!
//! Invariant: a process is changed in nothing but its accessed bits, and those only where the clearing
//! is not expected to hold it up for longer than allowed; what is not cleared is unknown when it is
//! seen set again, never young and never old. A process that used no processor time since the last
//! round accessed nothing: its pages grow older without being looked at, unless pages were moved.
//!
//! Floors: `claim` (one pagetide a process), `found` (what a reading adds up to), `costs`, `pauses` (how long clearing
//! may take), `space` (one address space), `clearing` (its bits are set back), `listener` (who hears of each
//! page), `page` (one piece of a reading), `held` (a reading that waits for its clearing), `slices` and `in_parts` (the parts of a large one), `reader` (one process), `together`
//! (several at once), `late` (those that a round leaves out), and here the round, which tells the books.

mod claim;
mod clearing;
mod costs;
mod found;
mod held;
mod in_parts;
mod late;
mod listener;
mod page;
mod pauses;
mod reader;
mod slices;
mod space;
mod together;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use pagetables::access::{self, Access};
use pagetables::{Grain, Piece, Reading, Sink, Source};

use crate::books::{Books, Owner};
use crate::system::{Filesystems, Identity, Mapping, Nodes, Proc, thread_cpu};

pub use costs::Costs;
pub use found::{Hidden, ReadingSums};
use in_parts::InParts;
pub use listener::{Listener, Told};
pub use page::MemoryKind;
use page::Teller;
pub use pauses::Pauses;
use reader::{Begun, Bounds, Job, ProcessReader};
use space::Activity;
pub use space::Space;
use together::{Next, Read};

/// Processes that are looked at in one call: whether they did anything takes some 20 us of each.
const SEVERAL_MAX: usize = 64;
/// And their entries: some twenty milliseconds of one processor.
const SEVERAL_ENTRIES_MAX: u64 = 256 << 10;

/// How long a device number (st_dev) is taken for the same file system: the kernel gives the number of an unmounted
/// overlay or tmpfs to the next mount. (The story: after some days of containers, overlays and shared memory were taken
/// for devices and not read at all.)
const DEVICE_NUMBERS_TTL: Duration = Duration::from_secs(10);
/// The same when the round has a new process: one that is read once and then sleeps would keep the wrong kind of memory
/// for ever.
const DEVICE_NUMBERS_TTL_OF_NEW: Duration = Duration::from_secs(1);

/// What became of one process in a round.
#[derive(Debug)]
pub enum Looked {
    /// Read, or known to have slept.
    Done,
    /// It is gone, or has no memory.
    Gone,
    /// Its memory is locked, and nothing of it can be read.
    Locked,
    /// It may not be read.
    Denied(io::Error),
}

/// What is to be done with a process.
enum Step {
    /// Nothing: what became of it is known.
    Is(Looked),
    /// It did nothing.
    Slept,
    /// It is to be read.
    Read(Box<Job>),
}

/// The ages of a set of processes.
pub struct Ages {
    reader: ProcessReader,
    /// For threads that read beside this one; made when they are needed.
    helpers: Vec<ProcessReader>,
    /// That we may use.
    processors: usize,
    books: Books,
    spaces: BTreeMap<Identity, Space>,
    nodes: Nodes,
    pauses: Pauses,
    costs: Costs,
    /// Address spaces that were read in this round: processes may share one (vfork, CLONE_VM).
    read: BTreeSet<u64>,
    /// The process that is being read part by part.
    in_parts: Option<(Job, InParts)>,
    /// The machine's count of pages moved, at the beginning of this round.
    moved: u64,
    /// The time between this round and the one before.
    apart: Duration,
    /// Bits of files are to stay where that makes no age less exact than an interval ([`Ages::spare_files`]).
    may_spare_files: bool,
    /// They do in this round.
    spares_files: bool,
    /// The last round in which they did not, milliseconds.
    files_cleared_ms: u64,
    /// [`Ages::swapped_pages`] of processes that are gone.
    of_gone: (i64, u64),
    /// What reading each process has cost in this round, processor time.
    took: Vec<(Identity, Duration)>,
    /// By owner: as of when its ages are known, milliseconds.
    known_ms: Vec<u64>,
    /// When what is known of device numbers was forgotten last.
    numbers: Instant,
    /// For how many readings more, by whichever reader, it is remembered that somebody else clears bits.
    company: u32,
}

impl Ages {
    /// No process yet; `now_ms` as in [`Books::new`].
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
            books: Books::new(now_ms),
            spaces: BTreeMap::new(),
            nodes,
            pauses,
            costs: Costs::default(),
            read: BTreeSet::new(),
            in_parts: None,
            moved: 0,
            apart: Duration::ZERO,
            may_spare_files: false,
            spares_files: false,
            files_cleared_ms: now_ms,
            of_gone: (0, 0),
            took: Vec::new(),
            known_ms: Vec::new(),
            numbers: Instant::now(),
            company: 0,
        }
    }

    /// Where bits come from.
    #[must_use]
    pub fn source(&self) -> &dyn Source {
        &*self.reader.source
    }

    /// The nodes, in the order of [`MemoryKind::of`].
    #[must_use]
    pub fn nodes(&self) -> &[u32] {
        self.nodes.all()
    }

    /// The books.
    #[must_use]
    pub fn books(&self) -> &Books {
        &self.books
    }

    /// Pages of the frames that this owner owns, of all classes.
    #[must_use]
    pub fn resident(&self, owner: Owner) -> u64 {
        let of = |class| self.books.resident(owner, class);
        MemoryKind::classes().map(of).sum()
    }

    /// What is known of a process.
    #[must_use]
    pub fn space(&self, identity: Identity) -> Option<&Space> {
        let in_parts = self.in_parts.as_ref().map(|(job, _)| job);
        let in_parts = in_parts.filter(|job| job.identity == identity);
        let known = self.spaces.get(&identity);
        known.or_else(|| in_parts.map(|job| &job.space))
    }

    /// How many more pages are in swap than when each was first read, and the faults that needed reading
    /// meanwhile; of processes that are gone too.
    #[must_use]
    pub fn swapped_pages(&self) -> (i64, u64) {
        let sum = |(net, majors): (i64, u64), space: &Space| {
            let (more, faults) = space.swapped_since();
            (net + more, majors + faults)
        };
        self.spaces.values().fold(self.of_gone, sum)
    }

    /// Entries of a process that the kernel's sums go through, those of swap among them, as of the last look, and how long it may be held,
    /// by what it did until then; nothing of one that is not known.
    pub(crate) fn lock_cost(&self, identity: Identity) -> (u64, Duration) {
        let space = self.spaces.get(&identity);
        space.map_or((0, Duration::ZERO), |space| {
            (space.entries() + space.found.swapped, space.at_most)
        })
    }

    /// The next round reads this process even if it slept: what is told of it has changed.
    pub fn read_again(&mut self, identity: Identity) {
        if let Some(space) = self.spaces.get_mut(&identity) {
            space.note_activity(Activity::default());
        }
    }

    /// Bits of this process were taken that looks leave set, up to the address where that goes on the next time: what is clear at the
    /// next reading is unknown, not old, for it may have been set in between.
    pub fn take_bits(&mut self, identity: Identity, next: u64) {
        if let Some(space) = self.spaces.get_mut(&identity) {
            (space.taken, space.take_from) = (true, next);
        }
    }

    /// From now on, rounds between two intervals leave the accessed bits of files set for the kernel, which goes by them when it takes pages
    /// at a wall; so such a page is as young as the round says, or was used up to an interval before. (The story: of a program that
    /// thrashed in 66 MiB the kernel threw out its text, which five looks a second had made seem unused: 9,000 to 18,000 pages of it
    /// were read again, 1,300 to 5,200 under the kernel alone.)
    pub fn spare_files(&mut self) {
        self.may_spare_files = true;
    }

    /// Whether listeners are told the names of mappings, as `/proc/PID/maps` prints them.
    pub fn need_names(&mut self, needs_names: bool) {
        let readers = self.helpers.iter_mut().chain([&mut self.reader]);
        readers.for_each(|reader| reader.needs_names = needs_names);
    }

    /// Whether the process's memory is locked, in a way that `access` would wait for.
    pub fn is_locked(&mut self, pid: u32, access: Access) -> bool {
        let source = &mut self.reader.source;
        // What was opened is what is peeked at next.
        source
            .begin(pid)
            .and_then(|()| source.is_locked(pid, access))
            .unwrap_or_else(|error| access::is_locked(&error))
    }

    /// The mappings of a process; none if it is gone or may not be read.
    pub fn mappings(&mut self, pid: u32) -> Vec<Mapping> {
        let maps = self.reader.mappings(pid).ok().flatten();
        self.reader.source.end();
        maps.map(|(maps, _)| maps.mappings).unwrap_or_default()
    }

    /// Entries of a process as they are this moment, told to nobody else ([`Source::peek`]).
    ///
    /// # Errors
    /// The process is gone, or may not be read.
    pub fn peek(&mut self, pid: u32, ranges: &[Range<u64>], sink: &mut Sink<'_>) -> io::Result<()> {
        self.reader.source.peek(pid, ranges, sink)
    }

    /// What it cost until now.
    #[must_use]
    pub fn costs(&self) -> Costs {
        self.costs
    }

    /// Begins a round at this time, with the machine's count of pages moved: all but `members` are forgotten, and each of these is
    /// to be looked at before [`Ages::end_round`].
    pub fn begin_round(
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
        let before_ms = self.books.last_round_ms();
        self.apart = Duration::from_millis(now_ms.saturating_sub(before_ms));
        let since_cleared = Duration::from_millis(now_ms.saturating_sub(self.files_cleared_ms));
        // A look at its interval may come a little early.
        let is_early = since_cleared < self.pauses.interval() * 3 / 4;
        self.spares_files = self.may_spare_files && is_early;
        if !self.spares_files {
            self.files_cleared_ms = now_ms;
        }
        self.books.begin_round(now_ms);
        self.read.clear();
        self.took.clear();
    }

    /// How many of those who are `left` are worth one call of [`Ages::look_at`]. One that was never read may be of any size.
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

    /// Looks at some processes, and tells each of their pages to `listener`; what became of them, in any order.
    pub fn look_at(
        &mut self,
        identities: &[Identity],
        listener: &mut dyn Listener,
    ) -> Vec<(Identity, Looked)> {
        let (mut small, mut alone, mut asleep) = (Vec::new(), Vec::new(), Vec::new());
        let (mut looked, mut ids) = (Vec::new(), BTreeSet::new());
        for &identity in identities {
            match self.sort_out(identity) {
                Step::Is(what) => looked.push((identity, what)),
                Step::Slept => asleep.push(identity),
                // Two that share an address space are read one after the other: what the first took is not there for the second.
                Step::Read(job) if job.is_small() && ids.insert(job.space.id) => small.push(*job),
                Step::Read(job) => alone.push(*job),
            }
        }
        let read = small.len() + alone.len();
        if identities.len() == 1
            && let Some(job) = alone.pop()
        {
            looked.extend(self.begin_in_parts(job, listener));
        }
        looked.extend(self.read_together(small, listener));
        for job in alone {
            looked.push(self.read_alone(job, listener));
        }
        self.share_company(read);
        // After who shares their memory and did something.
        for identity in asleep {
            self.keep_asleep(identity);
            looked.push((identity, Looked::Done));
        }
        self.forget_unread(&looked, listener);
        looked
    }

    /// Whether a process is being read part by part: [`Ages::go_on`] reads the next part, and nobody else is looked at before.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.in_parts.is_some()
    }

    /// Reads the next part of the process that is being read; what became of it, if that was the last one.
    pub fn go_on(&mut self, listener: &mut dyn Listener) -> Option<(Identity, Looked)> {
        let (mut job, mut parts) = self.in_parts.take()?;
        let worked = thread_cpu();
        let told = self.go_on_with(&mut job, &mut parts, listener);
        job.took += thread_cpu().saturating_sub(worked);
        let told = match told {
            Ok(false) => {
                self.in_parts = Some((job, parts));
                return None;
            }
            told => told,
        };
        let looked = self.put_back(job, told);
        self.forget_unread(std::slice::from_ref(&looked), listener);
        Some(looked)
    }

    /// Begins to read one process part by part; what became of it, if that is known at once.
    fn begin_in_parts(
        &mut self,
        mut job: Job,
        listener: &mut dyn Listener,
    ) -> Option<(Identity, Looked)> {
        let worked = thread_cpu();
        let begun = self.begin_reading(&mut job, listener);
        job.took += thread_cpu().saturating_sub(worked);
        match begun {
            Ok(Some(parts)) => {
                self.in_parts = Some((job, parts));
                self.go_on(listener)
            }
            told => Some(self.put_back(job, told.map(|_| false))),
        }
    }

    /// Forgets those that could not be read.
    fn forget_unread(&mut self, looked: &[(Identity, Looked)], listener: &mut dyn Listener) {
        for (identity, what) in looked {
            if let Looked::Gone | Looked::Denied(_) | Looked::Locked = what {
                self.forget(*identity, listener);
            }
        }
    }

    /// All were looked at.
    pub fn end_round(&mut self) {
        self.books.end_round();
    }

    /// Device numbers are learned anew where what is known may be of a file system that is gone.
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
        // Without our own mounts they are learned from whoever maps.
        let _ = reader.filesystems.refresh(&reader.proc);
        for helper in &mut self.helpers {
            helper.filesystems.clone_from(&reader.filesystems);
        }
    }

    fn forget(&mut self, identity: Identity, listener: &mut dyn Listener) {
        if let Some(space) = self.spaces.remove(&identity) {
            listener.gone(space.owner);
            let (more, faults) = space.swapped_since();
            self.of_gone.0 += more;
            self.of_gone.1 += faults;
            self.books.remove_owner(space.owner);
        }
    }

    /// What is to be done with a process in this round; its space is taken out if it is to be read.
    fn sort_out(&mut self, identity: Identity) -> Step {
        let Ok(cpu) = pagetables::cpu_time(identity.pid) else {
            return Step::Is(Looked::Gone);
        };
        let Ok(Some(resident)) = self.reader.proc.resident(identity.pid) else {
            return Step::Is(Looked::Gone);
        };
        let mut slept = false;
        if let Some(space) = self.spaces.get_mut(&identity) {
            slept = space.used_no_cpu(cpu, self.moved);
            // What was left for the kernel is cleared by the look that clears files, though nothing was done since: else all of it would be young
            // whenever the process wakes.
            let is_left = space.spared && !self.spares_files;
            let (books, owner) = (&self.books, space.owner);
            let may_sleep =
                slept && space.is_same_size(resident) && !is_left && !books.is_due(owner);
            if may_sleep && !space.is_due_asleep(|| books.has_unknown(owner)) {
                space.at_most = self.pauses.asleep();
                return Step::Slept;
            }
        }
        let stat = match self.reader.proc.stat(identity.pid) {
            // Another process may have its number by now.
            Ok(Some(stat)) if stat.identity() == identity => stat,
            Err(error) if error.is_locked() => return Step::Is(Looked::Locked),
            _ => return Step::Is(Looked::Gone),
        };
        let Some(space) = self.take_space(identity) else {
            let why = io::Error::other("more processes than can be watched");
            return Step::Is(Looked::Denied(why));
        };
        // Of one that was late, more than a round.
        let since = self
            .books
            .last_round_ms()
            .saturating_sub(self.known_ms(space.owner));
        let apart = match space.was_read() {
            true => self.apart.max(Duration::from_millis(since)),
            false => self.apart,
        };
        let now = Activity {
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
            slept,
        }))
    }

    /// It did nothing: its pages grow older.
    fn keep_asleep(&mut self, identity: Identity) {
        if let Some(space) = self.spaces.get(&identity) {
            let owner = space.owner;
            self.read.insert(space.id);
            self.books.skip(owner);
            self.note_known(owner);
        }
    }

    /// Reads several small processes, by several threads if that is worth it, and tells of them.
    fn read_together(
        &mut self,
        jobs: Vec<Job>,
        listener: &mut dyn Listener,
    ) -> Vec<(Identity, Looked)> {
        let free = || self.reader.proc.idle(self.processors);
        let helpers = together::workers(&jobs, free) - 1;
        while self.helpers.len() < helpers {
            let Some(another) = self.reader.another() else {
                // To find that out takes milliseconds: it is not tried for each handful of processes.
                self.processors = 1;
                break;
            };
            self.helpers.push(another);
        }
        let mut all = std::mem::take(&mut self.helpers);
        let helpers = helpers.min(all.len());
        let work = (jobs, self.bounds());
        let mut looked = Vec::new();
        let costs = together::read(&mut all[..helpers], work, |next| {
            looked.push(match next {
                Next::Read(job) => self.read_alone(*job, listener),
                Next::Tell(done) => {
                    let ((mut job, read), worked) = (*done, thread_cpu());
                    let told = self.tell_held(&mut job, read, listener);
                    job.took += thread_cpu().saturating_sub(worked);
                    self.put_back(job, told)
                }
            });
        });
        self.helpers = all;
        self.costs.add(costs);
        looked
    }

    /// What one reader noticed of others who clear bits, all know, and all forget after so many readings of them together: who reads which
    /// process is chance. So many have just been read.
    fn share_company(&mut self, read: usize) {
        let read = u32::try_from(read).unwrap_or(u32::MAX);
        let others = self.helpers.iter().map(|one| one.source.company());
        let most = others.max().unwrap_or(0).max(self.reader.source.company());
        // More than all knew: somebody has noticed something since.
        self.company = match most > self.company {
            true => most,
            false => self.company.saturating_sub(read),
        };
        let readers = self.helpers.iter_mut().chain([&mut self.reader]);
        readers.for_each(|one| one.source.hear_of_company(self.company));
    }

    /// Reads one process, and tells of it.
    fn read_alone(&mut self, mut job: Job, listener: &mut dyn Listener) -> (Identity, Looked) {
        let worked = thread_cpu();
        let told = if job.is_small() {
            let bounds = self.bounds();
            let read = together::read_one(&mut self.reader, &mut job, bounds, &mut self.costs);
            self.tell_held(&mut job, read, listener)
        } else {
            self.read_and_tell(&mut job, listener)
        };
        job.took = thread_cpu().saturating_sub(worked);
        self.put_back(job, told)
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            pauses: self.pauses,
            spares_files: self.spares_files,
        }
    }

    /// Tells what was read of a process and held back; whether it has memory.
    fn tell_held(
        &mut self,
        job: &mut Job,
        read: Read,
        listener: &mut dyn Listener,
    ) -> io::Result<bool> {
        let Some((begun, held, reading)) = read? else {
            return Ok(false);
        };
        listener.begin(begun.before.owner, job.identity, &begun.maps);
        let begin = Instant::now();
        let (_, found) = self.hear((&begun, ReadingSums::default()), listener, |_, sink| {
            held.tell(sink);
            Ok(())
        })?;
        self.costs.reading += begin.elapsed();
        self.learn(job, &reading, found, listener);
        Ok(true)
    }

    /// Reads the tables of a process of any size, tells of each piece at once, and clears what was young; whether it has memory.
    fn read_and_tell(&mut self, job: &mut Job, listener: &mut dyn Listener) -> io::Result<bool> {
        let Some(mut reading) = self.begin_reading(job, listener)? else {
            return Ok(false);
        };
        while !self.go_on_with(job, &mut reading, listener)? {}
        Ok(true)
    }

    /// The books and `listener` hear each piece that `tell` tells; what it all adds up to, with what was found before.
    fn hear<T>(
        &mut self,
        (begun, found): (&Begun, ReadingSums),
        listener: &mut dyn Listener,
        tell: impl FnOnce(&mut dyn Source, &mut Sink<'_>) -> io::Result<T>,
    ) -> io::Result<(T, ReadingSums)> {
        let source = &mut *self.reader.source;
        let mask = source.frame_mask();
        let mut teller = Teller::new(
            (&mut self.books, &self.nodes),
            begun.before,
            (&begun.maps.mappings, &begun.advised),
            mask,
        );
        teller.found = found;
        let told = tell(source, &mut |number: usize, piece: Piece<'_>| {
            teller.tell(number, piece);
            listener.hear(teller.told(number), piece);
        })?;
        Ok((told, teller.found))
    }

    /// All of a process was told.
    fn learn(
        &mut self,
        job: &mut Job,
        reading: &Reading,
        found: ReadingSums,
        listener: &mut dyn Listener,
    ) {
        let space = &mut job.space;
        // Whether a secondary MMU has registered is known at the reading's end, and counts from the next round on;
        // its descriptors are known before.
        let is_first = self.read.insert(reading.space);
        space.learn(reading, found, is_first);
        space.note_activity(job.now);
        if is_first {
            listener.end(space.owner, job.identity, space.found.unsure == 0);
        } else {
            // Of the process that it was read with first (CLONE_VM): each page is one page.
            listener.gone(space.owner);
        }
    }

    fn put_back(&mut self, job: Job, told: io::Result<bool>) -> (Identity, Looked) {
        self.took.push((job.identity, job.took));
        if let Ok(true) = told {
            self.note_known(job.space.owner);
        }
        self.spaces.insert(job.identity, job.space);
        let looked = match told {
            Ok(true) => Looked::Done,
            Ok(false) => Looked::Gone,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Looked::Gone,
            Err(error) if access::is_locked(&error) => Looked::Locked,
            Err(error) => Looked::Denied(error),
        };
        (job.identity, looked)
    }

    fn take_space(&mut self, identity: Identity) -> Option<Space> {
        match self.spaces.remove(&identity) {
            Some(space) => Some(space),
            None => {
                let mut space = Space::new(self.books.add_owner()?);
                let has_bits = self.reader.source.grain() != Grain::None;
                space.no_source = (!has_bits).then_some(Hidden::NoSource);
                Some(space)
            }
        }
    }
}
