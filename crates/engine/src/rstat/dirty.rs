//! Which statistics have changed: one bit each, so that a flush looks at no other.

use alloc::boxed::Box;

/// A set of statistics.
#[derive(Clone, Debug)]
pub(super) struct Dirty(Box<[u64]>);

impl Dirty {
    pub(super) fn new(nr_stats: usize) -> Self {
        Self(alloc::vec![0; nr_stats.div_ceil(64)].into_boxed_slice())
    }

    #[inline]
    pub(super) fn set(&mut self, stat: usize) {
        self.0[stat / 64] |= 1 << (stat % 64);
    }

    /// Empties this set and `other`, and calls `f` for each member of either.
    #[inline]
    pub(super) fn take_with(&mut self, other: Option<&mut Self>, mut f: impl FnMut(usize)) {
        let mut other = other.map(|other| other.0.iter_mut());
        for (n, word) in self.0.iter_mut().enumerate() {
            let more = other.as_mut().and_then(Iterator::next);
            let mut bits = core::mem::take(word) | more.map_or(0, core::mem::take);
            while bits != 0 {
                f(n * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_either_come_once() {
        let (mut a, mut b) = (Dirty::new(130), Dirty::new(130));
        for stat in [0, 63, 64, 129] {
            a.set(stat);
        }
        for stat in [1, 64, 128] {
            b.set(stat);
        }
        let mut seen = alloc::vec::Vec::new();
        a.take_with(Some(&mut b), |stat| seen.push(stat));
        assert_eq!(seen, [0, 1, 63, 64, 128, 129]);
        a.take_with(Some(&mut b), |_| panic!("emptied"));
    }
}
