//! How long a task must sleep when usage is above memory.high.
//! spec: reclaim-control.md 3.

use super::MEMCG_CHARGE_BATCH;
use crate::units::{Millis, Pages};

const PRECISION_SHIFT: u32 = 20;
const SCALING_SHIFT: u32 = 14;
const HZ: u128 = 1000;
const MAX_DELAY_MS: u128 = 2000;

/// Returns `(usage - high) / high`, as a fixed-point number with 20 bits after the point.
#[must_use]
pub fn overage(usage: Pages, high: Pages) -> u64 {
    let over = u128::from(usage.less(high).0) << PRECISION_SHIFT;
    u64::try_from(over / u128::from(high.0.max(1))).unwrap_or(u64::MAX)
}

/// The overages of memory and of swap, each the largest of a memcg and its ancestors; see
/// [`overage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HighOverages {
    /// Overage of memory.high.
    pub memory: u64,
    /// Overage of memory.swap.high.
    pub swap: u64,
}

impl HighOverages {
    /// Returns the larger of both overages of memory, and the larger of both overages of swap.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            swap: self.swap.max(other.swap),
        }
    }

    /// Returns the delay for a charge of `nr` pages. It is the sum of a part for memory and a part
    /// for swap, each quadratic in its overage; at most 2 s, and zero if it would be 10 ms or less.
    /// (The reference table of the spec does not apply this last rule.)
    #[must_use]
    pub fn delay(self, nr: Pages) -> Millis {
        let both = raw_delay(self.memory, nr) + raw_delay(self.swap, nr);
        let delay = u64::try_from(both.min(MAX_DELAY_MS)).unwrap_or(0);
        Millis(if delay <= 10 { 0 } else { delay })
    }
}

/// Returns [`HighOverages::delay`] for an overage of memory alone.
#[must_use]
pub fn high_delay(overage: u64, nr: Pages) -> Millis {
    let overages = HighOverages {
        memory: overage,
        swap: 0,
    };
    overages.delay(nr)
}

/// Returns the delay for one overage, in milliseconds, before the bounds of 10 ms and 2 s apply.
fn raw_delay(overage: u64, nr: Pages) -> u128 {
    // Beyond 16 times the limit the delay is 2 s in any case. The bound keeps the square from
    // overflowing.
    let overage = u128::from(overage).min(1 << (PRECISION_SHIFT + 4));
    let delay = (overage * overage * HZ) >> PRECISION_SHIFT >> SCALING_SHIFT;
    delay * u128::from(nr.0) / u128::from(MEMCG_CHARGE_BATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The delays for a charge of one batch at 100 to 118 MiB of usage, with a limit of 100 MiB.
    /// spec: reclaim-control.md 11, test 6.
    #[test]
    fn delay_table() {
        let table = [
            0, 6, 25, 57, 102, 159, 230, 313, 409, 518, 639, 774, 921, 1081, 1254, 1439, 1638,
            1849, 2000,
        ];
        let high = 100u64;
        for (over, expect) in (0..).zip(table) {
            let fraction = overage(Pages((high + over) * 256), Pages(high * 256));
            assert_eq!(
                raw_delay(fraction, Pages(64)).min(MAX_DELAY_MS),
                u128::from(expect),
                "{} MiB",
                high + over
            );
            let delay = if expect <= 10 { 0 } else { expect };
            assert_eq!(high_delay(fraction, Pages(64)), Millis(delay));
        }
    }

    /// reclaim-control.md 3: the delays of memory and swap are added before the sum is limited to 2
    /// s, and before a short delay becomes zero.
    #[test]
    fn memory_and_swap_add() {
        let over = |usage: u64| overage(Pages(usage * 256), Pages(100 * 256));
        let delay = |memory, swap| {
            let (memory, swap) = (over(memory), over(swap));
            HighOverages { memory, swap }.delay(Pages(64)).0
        };
        assert_eq!((delay(101, 100), delay(100, 101)), (0, 0));
        assert_eq!((delay(101, 101), delay(102, 102)), (12, 50));
        assert_eq!((delay(112, 0), delay(112, 113)), (921, 2000));
    }

    #[test]
    fn monotone_and_bounded() {
        let mut last = 0;
        for shift in 0..64 {
            let delay = high_delay(1 << shift, Pages(u64::MAX)).0;
            assert!(delay >= last && delay <= 2000, "overage 1 << {shift}");
            last = delay;
        }
        assert_eq!(overage(Pages(u64::MAX), Pages(0)), u64::MAX);
    }
}
