//! Changes of records on their way to the tallies: neighbours mostly change alike.
//!
//! Invariant: tallies with the run added are the counts of the records. Whoever reads tallies or takes
//! from them flushes the run first; the end of a round does.

use super::again::Found;
use super::word::{Size, Word};
use super::{Books, place_of, tally_of};

/// Looks in a row that moved as many records from one place to another.
#[derive(Debug)]
pub(super) struct Run {
    /// Owner and record, before and after.
    from: (u16, Word),
    to: (u16, Word),
    /// Whether each was accessed again after an idle time that is known.
    again: bool,
    /// How many records.
    records: u64,
}

impl Default for Run {
    fn default() -> Run {
        let nobody = (0, Word::fresh(0, Size::One));
        Run {
            from: nobody,
            to: nobody,
            again: false,
            records: 0,
        }
    }
}

/// Whether both are counted at the same place.
#[inline]
const fn alike(one: (u16, Word), other: (u16, Word)) -> bool {
    one.0 == other.0 && one.1.counts_like(other.1)
}

impl Books {
    /// A record that has changed is counted elsewhere.
    #[inline]
    pub(super) fn recount(&mut self, from: (u16, Word), to: (u16, Word), again: bool) {
        debug_assert!(from.1.size() == to.1.size(), "no frame comes or goes here");
        let run = &mut self.run;
        if !(alike(run.from, from) && alike(run.to, to) && run.again == again) {
            self.flush_run();
            self.run = Run {
                from,
                to,
                again,
                records: 0,
            };
        }
        self.run.records += 1;
        debug_assert!(!alike(from, to), "something has changed");
    }

    /// Brings the tallies up to date.
    pub(super) fn flush_run(&mut self) {
        let Run {
            from,
            to,
            again,
            records,
        } = self.run;
        if records == 0 {
            return;
        }
        self.run.records = 0;
        let pages = records * from.1.size().pages();
        let place = place_of(&self.time, from.1);
        self.tallies[tally_of(from.0, from.1.class())].take(place, pages);
        let place = place_of(&self.time, to.1);
        self.tallies[tally_of(to.0, to.1.class())].add(place, pages);
        if again {
            let found = Found::new(pages, from.1.is_presumed(), to.1.is_presumed());
            self.count_again((to.0, to.1.class()), from.1.last(), found);
        }
    }

    /// Pages of an owner, of this class, whose access before was in `round` were accessed again.
    pub(super) fn count_again(&mut self, (owner, class): (u16, u8), round: u32, found: Found) {
        debug_assert!(round < self.time.now(), "an age is at least a round");
        let place = tally_of(owner, class);
        self.again.add(place, self.time.cohort(round), found);
    }
}
