//! The ages of some processes' pages: each round reads their tables into the books.
//!
//! Invariant: a process is changed in nothing but its accessed bits, and those only where the clearing
//! is not expected to hold it up for longer than allowed; what is not cleared is unknown when it is
//! seen set again, never young and never old. A process that used no processor time since the last
//! round accessed nothing: its pages grow older without being looked at, unless pages were moved.
//!
//! Floors: `claim` (one pagetide a process), `found` (what a reading adds up to), `pauses` (how long clearing
//! may take), `space` (one address space), `clearing` (its bits are set back), `listener` (who hears of each
//! page), `page` (one piece of a reading), `held` (a reading that waits for its clearing), and here the round.

mod claim;
mod clearing;
mod found;
mod held;
mod listener;
mod page;
mod pauses;
mod space;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use pagetables::{Grain, Piece, Sink, Source};

use crate::books::{Books, Owner};
use crate::system::{Filesystems, Identity, Mapping, Nodes, Proc};

use clearing::Clearing;
pub use found::{Found, Hidden};
use held::Held;
pub use listener::{Listener, Told};
pub use page::MemoryKind;
use page::{Teller, part_of, ranges};
pub use pauses::Pauses;
use space::Kept;
pub use space::Space;

/// Processes with fewer entries are read and cleared without being interrupted: some ten milliseconds.
const UNINTERRUPTED_MAX: u64 = 128 << 10;

/// What rounds cost until now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Reading tables.
    pub walk: Duration,
    /// Clearing bits.
    pub clear: Duration,
    /// The longest clearing.
    pub clear_longest: Duration,
}

/// What became of one process in a round.
#[derive(Debug)]
pub enum Looked {
    /// Read, or known to have slept.
    Done,
    /// It is gone, or has no memory.
    Gone,
    /// It may not be read.
    Denied(io::Error),
}

