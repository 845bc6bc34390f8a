//! Two scales for the age of pages: memory is counted in many bins; a picture shows fewer classes,
//! each with its own colour.
//!
//! Invariant: each bin belongs to one class; bins and classes ascend with age.

use engine::Millis;
use engine::age_bins::{BINS, EDGES_MS};

/// Lower edges of the classes, milliseconds. Memory that was accessed within the last second counts
/// as in use.
pub const CLASS_EDGES_MS: [u64; CLASSES] = [0, 1_000, 5_000, 10_000, 60_000, 600_000, 3_600_000];
/// Number of classes. Their CSS classes are `a0`, the youngest, to `a6`.
pub const CLASSES: usize = 7;

/// Returns the class to which the bin with index `bin` belongs.
#[must_use]
pub fn class_of(bin: usize) -> usize {
    CLASS_EDGES_MS.partition_point(|edge| *edge <= EDGES_MS[bin]) - 1
}

/// Returns the bytes in each class. `ages` are the bytes in each bin.
#[must_use]
pub fn class_sums(ages: &[u64; BINS]) -> [u64; CLASSES] {
    let mut sums = [0u64; CLASSES];
    for (bin, bytes) in ages.iter().enumerate() {
        let sum = &mut sums[class_of(bin)];
        *sum = sum.saturating_add(*bytes);
    }
    sums
}

/// Returns the range of ages of a class as text: `up to 1s`, `10s - 1m`, `over 1h`.
#[must_use]
pub fn name_of_class(class: usize) -> String {
    range_text(CLASS_EDGES_MS[class], CLASS_EDGES_MS.get(class + 1))
}

/// Returns the range of ages of a bin as text, in the same form as [`name_of_class`].
#[must_use]
pub fn name_of_bin(bin: usize) -> String {
    range_text(EDGES_MS[bin], EDGES_MS.get(bin + 1))
}

/// Returns the range of ages between two edges (milliseconds) as text. `to` is `None` for the
/// oldest ages.
fn range_text(from: u64, to: Option<&u64>) -> String {
    match to {
        Some(to) if from == 0 => format!("up to {}", short(*to)),
        Some(to) => format!("{} - {}", short(from), short(*to)),
        None => format!("over {}", short(from)),
    }
}

/// Formats a duration in milliseconds briefly: `10s`, `6h`, `7d`.
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
