//! The memory that this process uses.
//!
//! Invariant: swapped-out memory counts as well, so that a bound holds even when memory is short.

use std::fs;

/// Returns the resident and swapped-out bytes of this process together; 0 if `/proc` does not show
/// them.
pub(crate) fn used_bytes() -> u64 {
    fs::read_to_string("/proc/self/status").map_or(0, |text| sum(&text))
}

fn sum(status: &str) -> u64 {
    let kib = |line: &str| {
        let value = line
            .strip_prefix("VmRSS:")
            .or_else(|| line.strip_prefix("VmSwap:"))?;
        value.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    status.lines().filter_map(kib).sum::<u64>() << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_and_swapped_memory_count() {
        let text =
            "Name:\tx VmRSS: 9 kB\nVmRSS:\t    2048 kB\nVmData:\t 9 kB\nVmSwap:\t    1024 kB\n";
        assert_eq!(sum(text), 3 << 20);
        assert!(used_bytes() > 1 << 20, "a test has a megabyte");
    }
}
