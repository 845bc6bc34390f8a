//! The age table: when each frame that some watched address space maps was last seen accessed.
//!
//! Invariant: a frame counts once, however many address spaces map it. It has one owner, and it is
//! as young as its youngest mapping. At the end of each scan, the pages of all owners together are
//! the frames in the table. No page is reported older than the observations allow; an age that
//! cannot be known is unknown.
//!
//! A leaf is a page table entry that maps memory: one page, or a huge page of 512 or 262144 pages.
//! A scan is [`AgeTable::begin_scan`]; then, for each address space, [`AgeTable::see`] for each
//! present page, or [`AgeTable::skip`]; then [`AgeTable::end_scan`]. The table is data only: it
//! reads no clock and knows no processes.
//!
//! Submodules:
//! - `age_record`: one record, and how one observation changes it;
//! - `timeline`: scans and their times;
//! - `age_counts` and `reaccesses`: page counts for each owner and class (`by_part`);
//! - `index`, `head`, `slabs` and `frames`: where records are stored;
//! - `owners`: the watched address spaces;
//! - `run` and `observe_known`: observations of known frames; `observe_unknown`: of fresh frames,
//!   and of huge pages that were split or joined;
//! - `scans`: begin and end of a scan.

mod age_counts;
mod age_record;
mod by_part;
mod index;

mod head;
mod reaccesses;
mod timeline;

mod owners;
mod run;
mod slabs;

mod frames;

// These modules use each other.
mod observe_known;
mod observe_unknown;

mod scans;
#[cfg(test)]
mod tests;

pub use owners::Owner;

use engine::log_histogram::LogHistogram;

use age_counts::{AgeCounts, CountedAt};
use age_record::AgeRecord;
use by_part::ByPart;
use frames::Frames;
use owners::Owners;
use reaccesses::Again;
use run::Run;
use timeline::Timeline;

/// Number of classes.
const CLASSES: usize = 16;

/// Class of a frame: its kind of memory and its NUMA node. The caller defines what the 16 numbers
/// mean.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Class(u8);

impl Class {
    /// Returns the class with this number; `None` from 16 on.
    #[must_use]
    pub const fn new(number: u8) -> Option<Class> {
        if (number as usize) < CLASSES {
            Some(Class(number))
        } else {
            None
        }
    }

    /// Returns the number of the class.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// What one walk found out about one mapping of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Observation {
    /// Whether the accessed bit is set.
    pub accessed: bool,
    /// Whether the last walk cleared the accessed bit, so that a set bit means an access since.
    pub trusted: bool,
    /// Whether accesses may leave the accessed bit clear (a secondary MMU): a clear bit proves
    /// nothing.
    pub hidden: bool,
    /// Whether the process has not run since before the last walk, so that a set bit was set before
    /// that walk.
    pub idle: bool,
    /// Whether the last walk left the bit uncleared on purpose. If the bit was set then, it may
    /// show the same access now.
    pub kept_bits: bool,
}

/// The age table (see the module).
#[derive(Debug)]
pub struct AgeTable {
    frames: Frames,
    owners: Owners,
    page_counts: ByPart<AgeCounts>,
    time: Timeline,
    /// Equal changes by the latest observations, which are not yet in the page counts.
    run: Run,
    /// Pages found accessed again in this scan.
    again: Again,
    /// Pages found accessed again in all scans, by their age before, in milliseconds.
    reaccessed: LogHistogram<7>,
    /// The owner that is being walked (`NO_OWNER` between two walks), and the mark of that walk.
    reader: u32,
    mark: u8,
    /// Number of records that cover more than one frame.
    large: u64,
    /// Number of frames that have a record; all frames of a huge page count.
    pages: u64,
    /// Whether the owner that is being walked is walked for the first time, so that the time at
    /// which bits were set is unknown.
    is_first: bool,
    /// Whether a scan is under way.
    open: bool,
}

/// A number that no owner has.
const NO_OWNER: u32 = u32::MAX;

impl AgeTable {
    /// Creates an empty table. Times are in milliseconds of any clock that does not go back. The
    /// time from `now_ms` to the first scan counts as an interval.
    #[must_use]
    pub fn new(now_ms: u64) -> AgeTable {
        AgeTable::with_scan_limit(now_ms, age_record::SCAN_MAX)
    }

