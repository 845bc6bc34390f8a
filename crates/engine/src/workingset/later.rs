//! What came in the later half of all that was watched.
//!
//! Invariant: of no less than half of the time, and of hardly more: a moment is as many looks as any other, but for the last, and where there are
//! more than [`MOMENTS`], two become one.

use alloc::vec::Vec;

use crate::units::Millis;

/// So many are kept at most.
const MOMENTS: usize = 64;

/// Counts until its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moment {
    /// Time that was watched, milliseconds.
    pub(super) watched: u64,
    /// Pages that were accessed for the first time.
    pub(super) first: u64,
    /// Pages that were accessed, a page once a look.
    pub(super) touches: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Later {
    /// In order, behind the first look, which has counted nothing.
    moments: Vec<Moment>,
    /// Looks that a moment has, as a power of two.
    shift: u32,
    /// Looks that the last one has.
    within: u64,
}

impl Later {
    /// So many more in so much more time.
    pub(super) fn add(&mut self, time: Millis, first: u64, touches: u64) {
        let last = self.moments.last().copied().unwrap_or_default();
        if self.within < 1 << self.shift {
            self.moments.pop();
        } else {
            self.within = 0;
        }
        self.within += 1;
        self.moments.push(Moment {
            watched: last.watched + time.0,
            first: last.first + first,
            touches: last.touches + touches,
        });
        if self.moments.len() > MOMENTS {
            let mut number = 0;
            self.moments.retain(|_| {
                number += 1;
                number % 2 == 0 || number > MOMENTS
            });
            self.shift += 1;
        }
    }

    /// What came since the first moment that is in the later half.
    pub(super) fn half(&self) -> Moment {
        let last = self.moments.last().copied().unwrap_or_default();
        let is_early = |one: &&Moment| one.watched * 2 <= last.watched;
        let begin = self.moments.iter().rev().find(is_early);
        let begin = begin.copied().unwrap_or_default();
        Moment {
            watched: last.watched - begin.watched,
            first: last.first - begin.first,
            touches: last.touches - begin.touches,
        }
    }

    /// Bytes on the heap.
    pub(super) const fn memory_bytes(&self) -> usize {
        self.moments.capacity() * size_of::<Moment>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_in_the_first_half_is_forgotten() {
        let mut later = Later::default();
        assert_eq!(later.half(), Moment::default());
        // All pages are new at first, then one in ten looks is.
        for look in 0..1000_u64 {
            let first = if look < 10 {
                500
            } else {
                u64::from(look % 10 == 0)
            };
            later.add(Millis(1000), first, 600);
        }
        let half = later.half();
        let looks = half.watched / 1000;
        assert!((500..=532).contains(&looks), "{half:?}");
        assert_eq!(half.touches, looks * 600);
        assert!(half.first.abs_diff(looks / 10) <= 1, "{half:?}");
        assert!(later.moments.len() <= MOMENTS);
    }

    #[test]
    fn one_look_is_all() {
        let mut later = Later::default();
        later.add(Millis(7), 3, 5);
        let all = Moment {
            watched: 7,
            first: 3,
            touches: 5,
        };
        assert_eq!(later.half(), all);
    }
}
