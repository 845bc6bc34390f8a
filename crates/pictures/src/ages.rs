//! Ages: the bins that are kept, and the fewer classes that a picture can tell apart by colour.
//!
//! Invariant: each bin is of one class, and both ascend.

use engine::Millis;

/// Lower edges of bins, milliseconds: those of a report (`host::report::AGE_EDGES_MS`).
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
/// How many bins there are.
pub const BINS: usize = 18;

/// Lower edges of classes, milliseconds.
const CLASS_EDGES_MS: [u64; CLASSES] = [0, 1_000, 5_000, 10_000, 60_000, 600_000, 3_600_000];
/// How many classes there are: `a0`, the youngest, to `a6`.
pub const CLASSES: usize = 7;

/// The class of a bin.
#[must_use]
pub fn class_of(bin: usize) -> usize {
    CLASS_EDGES_MS.partition_point(|edge| *edge <= EDGES_MS[bin]) - 1
}

/// Sums of bins by class.
#[must_use]
pub fn class_sums(ages: &[u64; BINS]) -> [u64; CLASSES] {
    let mut sums = [0u64; CLASSES];
    for (bin, bytes) in ages.iter().enumerate() {
        let sum = &mut sums[class_of(bin)];
        *sum = sum.saturating_add(*bytes);
    }
    sums
}

/// `up to 1s`, `10s - 1m`, `over 1h`.
#[must_use]
pub fn name_of_class(class: usize) -> String {
    name(CLASS_EDGES_MS[class], CLASS_EDGES_MS.get(class + 1))
}

/// The same of a bin.
#[must_use]
pub fn name_of_bin(bin: usize) -> String {
    name(EDGES_MS[bin], EDGES_MS.get(bin + 1))
}

fn name(from: u64, to: Option<&u64>) -> String {
    match to {
        Some(to) if from == 0 => format!("up to {}", short(*to)),
        Some(to) => format!("{} - {}", short(from), short(*to)),
        None => format!("over {}", short(from)),
    }
}

/// `10s`, `6h`, `7d`.
pub(crate) fn short(ms: u64) -> String {
    const DAY_MS: u64 = 86_400_000;
    match ms {
        ms if ms >= DAY_MS && ms.is_multiple_of(DAY_MS) => format!("{}d", ms / DAY_MS),
        ms => Millis(ms).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_fall_into_classes_and_have_names() {
        let classes: Vec<usize> = (0..BINS).map(class_of).collect();
        assert!(classes.is_sorted() && classes[0] == 0 && classes[BINS - 1] == CLASSES - 1);
        let sums = class_sums(&std::array::from_fn(|bin| 1 << bin));
        assert_eq!(sums.iter().sum::<u64>(), (1 << BINS) - 1);
        assert_eq!((sums[0], sums[1], sums[2]), (1, 6, 8));
        assert_eq!(class_sums(&[u64::MAX; BINS])[1], u64::MAX);
        for (bin, name) in [
            (0, "up to 1s"),
            (4, "10s - 20s"),
            (16, "1d - 7d"),
            (17, "over 7d"),
        ] {
            assert_eq!(name_of_bin(bin), name);
        }
        assert_eq!(name_of_class(6), "over 1h");
    }
}