    /// Creates a table that renumbers scans after `limit` scans. Only tests pass less than
    /// `SCAN_MAX`.
    fn with_scan_limit(now_ms: u64, limit: u32) -> AgeTable {
        AgeTable {
            frames: Frames::new(),
            owners: Owners::default(),
            page_counts: ByPart::default(),
            time: Timeline::new(now_ms, limit),
            run: Run::default(),
            again: Again::default(),
            reaccessed: LogHistogram::new(),
            reader: NO_OWNER,
            mark: 0,
            large: 0,
            pages: 0,
            is_first: false,
            open: false,
        }
    }

    /// Adds an address space; returns `None` if 65536 are watched already.
    pub fn add_owner(&mut self) -> Option<Owner> {
        let owner = self.owners.add()?;
        debug_assert_eq!(self.owned_by(owner), 0, "a number in use was given out");
        Some(owner)
    }

    /// Removes an address space. The next `end_scan` drops its frames, except frames that another
    /// address space is found to map before: these get that address space as owner. If an owner is
    /// removed within a scan, the frames that the scan has seen for it stay until the next scan.
    ///
    /// # Panics
    /// If the owner was removed before.
    pub fn remove_owner(&mut self, owner: Owner) {
        self.owners.remove(owner);
        if self.reader == u32::from(owner.0) {
            self.reader = NO_OWNER;
        }
        debug_assert!(!self.owners.is_alive(owner.0));
    }

    /// Returns whether the next scan must walk this owner even if its process is idle. This is so
    /// if the owner was found to map frames of another owner that was removed or has lost such
    /// frames.
    #[must_use]
    pub fn is_due(&self, owner: Owner) -> bool {
        self.owners.is_due(owner)
    }

    /// Returns the number of pages of one class that this owner owns, as of the last `end_scan`.
    /// Within a scan some of its observations may be missing.
    #[must_use]
    pub fn resident(&self, owner: Owner, class: Class) -> u64 {
        self.page_counts
            .get((owner.0, class.0))
            .map_or(0, AgeCounts::pages)
    }

    /// Returns the number of pages of all classes that this owner owns.
    #[must_use]
    pub fn owned_by(&self, owner: Owner) -> u64 {
        pages_of(&self.page_counts, owner.0)
    }

    /// Returns the number of pages of one class that this owner owns and that have an unknown age.
    #[must_use]
    pub fn unknown(&self, owner: Owner, class: Class) -> u64 {
        self.page_counts
            .get((owner.0, class.0))
            .map_or(0, AgeCounts::unknown)
    }

    /// Returns whether the owner has pages of unknown age in any class.
    #[must_use]
    pub fn has_unknown(&self, owner: Owner) -> bool {
        (0..16).any(|class| self.unknown(owner, Class(class)) > 0)
    }

    /// Returns an owner's pages of known age: class, time of the last access (ms), number of pages;
    /// ascending by class and time. The time is that of the scan that saw the access. For an age of
    /// more than 64 scans, the time may be later than that by up to 1/32 of the age.
    pub fn ages(&self, owner: Owner) -> impl Iterator<Item = (Class, u64, u64)> {
        (0..16).map(Class).flat_map(move |class| {
            let totals = self.page_counts.get((owner.0, class.0));
            let known = totals.into_iter().flat_map(AgeCounts::known);
            known.map(move |(cohort, pages)| (class, self.time.time_ms(cohort), pages))
        })
    }

    /// Returns the pages found accessed again since the table was created, up to the last
    /// `end_scan`: the age that they had before the access (ms), number of pages; ascending by age.
    /// Ages are at most 1/128 too low, besides the error of [`AgeTable::ages`]. A page counts once
    /// for each such access. A page accessed in each scan has an age of one interval.
    pub fn reaccessed(&self) -> impl Iterator<Item = (u64, u64)> {
        self.reaccessed.iter()
    }

