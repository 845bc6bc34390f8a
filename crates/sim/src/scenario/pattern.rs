//! Chooses which page of a mapping is touched next.
//!
//! Invariant: every page number is below the mapping's number of pages. The pages that a pattern
//! chooses depend only on its own stream of random numbers and on simulated time.

use super::file::{PatternName, Work};
use super::recorded::{Event, Recorded, Replay};
use super::values::Size;
use crate::rng::Rng;
use crate::stats::whole;
use std::sync::Arc;
use touches::zipf::Zipf;

/// Defaults, as in fio and in the source documents: hot share of the mapping, share of the touches
/// that go there, size of a chunk in bytes.
const HOT: f64 = 0.1;
const HOT_TOUCHES: f64 = 0.9;
const CHUNK: u64 = 512 << 10;

/// A generator of page numbers.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Random pages, all equally likely.
    Uniform,
    /// Random pages with a Zipf distribution, scattered over the mapping.
    Zipf(Zipf),
    /// All pages in order, again and again or (`once`) a single time.
    Forward {
        /// The next page.
        next: u32,
        /// Whether the pattern ends after the last page.
        once: bool,
    },
    /// Random pages, most of them in a hot part that moves.
    HotCold {
        /// Number of hot pages.
        hot: u32,
        /// Share of the touches that go to hot pages.
        touches: f64,
        /// Milliseconds until another part becomes hot; 0 for never.
        phase: u64,
    },
    /// A random chunk with a Zipf distribution, then all its pages in order.
    Chunks {
        /// Chooses the chunk.
        zipf: Zipf,
        /// Number of pages in a chunk.
        chunk: u32,
        /// Number of pages of the current chunk that are still to be touched.
        left: u32,
        /// The next page.
        next: u32,
    },
    /// The accesses of a recording.
    Recorded {
        /// The recording.
        recorded: Arc<Recorded>,
        /// Position in the recording.
        at: Replay,
    },
}

impl Pattern {
    /// Makes the pattern of `work`.
    #[must_use]
    pub fn new(work: &Work) -> Self {
        let pages = small(work.pages());
        let forward = |once| Self::Forward { next: 0, once };
        match work.pattern {
            PatternName::Uniform | PatternName::FioRandrw => Self::Uniform,
            PatternName::Recording => Self::Recorded {
                recorded: work.recorded.clone().unwrap_or_default(),
                at: Replay::default(),
            },
            PatternName::Zipf | PatternName::FioZipf => {
                Self::Zipf(Zipf::new(pages, work.exponent.unwrap_or(0.0)))
            }
            PatternName::Scan => forward(true),
            PatternName::Loop => forward(false),
            PatternName::HotCold => {
                let hot = work.hot.map_or(HOT, |share| share.0) * f64::from(pages);
                Self::HotCold {
                    hot: whole(hot).clamp(1, pages),
                    touches: work.hot_touches.map_or(HOT_TOUCHES, |share| share.0),
                    phase: work.phase.map_or(0, |phase| phase.0),
                }
            }
            PatternName::Ebizzy => {
                let chunk = small(Size(work.chunk.map_or(CHUNK, |chunk| chunk.0)).pages());
                let chunk = chunk.min(pages);
                let zipf = Zipf::new(pages / chunk, work.exponent.unwrap_or(0.0));
                Self::Chunks {
                    zipf,
                    chunk,
                    left: 0,
                    next: 0,
                }
            }
        }
    }

    /// Returns the next page, a number below `pages`, at time `now` (milliseconds); `None` if the
    /// pattern has ended.
    #[inline]
    pub fn next(&mut self, rng: &mut Rng, pages: u32, now: u64) -> Option<u32> {
        match self {
            Self::Uniform => Some(rng.below(pages)),
            Self::Zipf(zipf) => Some(zipf.next(rng)),
            Self::Forward { next, once } => {
                let page = *next;
                if page >= pages {
                    return None;
                }
                *next += 1;
                if *next == pages && !*once {
                    *next = 0;
                }
                Some(page)
            }
            Self::HotCold {
                hot,
                touches,
                phase,
            } => {
                let number = now.checked_div(*phase).unwrap_or(0);
                let from = number.wrapping_mul(u64::from(*hot)) % u64::from(pages);
                if rng.unit() < *touches {
                    let page = from + u64::from(rng.below(*hot));
                    Some(small(page % u64::from(pages)))
                } else {
                    Some(rng.below(pages))
                }
            }
            Self::Chunks {
                zipf,
                chunk,
                left,
                next,
            } => {
                if *left == 0 {
                    *next = zipf.next(rng) * *chunk;
                    *left = *chunk;
                }
                *left -= 1;
                *next += 1;
                Some(*next - 1)
            }
            Self::Recorded { .. } => None,
        }
    }

    /// Returns the next event of a recording that is before `now` (milliseconds since the recording
    /// began); `None` if there is none, or for other patterns.
    pub fn replay(&mut self, now: u64) -> Option<Event> {
        match self {
            Self::Recorded { recorded, at } => recorded.next(at, now),
            _ => None,
        }
    }
}

fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::values::{Rate, Size};

    fn work(pattern: PatternName, pages: u64) -> Work {
        let text = "pattern = \"uniform\"\nsize = 4096\nrate = 1";
        let work: Work = toml::from_str(text).expect("a work");
        Work {
            pattern,
            size: Some(Size(pages * 4096)),
            rate: Some(Rate(1)),
            exponent: matches!(pattern, PatternName::Zipf).then_some(0.9),
            ..work
        }
    }

    fn draw(pattern: PatternName, pages: u32, nr: usize) -> Vec<u32> {
        let (mut rng, mut made) = (Rng::new(1), Pattern::new(&work(pattern, u64::from(pages))));
        (0..nr)
            .map_while(|n| made.next(&mut rng, pages, n as u64))
            .collect()
    }

    #[test]
    fn numbers_stay_in_the_mapping() {
        use PatternName::{Ebizzy, FioRandrw, HotCold, Loop, Scan, Uniform, Zipf};
        for pattern in [Uniform, Zipf, Scan, Loop, HotCold, FioRandrw, Ebizzy] {
            for pages in [1, 2, 7, 1000] {
                let drawn = draw(pattern, pages, 3000);
                assert!(
                    drawn.iter().all(|&page| page < pages),
                    "{pattern:?} {pages}"
                );
                let expect = if pattern == Scan {
                    pages.min(3000) as usize
                } else {
                    3000
                };
                assert_eq!(drawn.len(), expect, "{pattern:?} {pages}");
            }
        }
    }

    #[test]
    fn loops_and_scans_go_forward() {
        assert_eq!(draw(PatternName::Loop, 3, 7), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(draw(PatternName::Scan, 3, 7), [0, 1, 2]);
    }
}
