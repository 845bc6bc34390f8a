//! Units as text for people: at most four digits and a unit. The texts are rounded, so they cannot
//! be parsed back.

use core::fmt;

use super::{Bytes, Millis};

/// Writes texts such as `512 MiB`, `1.5 GiB`, `0 B`; a whole number has no fraction.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut unit = 0;
        // Choose the smallest unit in which the value prints as less than 1000.
        while unit + 1 < UNITS.len() && tenths(self.0, unit) >= 10_000 {
            unit += 1;
        }
        let (tenths, unit) = (tenths(self.0, unit), UNITS[unit]);
        if tenths.is_multiple_of(10) || tenths >= 1_000 {
            f.pad(&alloc::format!("{} {unit}", (tenths + 5) / 10))
        } else {
            f.pad(&alloc::format!("{}.{} {unit}", tenths / 10, tenths % 10))
        }
    }
}

/// Returns `bytes / 1024^unit` in tenths, rounded to the nearest.
fn tenths(bytes: u64, unit: usize) -> u128 {
    let unit_size = 1u128 << (10 * unit);
    (u128::from(bytes) * 10 + unit_size / 2) / unit_size
}

/// Writes the value in the largest unit in which it is a whole number, or else in seconds with a
/// fraction.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            ms if ms < 1_000 => alloc::format!("{ms}ms"),
            ms if ms % 3_600_000 == 0 => alloc::format!("{}h", ms / 3_600_000),
            ms if ms % 60_000 == 0 => alloc::format!("{}m", ms / 60_000),
            ms if ms % 1_000 == 0 => alloc::format!("{}s", ms / 1_000),
            ms => alloc::format!("{}.{}s", ms / 1_000, ms % 1_000 / 100),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn sizes_and_times_as_people_read_them() {
        for (value, want) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1 KiB"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (512 << 20, "512 MiB"),
            ((512 << 20) + (700 << 10), "513 MiB"),
            (1000 << 20, "1 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(Bytes(value).to_string(), want);
        }
        for (value, want) in [
            (50, "50ms"),
            (1_500, "1.5s"),
            (10_000, "10s"),
            (120_000, "2m"),
            (7_200_000, "2h"),
        ] {
            assert_eq!(Millis(value).to_string(), want);
        }
    }
}
