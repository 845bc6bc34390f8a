//! The delay of a task that is above memory.high. spec: reclaim-control.md 3.

use super::MEMCG_CHARGE_BATCH;
use crate::units::{Millis, Pages};

const PRECISION_SHIFT: u32 = 20;
const SCALING_SHIFT: u32 = 14;
const HZ: u128 = 1000;
const MAX_DELAY_MS: u128 = 2000;

/// How far `usage` is above `high`, in fractions of `high` (20 bits after the point).
#[must_use]
pub fn overage(usage: Pages, high: Pages) -> u64 {
    let over = u128::from(usage.less(high).0) << PRECISION_SHIFT;
    u64::try_from(over / u128::from(high.0.max(1))).unwrap_or(u64::MAX)
}

/// The delay for a charge of `nr` pages: quadratic in the overage, at most 2 s, none below 10 ms.
/// Note that the reference table of the spec is before that last rule.
#[must_use]
pub fn high_delay(overage: u64, nr: Pages) -> Millis {
    let delay = raw_delay(overage, nr);
    Millis(if delay <= 10 { 0 } else { delay })
}

fn raw_delay(overage: u64, nr: Pages) -> u64 {
    // Beyond 16 times the limit the answer is 2 s anyway, and the square stays small.
    let overage = u128::from(overage).min(1 << (PRECISION_SHIFT + 4));
    let delay = (overage * overage * HZ) >> PRECISION_SHIFT >> SCALING_SHIFT;
    let delay = delay * u128::from(nr.0) / u128::from(MEMCG_CHARGE_BATCH);
    u64::try_from(delay.min(MAX_DELAY_MS)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// reclaim-control.md 11, test 6: limit 100 MiB, one batch.
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
                raw_delay(fraction, Pages(64)),
                expect,
                "{} MiB",
                high + over
            );
            let slept = if expect <= 10 { 0 } else { expect };
            assert_eq!(high_delay(fraction, Pages(64)), Millis(slept));
        }
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
