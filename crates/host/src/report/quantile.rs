//! The age up to which a share of the memory was accessed. A tiering daemon uses it as the
//! threshold for what belongs into fast memory (docs/spec/workingset-report.md, 8).
//!
//! An access is dated at the scan that finds it. So a page may be older than its bin says, by the
//! time between two scans.
//!
//! Invariant: the age is the edge of a bin of the report, plus the time between two scans; and it
//! is the smallest such age for which the share suffices.

use serde::{Deserialize, Serialize};

use super::NodeAge;

/// A share of the memory of known age, and the age that this share does not exceed.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct AgeQuantile {
    /// The requested share, percent.
    pub percent: f64,
    /// The NUMA node; `None` for all nodes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Age in milliseconds: at least the share was accessed in this time. `None` if no age is
    /// known, or if the share reaches into the oldest bin, which has no upper edge.
    pub age_ms: Option<u64>,
    /// Memory of known age that was accessed in this time; all memory of known age if `age_ms` is
    /// `None`.
    pub bytes: u64,
    /// All memory of known age.
    pub known_bytes: u64,
}

impl AgeQuantile {
    /// Finds the age for a share of `percent`, above 0 and at most 100, of the memory of `node`, or
    /// of all `nodes` if `None`. `interval_ms`: the time between two scans.
    pub(super) fn of(
        nodes: &[NodeAge],
        interval_ms: u64,
        (percent, node): (f64, Option<u32>),
    ) -> Self {
        let chosen = nodes
            .iter()
            .filter(|one| node.is_none_or(|node| one.node == node));
        let mut bins: Vec<(u64, u64)> = chosen.flat_map(bins).collect();
        bins.sort_unstable();
        let known_bytes = bins.iter().map(|(_, bytes)| *bytes);
        let known_bytes = known_bytes.fold(0, u64::saturating_add);
        // Compares products, not quotients: with a division, 55% of 100 bytes is more than 55.0.
        let suffices = |bytes: u64| as_f64(bytes) * 100.0 >= as_f64(known_bytes) * percent;
        let mut younger = 0_u64;
        let found = bins.windows(2).find_map(|two| {
            let [(from, bytes), (edge, _)] = [two[0], two[1]];
            younger = younger.saturating_add(bytes);
            (from < edge && known_bytes > 0 && suffices(younger)).then_some((edge, younger))
        });
        Self {
            percent,
            node,
            age_ms: found.map(|(edge, _)| edge.saturating_add(interval_ms)),
            bytes: found.map_or(known_bytes, |(_, bytes)| bytes),
            known_bytes,
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the sizes of memory are below 2^53"
)]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}

/// Returns the bins of a node: lower edge in milliseconds, then number of bytes.
fn bins(node: &NodeAge) -> impl Iterator<Item = (u64, u64)> {
    let bins = node.bins.iter();
    bins.map(|bin| (bin.older_than_ms, bin.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::AgeBin;

    fn node(node: u32, bins: &[(u64, u64)]) -> NodeAge {
        let bin = |&(older_than_ms, anon_bytes)| AgeBin {
            older_than_ms,
            anon_bytes,
            file_bytes: 0,
        };
        NodeAge {
            node,
            bins: bins.iter().map(bin).collect(),
        }
    }

    fn of(nodes: &[NodeAge], percent: f64, node: Option<u32>) -> AgeQuantile {
        AgeQuantile::of(nodes, 0, (percent, node))
    }

    #[test]
    fn the_smallest_edge_that_suffices() {
        let nodes = [node(0, &[(0, 55), (1000, 25), (2000, 20), (4000, 0)])];
        let age = |percent| of(&nodes, percent, None).age_ms;
        let ages = [0.1, 55.0, 55.1, 80.0, 80.1, 100.0].map(age);
        assert_eq!(ages, [1000, 1000, 2000, 2000, 4000, 4000].map(Some));
        let found = of(&nodes, 70.0, None);
        assert_eq!((found.bytes, found.known_bytes), (80, 100));
    }

    /// Regression: with a scan each 10 s, memory that was accessed some time in the last 10 s was
    /// reported as accessed in the last second.
    #[test]
    fn a_page_may_be_older_by_the_time_between_two_scans() {
        let nodes = [node(0, &[(0, 100), (1000, 0)])];
        let found = AgeQuantile::of(&nodes, 10_000, (80.0, None));
        assert_eq!(found.age_ms, Some(11_000));
    }

    #[test]
    fn each_node_has_its_own_age() {
        let nodes = [
            node(0, &[(0, 90), (1000, 10)]),
            node(2, &[(0, 10), (1000, 90)]),
        ];
        let age = |node| of(&nodes, 80.0, node).age_ms;
        assert_eq!(age(Some(0)), Some(1000));
        assert_eq!(age(Some(2)), None, "the oldest bin has no upper edge");
        assert_eq!(age(None), None);
        // A node without memory of known age.
        let found = of(&nodes, 80.0, Some(1));
        assert_eq!((found.age_ms, found.known_bytes), (None, 0));
    }

    #[test]
    fn without_ages_there_is_none() {
        for nodes in [vec![], vec![node(0, &[])], vec![node(0, &[(0, 0), (5, 0)])]] {
            let found = of(&nodes, 50.0, None);
            assert_eq!((found.age_ms, found.known_bytes), (None, 0));
        }
    }
}
