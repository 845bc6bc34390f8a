//! The bins of page ages that reports, metrics and diagrams show.
//!
//! Invariant: edges ascend from 0, so every age has one bin.

/// Number of bins.
pub const BINS: usize = 18;

/// Lower edges of the bins, in milliseconds. They are close together at ages at which policies
/// decide, and far apart at higher ages.
pub const EDGES_MS: [u64; BINS] = [
    0,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    1_800_000,
    3_600_000,
    7_200_000,
    21_600_000,
    43_200_000,
    86_400_000,
    604_800_000,
];

/// Returns the index of the bin that contains an age, in milliseconds.
#[must_use]
pub fn bin(age_ms: u64) -> usize {
    EDGES_MS.partition_point(|edge| *edge <= age_ms) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_in_the_bin_of_the_last_edge_reached() {
        let edge = |age| EDGES_MS[bin(age)];
        assert_eq!([0, 999].map(edge), [0; 2]);
        assert_eq!([1000, 9_999].map(edge), [1000, 5_000]);
        assert_eq!(edge(u64::MAX), 604_800_000);
    }
}
