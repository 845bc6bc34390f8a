//! Compares the misses of two policies at the sizes of their curves.
//!
//! Invariant: a gap is between two different policies, and has one entry for each size.

use super::{CurvePolicy, Curves};

/// The additional misses of a policy, compared with another policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    /// The policy that is compared with.
    pub to: CurvePolicy,
    /// For each size, the additional misses as a share of the other policy's misses: 0.1 is a tenth
    /// more, -0.1 a tenth fewer. `None` if the other policy has no misses at this size, which
    /// happens only in a sample.
    pub more: Vec<Option<f64>>,
}

impl Gap {
    /// Returns the mean over the sizes; `None` if there are none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a handful of sizes")]
    pub fn mean(&self) -> Option<f64> {
        let known = || self.more.iter().flatten();
        (known().count() > 0).then(|| known().sum::<f64>() / known().count() as f64)
    }

    /// Returns the smallest gap: index of the size, and share.
    #[must_use]
    pub fn least(&self) -> Option<(usize, f64)> {
        self.entries().min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns the largest gap: index of the size (the smallest, if several have the same gap), and
    /// share.
    #[must_use]
    pub fn most(&self) -> Option<(usize, f64)> {
        self.entries().rev().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn entries(&self) -> impl DoubleEndedIterator<Item = (usize, f64)> {
        let entry = |(n, more): (usize, &Option<f64>)| more.map(|more| (n, more));
        self.more.iter().enumerate().filter_map(entry)
    }
}

impl Curves {
    /// Returns the gaps between `policy` and each other policy, in the order of the curves; empty
    /// if `policy` has no curve.
    #[must_use]
    pub fn gaps(&self, policy: CurvePolicy) -> Vec<Gap> {
        let Some((_, own)) = self.curves.iter().find(|(known, _)| *known == policy) else {
            return Vec::new();
        };
        let others = self.curves.iter().filter(|(other, _)| *other != policy);
        let gap = |(to, ratios): &(CurvePolicy, Vec<f64>)| {
            let pairs = own.iter().zip(ratios);
            let more = |(own, other): (&f64, &f64)| (*other > 0.0).then(|| own / other - 1.0);
            Gap {
                to: *to,
                more: pairs.map(more).collect(),
            }
        };
        others.map(gap).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Format;

    #[test]
    fn gaps_are_shares_of_the_others_misses() {
        let curves = Curves {
            format: Format::Csv,
            references: 100,
            pages: 3,
            sampled_pages: None,
            left_out: 0,
            note: None,
            sizes: vec![1, 2, 3],
            curves: vec![
                (CurvePolicy::Lru, vec![0.5, 0.4, 0.0]),
                (CurvePolicy::LruGen, vec![0.6, 0.3, 0.0]),
            ],
        };
        let gaps = curves.gaps(CurvePolicy::LruGen);
        let [gap] = &gaps[..] else {
            panic!("{gaps:?}");
        };
        assert_eq!((gap.to, gap.more[2]), (CurvePolicy::Lru, None));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(gap.mean().is_some_and(|mean| near(mean, -0.025)));
        assert!(
            gap.least()
                .is_some_and(|(n, more)| n == 1 && near(more, -0.25))
        );
        assert!(
            gap.most()
                .is_some_and(|(n, more)| n == 0 && near(more, 0.2))
        );
        assert!(curves.gaps(CurvePolicy::Opt).is_empty());
    }
}
