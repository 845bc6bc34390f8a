//! Programs that policies are tried on: which pages are used in each stretch of time.
//!
//! Invariant: what is used depends on the seed and the time alone, never on what is in memory. Of a page that is used more
//! than once in a stretch one use counts: what a look sees.

use crate::rng::Rng;
use crate::stats::{number, whole};
use touches::zipf::Zipf;

/// How a program uses its pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// Each page by itself, at times of its own (Poisson), rarest to most often from once in `rarest` to once in `oftenest`
    /// seconds, as many pages in each doubling; the rest of them, a share, never after they were loaded.
    Spectrum {
        oftenest: f64,
        rarest: f64,
        never: f64,
    },
    /// Requests a second for keys by their popularity, a page each, and half as many pages that are loaded and never used.
    Store { requests: f64, exponent: f64 },
    /// A part of the pages one after the other, all of them in so many seconds; of the rest so many a second, at random.
    Loop {
        part: f64,
        seconds: f64,
        others: f64,
    },
}

/// How much of its memory a program uses when: all of it, or half and all in turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Course {
    Steady,
    /// All of it from each odd multiple of so many seconds to the next even one, else the first half; when it halves, the
    /// second half is given back if it `frees`, else it lies idle and is used again.
    Doubles {
        seconds: u64,
        frees: bool,
    },
}

/// What it is called, and how it uses its pages.
pub(super) type Named = (&'static str, Kind, Course);

/// Each policy is tried on these two, beside others of its own.
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

/// Pages of a program of 1 GiB at this scale.
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
    /// By page, uses a second; and the chance that it is used in so many seconds.
    rates: Vec<f64>,
    chances: (f64, Vec<f64>),
    zipf: Option<Zipf>,
    /// What is owed, and where the loop is.
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

    /// How many pages it may use.
    pub(super) const fn pages(&self) -> u32 {
        self.pages
    }

    /// Whether the second half is in use at this second.
    pub(super) fn is_whole(&self, second: u64) -> bool {
        match self.course {
            Course::Steady => true,
            Course::Doubles { seconds, .. } => second / seconds % 2 == 1,
        }
    }

    /// The pages that are given back at this second, if it has just halved.
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

    /// What it loads before anything else.
    pub(super) fn loads(&self) -> std::ops::Range<u32> {
        match self.course {
            Course::Doubles { frees: true, .. } => 0..self.pages / 2,
            _ => 0..self.pages,
        }
    }

    /// The pages that are used in so many seconds from `second` on; one may be told more than once.
    pub(super) fn uses(&mut self, second: u64, seconds: f64, told: &mut dyn FnMut(u32)) {
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
                        told(page);
                    }
                }
            }
            Kind::Store { requests, .. } => {
                let share = number(pages.into()) / number(self.pages.into());
                for _ in 0..self.due(requests * share * seconds) {
                    let Some(zipf) = &self.zipf else { break };
                    // Keys of the half that is in use, whose popularity is that of all.
                    let key = zipf.next(&mut self.rng);
                    told(if key < pages { key } else { key - pages });
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
                    told(self.next);
                }
                for _ in 0..whole(others * seconds) {
                    told(hot + self.rng.below((pages - hot).max(1)));
                }
            }
        }
    }

    /// Whole ones of what is owed by now.
    fn due(&mut self, more: f64) -> u32 {
        self.owed += more;
        let due = whole(self.owed);
        self.owed -= number(due.into());
        due
    }
}