/// The ages of a set of processes.
pub struct Ages {
    source: Box<dyn Source>,
    books: Books,
    spaces: BTreeMap<Identity, Space>,
    filesystems: Filesystems,
    nodes: Nodes,
    proc: Proc,
    pauses: Pauses,
    costs: Costs,
    /// Address spaces that were read in this round: processes may share one (vfork, CLONE_VM).
    read: BTreeSet<u64>,
    rounds: u64,
    /// The machine's count of pages moved, at the beginning of this round.
    moved: u64,
    /// The time between this round and the one before.
    apart: Duration,
    /// [`Ages::swapped_pages`] of processes that are gone.
    of_gone: (i64, u64),
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
            source,
            books: Books::new(now_ms),
            spaces: BTreeMap::new(),
            filesystems,
            nodes,
            proc,
            pauses,
            costs: Costs::default(),
            read: BTreeSet::new(),
            rounds: 0,
            moved: 0,
            apart: Duration::ZERO,
            of_gone: (0, 0),
        }
    }

    /// Where bits come from.
    #[must_use]
    pub fn source(&self) -> &dyn Source {
        &*self.source
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
        self.spaces.get(&identity)
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

    /// The next round reads this process even if it slept: what is told of it has changed.
    pub fn read_again(&mut self, identity: Identity) {
        if let Some(space) = self.spaces.get_mut(&identity) {
            space.keep(Kept::default());
        }
    }

    /// Bits of this process were taken that looks leave set, up to the address where that goes on the next time: what is clear at the
    /// next reading is unknown, not old, for it may have been set in between.
    pub fn take_bits(&mut self, identity: Identity, next: u64) {
        if let Some(space) = self.spaces.get_mut(&identity) {
            (space.taken, space.take_from) = (true, next);
        }
    }

    /// The mappings of a process; none if it is gone or may not be read.
    pub fn mappings(&mut self, pid: u32) -> Vec<Mapping> {
        let maps = self.proc.maps(pid, &mut self.filesystems);
        maps.ok().flatten().unwrap_or_default()
    }

    /// Entries of a process as they are this moment, told to nobody else ([`Source::peek`]).
    ///
    /// # Errors
    /// The process is gone, or may not be read.
    pub fn peek(&mut self, pid: u32, ranges: &[Range<u64>], sink: &mut Sink<'_>) -> io::Result<()> {
        self.source.peek(pid, ranges, sink)
    }

    /// What it cost until now.
    #[must_use]
    pub fn costs(&self) -> Costs {
        self.costs
    }

    /// Rounds until now.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Begins a round at this time, with the machine's count of pages moved: all but `members` are forgotten, and each of these is
    /// to be looked at before [`Ages::end_round`].
    pub fn begin_round(
        &mut self,
        (now_ms, moved): (u64, u64),
        members: &[Identity],
        listener: &mut dyn Listener,
    ) {
        let members_now: BTreeSet<Identity> = members.iter().copied().collect();
        let is_gone = |identity: &Identity| !members_now.contains(identity);
        let gone: Vec<Identity> = self.spaces.keys().copied().filter(is_gone).collect();
        for identity in gone {
            self.forget(identity, listener);
        }
        self.moved = moved;
        let before_ms = self.books.last_round_ms();
        self.apart = Duration::from_millis(now_ms.saturating_sub(before_ms));
        self.books.begin_round(now_ms);
        self.read.clear();
    }

    /// Looks at one process, and tells each of its pages to `listener`; what became of it.
    pub fn look_at(&mut self, identity: Identity, listener: &mut dyn Listener) -> Looked {
        let looked = self.look(identity, listener);
        if let Looked::Gone | Looked::Denied(_) = looked {
            self.forget(identity, listener);
        }
        looked
    }

    /// All were looked at.
    pub fn end_round(&mut self) {
        self.books.end_round();
        self.rounds += 1;
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

    /// One process.
    fn look(&mut self, identity: Identity, listener: &mut dyn Listener) -> Looked {
        let Ok(cpu) = pagetables::cpu_time(identity.pid) else {
            return Looked::Gone;
        };
        let Ok(Some(resident)) = self.proc.resident(identity.pid) else {
            return Looked::Gone;
        };
        let mut has_rested = false;
        if let Some(space) = self.spaces.get_mut(&identity) {
            has_rested = space.has_rested(cpu, self.moved);
            if has_rested && space.slept(resident) && !space.is_due_at_rest() {
                self.read.insert(space.id);
                self.books.keep(space.owner);
                return Looked::Done;
            }
        }
        let stat = match self.proc.stat(identity.pid) {
            // Another process may have its number by now.
            Ok(Some(stat)) if stat.identity() == identity => stat,
            _ => return Looked::Gone,
        };
        // From before the reading: what is accessed during it is read in the next round.
        let now = Kept {
            cpu,
            resident,
            faults: stat.minor_faults + stat.major_faults,
            majors: stat.major_faults,
            moved: self.moved,
        };
        match self.read(identity, (now, has_rested), listener) {
            Ok(true) => Looked::Done,
            Ok(false) => Looked::Gone,
            Err(error) => Looked::Denied(error),
        }
    }

    /// Reads the tables of a process and clears what was young; whether it was there.
    fn read(
        &mut self,
        identity: Identity,
        (now, has_rested): (Kept, bool),
        listener: &mut dyn Listener,
    ) -> io::Result<bool> {
        let pid = identity.pid;
        let maps = match self.proc.named_maps(pid, &mut self.filesystems) {
            Ok(Some(maps)) if !maps.mappings.is_empty() => maps,
            Ok(_) => return Ok(false),
            Err(error) => return Err(io::Error::new(io::ErrorKind::PermissionDenied, error)),
        };
        let Some(mut space) = self.take_space(identity) else {
            return Err(io::Error::other("more processes than can be watched"));
        };
        space.look_for_devices(&self.proc, pid);
        let is_ours = self.source.grain() == Grain::None || space.claim(identity);
        space.begin_reading(has_rested);
        let at_most = match has_rested {
            true => self.pauses.at_rest(),
            false => self.pauses.at_most(space.kept, now, self.apart),
        };
        let at_most = is_ours.then_some(at_most);
        listener.begin(space.owner, identity, &maps);
        let done = self.read_and_clear((pid, &maps.mappings), &mut space, at_most, listener);
        let is_first = match done {
            Ok(is_first) => is_first,
            Err(error) => {
                self.books.remove_owner(space.owner);
                listener.gone(space.owner);
                let gone = error.kind() == io::ErrorKind::NotFound;
                return if gone { Ok(false) } else { Err(error) };
            }
        };
        space.keep(now);
        if is_first {
            listener.end(space.owner, identity, space.found.unsure == 0);
        } else {
            // Of the process that it was read with first (CLONE_VM): each page is one page.
            listener.gone(space.owner);
        }
        self.spaces.insert(identity, space);
        Ok(true)
    }

    /// Reads the tables into the books, and clears what was young if that may take `at_most`; not at all
    /// if the bits are not ours to clear. Whether it is the first process of this round with these tables.
    fn read_and_clear(
        &mut self,
        (pid, mappings): (u32, &[Mapping]),
        space: &mut Space,
        at_most: Option<Duration>,
        listener: &mut dyn Listener,
    ) -> io::Result<bool> {
        let begin = Instant::now();
        let cleared = self.costs.clear;
        let entries: u64 = space.found.entries.iter().sum();
        // Whether a secondary MMU has registered is known at the reading's end, and counts from the next
        // round on; its descriptors are known before.
        let mask = self.source.frame_mask();
        // Without them, everything has recency, as before.
        let advised = self.source.advised(pid).unwrap_or_default();
        let mut teller = Teller::new(
            (&mut self.books, &self.nodes),
            space,
            (mappings, &advised),
            mask,
        );
        let mut tell = |number: usize, piece: Piece<'_>| {
            teller.tell(number, piece);
            listener.hear(teller.told(number), piece);
        };
        let (source, ranges) = (&mut *self.source, ranges(mappings));
        let mut clearing = Clearing {
            pid,
            space,
            at_most,
            costs: &mut self.costs,
        };
        // What is accessed between the reading and the clearing of its table is lost: on a busy machine that
        // was a whole pass of a program over 1,000 pages. So a short one is not interrupted, and comes before
        // the books.
        let reading = if (1..UNINTERRUPTED_MAX).contains(&entries) {
            let mut held = Held::default();
            let reading = pagetables::uninterrupted(|| {
                let reading = source.read(pid, &ranges, &mut |number, piece| {
                    held.take(part_of(mappings[number].kind), number, piece);
                })?;
                clearing.clear(source, held.present, held.accessed);
                Ok::<_, io::Error>(reading)
            })?;
            held.tell(&mut tell);
            reading
        } else {
            let reading = source.read(pid, &ranges, &mut tell)?;
            clearing.clear(source, teller.found.entries, teller.found.accessed);
            reading
        };
        let found = teller.found;
        self.costs.walk += begin.elapsed().saturating_sub(self.costs.clear - cleared);
        let is_first = self.read.insert(reading.space);
        space.learn(&reading, found, is_first);
        Ok(is_first)
    }

    fn take_space(&mut self, identity: Identity) -> Option<Space> {
        match self.spaces.remove(&identity) {
            Some(space) => Some(space),
            None => {
                let mut space = Space::new(self.books.add_owner()?);
                let has_bits = self.source.grain() != Grain::None;
                space.no_source = (!has_bits).then_some(Hidden::NoSource);
                Some(space)
            }
        }
    }
}
