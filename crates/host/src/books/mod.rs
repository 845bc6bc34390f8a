//! How old each frame is: when each frame that some watched address space maps was last seen accessed.
//!
//! Invariant: a frame counts once, however many address spaces map it; it is as young as its youngest
//! mapping and has one owner. At the end of each round the pages of all owners together are the frames
//! that the books hold. No page is claimed older than the looks allow; what nobody can know is unknown.
//!
//! Walks happen in rounds: [`Books::begin_round`], then for each address space either
//! [`Books::see`] for each present page or [`Books::skip`], then [`Books::end_round`]. The books are
//! data alone: they read no clock and know no process.
//!
//! Floors: `word` (one record, one look), `timeline` (rounds and times), `tally`, `histogram` and `again`
//! (counts), `index`, `head`, `slabs` and `frames` (where records are), `owners`; on them `run` and `see` (a look at what is
//! known), `arrive` (at what is not: fresh frames, huge leaves that were split or joined) and `rounds`.

mod again;
mod arrive;
mod frames;
mod head;
mod histogram;
mod index;
mod owners;
mod rounds;
mod run;
mod see;
mod slabs;
mod tally;
#[cfg(test)]
mod tests;
mod timeline;
mod word;

pub use owners::Owner;

use again::Again;
use frames::Frames;
use histogram::Histogram;
use owners::Owners;
use run::Run;
use tally::{Place, Tally};
use timeline::Timeline;
use word::Word;

/// Classes of one owner.
const CLASSES: usize = 16;

/// What kind of memory a frame is and where: 16 of them, whose meaning is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Class(u8);

impl Class {
    /// The class with this number; none from 16 on.
    #[must_use]
    pub const fn new(number: u8) -> Option<Class> {
        if (number as usize) < CLASSES {
            Some(Class(number))
        } else {
            None
        }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// What one reading says of one mapping of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Observation {
    /// The accessed bit is set.
    pub accessed: bool,
    /// The bit was cleared after the reading before: if it is set now, it was set since.
    pub trusted: bool,
    /// Accesses may leave no bit (a secondary MMU): an accessed bit that is clear says nothing.
    pub hidden: bool,
    /// Its process did nothing since before the last reading: if the bit is set, it was set then.
    pub slept: bool,
    /// The reading before left the bit as it was: if it is set, and was then, it was set in the same interval.
    pub spared: bool,
}

/// The books. See the module.
#[derive(Debug)]
pub struct Books {
    frames: Frames,
    owners: Owners,
    /// `CLASSES` for each owner.
    tallies: Vec<Tally>,
    time: Timeline,
    /// What the last looks changed alike, not yet in the tallies.
    run: Run,
    /// Pages found accessed again in this round.
    again: Again,
    reaccessed: Histogram,
    /// Who is reading, and the mark of the reading; `NOBODY` between owners.
    reader: u32,
    mark: u8,
    /// Records for more than one frame.
    large: u64,
    /// Frames that have a record, those of huge leaves included.
    pages: u64,
    /// It is the reader's first reading: bits that are set may be from any time before.
    is_first: bool,
    /// A round has begun and not ended.
    open: bool,
}

/// No owner has this number.
const NOBODY: u32 = u32::MAX;

impl Books {
    /// Empty books. Times are milliseconds of any clock that does not go back; the time between this
    /// and the first round is an interval like others.
    #[must_use]
    pub fn new(now_ms: u64) -> Books {
        Books::with_round_limit(now_ms, word::ROUND_MAX)
    }

    /// As `new`, with rounds renumbered after so many: what else would need 65536 rounds.
    fn with_round_limit(now_ms: u64, limit: u32) -> Books {
        Books {
            frames: Frames::new(),
            owners: Owners::default(),
            tallies: Vec::new(),
            time: Timeline::new(now_ms, limit),
            run: Run::default(),
            again: Again::default(),
            reaccessed: Histogram::default(),
            reader: NOBODY,
            mark: 0,
            large: 0,
            pages: 0,
            is_first: false,
            open: false,
        }
    }

    /// One more address space to watch; none if 65536 are watched already.
    pub fn add_owner(&mut self) -> Option<Owner> {
        let owner = self.owners.add()?;
        let tallies = (owner.index() + 1) * CLASSES;
        if self.tallies.len() < tallies {
            self.tallies.resize_with(tallies, Tally::default);
        }
        debug_assert_eq!(
            self.owned_pages(owner.index()),
            0,
            "a number in use was given out"
        );
        Some(owner)
    }

    /// This address space is gone. Its frames go at the next `end_round`, but for those that others
    /// see until then: these inherit them. After a removal within a round, what the owner already saw
    /// in this round stays with it for this round and goes (or is inherited) in the next.
    ///
    /// # Panics
    ///
    /// If it was removed before.
    pub fn remove_owner(&mut self, owner: Owner) {
        self.owners.remove(owner);
        if self.reader == u32::from(owner.0) {
            self.reader = NOBODY;
        }
        debug_assert!(!self.owners.is_alive(owner.0));
    }

    /// Whether this owner, though it slept, is to be read at the next round rather than skipped: frames that it has seen were owned by
    /// another, who has lost some such frames or is gone.
    #[must_use]
    pub fn is_due(&self, owner: Owner) -> bool {
        self.owners.is_due(owner)
    }

    /// Pages of the frames that this owner owns, of one class. This and all other figures are those of
    /// the last `end_round`: within a round some of its looks may be missing.
    #[must_use]
    pub fn resident(&self, owner: Owner, class: Class) -> u64 {
        self.tallies
            .get(tally_of(owner.0, class.0))
            .map_or(0, Tally::pages)
    }

