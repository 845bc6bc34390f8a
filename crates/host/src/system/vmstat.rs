//! Counters of the whole machine: `/proc/vmstat`, and what KSM has merged.
//!
//! Invariant: only the change of a counter has a meaning, never its value. A counter that the
//! kernel does not provide is always 0.

use super::error::Error;
use super::proc::{Proc, read_path};
use super::text::{lines, number, words};

/// Counters of what the kernel did with pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Vmstat {
    /// Changes whenever pages get other frames: by migration (compaction, NUMA), when pages are
    /// joined into a huge page or a huge page is split, and when equal pages are merged (KSM). The
    /// amount of the change has no meaning.
    pub moved: u64,
    /// Pages that reclaim of any kind has scanned.
    pub scanned: u64,
    /// The part of `scanned` that the kernel scanned because the whole host lacked memory: by
    /// kswapd, and by tasks that allocate. Reclaim at the limit of a group does not count here.
    pub scanned_for_host: u64,
    /// Pages written to swap.
    pub swapped_out: u64,
    /// Pages read from swap.
    pub swapped_in: u64,
}

/// Parses a vmstat text.
#[must_use]
pub fn parse(text: &[u8]) -> Vmstat {
    let mut stat = Vmstat::default();
    for line in lines(text) {
        let mut words = words(line);
        let (Some(name), Some(value)) = (words.next(), words.next().and_then(number)) else {
            continue;
        };
        match name {
            b"pgmigrate_success"
            | b"thp_migration_success"
            | b"thp_collapse_alloc"
            | b"thp_split_page"
            | b"thp_split_pmd"
            | b"cow_ksm"
            | b"ksm_swpin_copy" => stat.moved = stat.moved.wrapping_add(value),
            b"pgscan_kswapd" | b"pgscan_direct" | b"pgscan_proactive" | b"pgscan_khugepaged" => {
                stat.scanned = stat.scanned.wrapping_add(value);
                if name != b"pgscan_proactive" {
                    stat.scanned_for_host = stat.scanned_for_host.wrapping_add(value);
                }
            }
            b"pswpout" => stat.swapped_out = value,
            b"pswpin" => stat.swapped_in = value,
            _ => {}
        }
    }
    stat
}

impl Proc {
    /// Returns the present counters of this machine.
    ///
    /// # Errors
    /// `/proc/vmstat` exists but may not be read.
    pub fn vmstat(&self) -> Result<Vmstat, Error> {
        let mut stat = parse(&self.read_own("vmstat")?.unwrap_or_default());
        // vmstat does not count merges by KSM. A kernel without KSM does not have these files.
        for name in ["pages_shared", "pages_sharing"] {
            let path = std::path::Path::new("/sys/kernel/mm/ksm").join(name);
            let text = read_path(&path).ok().flatten().unwrap_or_default();
            let value = number(text.trim_ascii()).unwrap_or(0);
            stat.moved = stat.moved.wrapping_mul(31).wrapping_add(value);
        }
        Ok(stat)
    }
}

/// Returns whether the kernel's multi-gen LRU is enabled. It clears accessed bits when it ages
/// pages.
#[must_use]
pub fn has_multi_gen() -> bool {
    let text = read_path(std::path::Path::new("/sys/kernel/mm/lru_gen/enabled"));
    let text = text.ok().flatten().unwrap_or_default();
    !text.trim_ascii().is_empty() && text.trim_ascii() != b"0x0000"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text() {
        let text = b"nr_free_pages 5\npgmigrate_success 3\nthp_split_pmd 4\npgscan_kswapd 10\npgscan_direct 1\npgscan_proactive 5\npswpin 8\npswpout 9\n";
        let want = Vmstat {
            moved: 7,
            scanned: 16,
            scanned_for_host: 11,
            swapped_out: 9,
            swapped_in: 8,
        };
        assert_eq!(parse(text), want);
        assert_eq!(parse(b"pswpin\npswpout x\n"), Vmstat::default());
    }

    #[test]
    fn this_machine_has_counters() {
        assert!(Proc::system().and_then(|proc| proc.vmstat()).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn anything_goes(text in any::<Vec<u8>>()) {
            let _ = parse(&text);
        }
    }
}
