//! The simulated programs on which policies are tested: which pages each of them uses in a period
//! of time.
//!
//! Invariant: which pages are used depends only on the seed and the time, never on what is in
//! memory. A page that is used more than once between two scans counts once, because a scan cannot
//! see more.

use crate::rng::Rng;
use crate::stats::{number, whole};
use touches::zipf::Zipf;

/// How a program uses its pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// Each page has its own mean time between two uses, from `oftenest` to `rarest` seconds; its
    /// uses are at random times (Poisson). Each doubling of that mean time has the same number of
    /// pages. A share `never` of the pages is not used after it was loaded.
    Spectrum {
        oftenest: f64,
        rarest: f64,
        never: f64,
    },
    /// `requests` per second for keys with a Zipf distribution; each key has one page. A third of
    /// all pages is loaded and never used.
    Store { requests: f64, exponent: f64 },
    /// A share `part` of the pages is read in order, in `seconds` for all of them, again and again.
    /// Of the other pages, `others` random ones per second are used.
    Loop {
        part: f64,
        seconds: f64,
        others: f64,
    },
}

/// How the used part of a program's memory changes over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Course {
    Steady,
    /// The program uses only the first half of its pages for `seconds`, then all pages for
    /// `seconds`, and so on. If `frees`, it frees the second half when it stops using it; if not,
    /// that half is idle until it is used again.
    Doubles {
        seconds: u64,
        frees: bool,
    },
}

/// A program: its name, how it uses its pages, and how the used part changes.
pub(super) type Named = (&'static str, Kind, Course);

/// The two programs on which every policy is tested. Each policy is also tested on other programs.
pub(super) const SPECTRUM: Named = (
    "spectrum: each page once in 5 s to 10 min, three in ten never",
    Kind::Spectrum {
        oftenest: 5.0,
        rarest: 600.0,
        never: 0.3,
    },
    Course::Steady,
);
pub(super) const STORE: Named = (
    "store: 2,000 requests a second, zipf 0.9",
    Kind::Store {
        requests: 2000.0,
        exponent: 0.9,
    },
    Course::Steady,
);

/// Returns the number of pages of a program of 1 GiB, divided by `scale`.
pub(super) fn pages(scale: u64) -> u32 {
    u32::try_from((256 << 10) / scale).unwrap_or(u32::MAX)
}

/// A program.
#[derive(Clone, Debug)]
pub(super) struct Program {
    kind: Kind,
    course: Course,
    pages: u32,
    rng: Rng,
    /// For each page: its mean number of uses per second.
    rates: Vec<f64>,
    chances: (f64, Vec<f64>),
    zipf: Option<Zipf>,
    /// Fraction of a use that is carried over to the next period.
    owed: f64,
    next: u32,
}

impl Program {
    pub(super) fn new(kind: Kind, course: Course, pages: u32, seed: u64) -> Self {
        let mut rng = Rng::stream(seed, 11);
        let rates = match kind {
            Kind::Spectrum {
                oftenest,
                rarest,
                never,
            } => {
                let span = (rarest / oftenest).ln();
                let rate = |_| match rng.unit() < never {
                    true => 0.0,
                    false => 1.0 / (oftenest * (rng.unit() * span).exp()),
                };
                (0..pages).map(rate).collect()
            }
            _ => Vec::new(),
        };
        let zipf = match kind {
            Kind::Store { exponent, .. } => Some(Zipf::new(pages * 2 / 3, exponent)),
            _ => None,
        };
        Self {
            kind,
            course,
            pages,
            rng,
            rates,
            chances: (0.0, Vec::new()),
            zipf,
            owed: 0.0,
            next: 0,
        }
    }

    /// Returns the number of pages that the program may use.
    pub(super) const fn pages(&self) -> u32 {
        self.pages
    }

    /// Whether the program uses all of its memory at `second`, not only the first half.
    pub(super) fn is_whole(&self, second: u64) -> bool {
        match self.course {
            Course::Steady => true,
            Course::Doubles { seconds, .. } => second / seconds % 2 == 1,
        }
    }

    /// Returns the pages that the program frees at `second`; `None` if it does not halve at that
    /// time, or frees nothing.
    pub(super) fn given_back(&self, second: u64) -> Option<std::ops::Range<u32>> {
        let Course::Doubles {
            seconds,
            frees: true,
        } = self.course
        else {
            return None;
        };
        let halves = second > 0 && second.is_multiple_of(seconds * 2);
        halves.then_some(self.pages / 2..self.pages)
    }

    /// Returns the pages that the program loads before it starts.
    pub(super) fn loads(&self) -> std::ops::Range<u32> {
        match self.course {
            Course::Doubles { frees: true, .. } => 0..self.pages / 2,
            _ => 0..self.pages,
        }
    }

    /// Calls `visit` with each page that is used in the `seconds` from `second` on, possibly more
    /// than once.
    pub(super) fn uses(&mut self, second: u64, seconds: f64, visit: &mut dyn FnMut(u32)) {
        let pages = if self.is_whole(second) {
            self.pages
        } else {
            self.pages / 2
        };
        match self.kind {
            Kind::Spectrum { .. } => {
                if (self.chances.0 - seconds).abs() > f64::EPSILON {
                    let chance = |rate: &f64| -(-rate * seconds).exp_m1();
                    self.chances = (seconds, self.rates.iter().map(chance).collect());
                }
                for (page, chance) in (0..pages).zip(&self.chances.1) {
                    if *chance > 0.0 && self.rng.unit() < *chance {
                        visit(page);
                    }
                }
            }
            Kind::Store { requests, .. } => {
                let share = number(pages.into()) / number(self.pages.into());
                for _ in 0..self.due(requests * share * seconds) {
                    let Some(zipf) = &self.zipf else { break };
                    // Requests go only to the keys in the half that is in use, with the popularity
                    // of all keys.
                    let key = zipf.next(&mut self.rng);
                    visit(if key < pages { key } else { key - pages });
                }
            }
            Kind::Loop {
                part,
                seconds: round,
                others,
            } => {
                let hot = whole(number(pages.into()) * part).max(1);
                for _ in 0..self.due(number(hot.into()) / round * seconds) {
                    self.next = (self.next + 1) % hot;
                    visit(self.next);
                }
                for _ in 0..whole(others * seconds) {
                    visit(hot + self.rng.below((pages - hot).max(1)));
                }
            }
        }
    }

    /// Adds `more` uses to the carried fraction; returns the number of whole uses, and keeps the
    /// rest.
    fn due(&mut self, more: f64) -> u32 {
        self.owed += more;
        let due = whole(self.owed);
        self.owed -= number(due.into());
        due
    }
}