    /// Returns this owner's pages found accessed again in the last scan: class, time of the
    /// previous access (ms), number of pages. Valid between `end_scan` and the next `begin_scan`.
    pub fn again(&self, owner: Owner) -> impl Iterator<Item = (Class, u64, u64)> {
        (0..16).map(Class).flat_map(move |class| {
            let found = self.again.of((owner.0, class.0));
            found.map(move |(cohort, found)| (class, self.time.time_ms(cohort), found.all))
        })
    }

    /// Returns this owner's pages by the last access that was seen: class, time (ms, as in
    /// [`AgeTable::ages`]), number of pages; ascending by class, then by time (`None` last). The
    /// time is `None` for pages of known age that were not seen accessed since their age became
    /// known.
    pub fn seen(&self, owner: Owner) -> impl Iterator<Item = (Class, Option<u64>, u64)> {
        (0..16).map(Class).flat_map(move |class| {
            let totals = self.page_counts.get((owner.0, class.0));
            let presumed = totals.map_or(0, AgeCounts::presumed);
            let seen = totals.into_iter().flat_map(AgeCounts::seen);
            let seen = seen.map(|(cohort, pages)| (Some(self.time.time_ms(cohort)), pages));
            let unseen = (presumed > 0).then_some((None, presumed));
            seen.chain(unseen)
                .map(move |(last, pages)| (class, last, pages))
        })
    }

    /// Returns this owner's pages that were seen accessed in the last scan, without pages of which
    /// only the age became known. Members: class, time of the previous access (ms), number of pages
    /// whose previous access was seen, number of pages whose previous access was not seen. For the
    /// latter, the time is the latest possible.
    pub fn seen_again(&self, owner: Owner) -> impl Iterator<Item = (Class, u64, u64, u64)> {
        (0..16).map(Class).flat_map(move |class| {
            let found = self.again.of((owner.0, class.0));
            found.map(move |(cohort, found)| {
                let last_ms = self.time.time_ms(cohort);
                (class, last_ms, found.seen, found.first)
            })
        })
    }

    /// Returns the time (ms) that the table now reports for an access in the scan at `scan_ms`.
    /// Old scans are merged, and have the time of the youngest of them.
    #[must_use]
    pub fn representative_ms(&self, scan_ms: u64) -> u64 {
        self.time.representative_ms(scan_ms)
    }

    /// Returns the time of the scan before the last one, in milliseconds; the time of the table's
    /// creation if there was only one.
    #[must_use]
    pub fn scan_before_ms(&self) -> u64 {
        self.time.before_ms()
    }

    /// Returns the time of the last scan, in milliseconds.
    #[must_use]
    pub fn last_scan_ms(&self) -> u64 {
        self.time.now_ms()
    }

    /// Returns the number of frames in the table: the sum of `resident` over all owners and
    /// classes.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the owner of a frame, and the time of its last access (ms; `None` if unknown).
    /// Returns `None` if the frame is not in the table.
    #[must_use]
    pub fn look_up(&self, frame: u64) -> Option<(Owner, Option<u64>)> {
        let (owner, word) = self.frames.record_of(frame)?;
        let place = place_of(&self.time, word);
        Some((
            Owner(owner),
            place.map(|place| self.time.time_ms(place.cohort)),
        ))
    }

    /// Returns the bytes that the table occupies.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let counts: usize = self.page_counts.iter().map(AgeCounts::memory_bytes).sum();
        let arrays = self.page_counts.memory_bytes() + self.again.memory_bytes();
        let rest = self.time.memory_bytes() + self.reaccessed.memory_bytes();
        size_of::<AgeTable>()
            + self.frames.memory_bytes()
            + self.owners.memory_bytes()
            + arrays
            + counts
            + rest
    }
}

/// Returns the number of pages that an owner has in all classes.
fn pages_of(page_counts: &ByPart<AgeCounts>, owner: u16) -> u64 {
    let page_counts = (0..16).filter_map(|class| page_counts.get((owner, class)));
    page_counts.map(AgeCounts::pages).sum()
}

/// Returns the count to which the record's pages belong; `None` if the age is unknown.
fn place_of(time: &Timeline, word: AgeRecord) -> Option<CountedAt> {
    (!word.unknown()).then(|| CountedAt {
        cohort: time.cohort(word.last()),
        is_presumed: word.is_presumed(),
    })
}