    /// Of these, pages of which nobody knows when they were accessed.
    #[must_use]
    pub fn unknown(&self, owner: Owner, class: Class) -> u64 {
        self.tallies
            .get(tally_of(owner.0, class.0))
            .map_or(0, Tally::unknown)
    }

    /// Whether there are any, of whatever class.
    #[must_use]
    pub fn has_unknown(&self, owner: Owner) -> bool {
        (0..16).any(|class| self.unknown(owner, Class(class)) > 0)
    }

    /// The rest of them: class, time of the last access in milliseconds, pages. By class and time,
    /// ascending. The time is that of the round that saw the access, or up to 1/32 of the age younger
    /// if that was more than 64 rounds ago.
    pub fn ages(&self, owner: Owner) -> impl Iterator<Item = (Class, u64, u64)> {
        (0..16).map(Class).flat_map(move |class| {
            let tally = self.tallies.get(tally_of(owner.0, class.0));
            let known = tally.into_iter().flat_map(Tally::known);
            known.map(move |(cohort, pages)| (class, self.time.time_ms(cohort), pages))
        })
    }

    /// Pages that were found accessed again since the books were begun, up to the last `end_round`:
    /// the age that they had before (milliseconds; at most 1/128 less, and as `ages` says), pages.
    /// Ascending. A page counts each time; one that is accessed in each round has the age of a round.
    pub fn reaccessed(&self) -> impl Iterator<Item = (u64, u64)> {
        self.reaccessed.iter()
    }

    /// Pages of this owner that were found accessed again in the last round: class, time of the access before, pages, as `ages` says. To be
    /// asked between `end_round` and the next `begin_round`.
    pub fn again(&self, owner: Owner) -> impl Iterator<Item = (Class, u64, u64)> {
        (0..16).map(Class).flat_map(move |class| {
            let found = self.again.of(tally_of(owner.0, class.0));
            found.map(move |(cohort, found)| (class, self.time.time_ms(cohort), found.all))
        })
    }

    /// Pages of this owner by the last access that was seen, in milliseconds, as [`Books::ages`]; pages of a known age of which
    /// no access was seen since they became known have none. By class; times ascending, but for those without.
    pub fn seen(&self, owner: Owner) -> impl Iterator<Item = (Class, Option<u64>, u64)> {
        (0..16).map(Class).flat_map(move |class| {
            let tally = self.tallies.get(tally_of(owner.0, class.0));
            let presumed = tally.map_or(0, Tally::presumed);
            let seen = tally.into_iter().flat_map(Tally::seen);
            let seen = seen.map(|(cohort, pages)| (Some(self.time.time_ms(cohort)), pages));
            let unseen = (presumed > 0).then_some((None, presumed));
            seen.chain(unseen)
                .map(move |(last, pages)| (class, last, pages))
        })
    }

    /// Pages of this owner that were seen accessed in the last round, as [`Books::again`], without those that only became known:
    /// class, time of the access before, pages of which that access was seen, and pages of which none was: of these the time
    /// is the latest that it can have been.
    pub fn seen_again(&self, owner: Owner) -> impl Iterator<Item = (Class, u64, u64, u64)> {
        (0..16).map(Class).flat_map(move |class| {
            let found = self.again.of(tally_of(owner.0, class.0));
            found.map(move |(cohort, found)| {
                let last_ms = self.time.time_ms(cohort);
                (class, last_ms, found.seen, found.first)
            })
        })
    }

    /// What the time of a round is told as by now, milliseconds: rounds of long ago become one, which has the time of its youngest.
    #[must_use]
    pub fn representative_ms(&self, round_ms: u64) -> u64 {
        self.time.representative_ms(round_ms)
    }

    /// The time of the round before the last one, milliseconds; that of the beginning before there were two.
    #[must_use]
    pub fn round_before_ms(&self) -> u64 {
        self.time.before_ms()
    }

    /// The time of the last round, milliseconds.
    #[must_use]
    pub fn last_round_ms(&self) -> u64 {
        self.time.now_ms()
    }

    /// Frames in the books: what `resident` of all owners and classes adds up to.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// Who owns a frame, and when it was last accessed (milliseconds; none if nobody knows); none if the books do
    /// not hold it.
    #[must_use]
    pub fn look_up(&self, frame: u64) -> Option<(Owner, Option<u64>)> {
        let (owner, word) = self.frames.record_of(frame)?;
        let place = place_of(&self.time, word);
        Some((
            Owner(owner),
            place.map(|place| self.time.time_ms(place.cohort)),
        ))
    }

    /// Bytes that the books occupy.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let counts: usize = self.tallies.iter().map(Tally::memory_bytes).sum();
        let arrays = self.tallies.capacity() * size_of::<Tally>() + self.again.memory_bytes();
        let rest = self.time.memory_bytes() + self.reaccessed.memory_bytes();
        size_of::<Books>()
            + self.frames.memory_bytes()
            + self.owners.memory_bytes()
            + arrays
            + counts
            + rest
    }

    /// All pages of an owner.
    fn owned_pages(&self, owner: usize) -> u64 {
        let tallies = &self.tallies[owner * CLASSES..][..CLASSES];
        tallies.iter().map(Tally::pages).sum()
    }
}

/// The place of an owner's class in `tallies`.
const fn tally_of(owner: u16, class: u8) -> usize {
    owner as usize * CLASSES + class as usize
}

/// Where a record is counted; none if its age is unknown.
fn place_of(time: &Timeline, word: Word) -> Option<Place> {
    (!word.unknown()).then(|| Place {
        cohort: time.cohort(word.last()),
        is_presumed: word.is_presumed(),
    })
}
