//! What the host's swap holds in memory: the pages in zram and in zswap, and the memory that they
//! take.
//!
//! Invariant: nothing is changed, and no right is needed. If a figure cannot be read, or `/proc` is
//! another program's, the result is `None`.

use serde::Serialize;

use super::Swap;
use super::places::{Places, line};
use super::zram::Zram;
use crate::report::SwapStore;
use crate::system::Proc;

/// zswap: compressed memory in front of the swap areas. It takes swapped-out pages before a zram or
/// a disk gets them, and the areas count these pages as theirs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Zswap {
    /// Whether zswap takes pages now. If not, it still holds those that it took before.
    pub enabled: bool,
    /// The compression algorithm, if the kernel reports it.
    pub algorithm: Option<String>,
    /// Uncompressed size of the pages that it holds; `None` if unknown.
    pub original_bytes: Option<u64>,
    /// Memory that these pages take; `None` if unknown.
    pub memory_bytes: Option<u64>,
}

impl Zswap {
    /// Whether it takes pages, or may hold some.
    #[must_use]
    pub fn matters(&self) -> bool {
        self.enabled || self.original_bytes.is_some_and(|bytes| bytes > 0)
    }
}

impl Swap {
    /// Returns the state of zswap; `None` if the kernel has none.
    #[must_use]
    pub fn zswap(&self) -> Option<Zswap> {
        let memory = self.places.proc().ok()?.memory().ok()?;
        let parameters = self.places.sys.join("module/zswap/parameters");
        let value = |name: &str| line(&parameters.join(name)).ok();
        let enabled = value("enabled");
        if enabled.is_none() && memory.zswapped.is_none() {
            return None;
        }
        Some(Zswap {
            enabled: enabled.is_some_and(|text| matches!(text.as_str(), "Y" | "y" | "1")),
            algorithm: value("compressor"),
            original_bytes: memory.zswapped,
            memory_bytes: memory.zswap,
        })
    }

    /// Returns what the host's swap holds in memory; `None` if it is unknown.
    #[must_use]
    pub fn store(&self) -> Option<SwapStore> {
        let proc = self.places.proc().ok()?;
        store(&self.places, &proc)
    }
}

fn store(places: &Places, proc: &Proc) -> Option<SwapStore> {
    if proc.invented().is_some() {
        return None;
    }
    let mut store = SwapStore::default();
    for area in proc.swaps().ok()? {
        store.swapped_bytes += area.used;
        if area.zram().is_some() {
            let zram = Zram::named(places, &area.path)?;
            store.compressed_bytes += zram.mm_stat()?.memory;
        }
    }
    // An older kernel does not report the memory of zswap, which matters only if it holds pages.
    let is_there = || places.sys.join("module/zswap").exists();
    store.compressed_bytes += match proc.memory().ok()?.zswap {
        Some(bytes) => bytes,
        None if is_there() => return None,
        None => 0,
    };
    Some(store)
}

#[cfg(test)]
mod tests {
    use super::super::tests::fake::Fake;

    const MEMORY: &str = "MemTotal: 1024000 kB\nMemAvailable: 512000 kB\n";

    fn store_of(fake: &Fake) -> Option<(u64, u64)> {
        let store = fake.swap().store()?;
        Some((store.swapped_bytes, store.compressed_bytes))
    }

    /// Regression: with zswap in front of a zram, `swap status` showed an empty zram, and nothing
    /// said where the swapped-out pages were.
    #[test]
    fn zswap_and_each_zram_count_and_disks_do_not() {
        let fake = Fake::new();
        let zram1 = fake.dev().join("zram1");
        let swaps = format!(
            "Filename\n{} partition 4096 100 5\n/dev/sda2 partition 4096 50 1\n",
            zram1.display()
        );
        fake.write("proc/swaps", &swaps);
        assert_eq!(store_of(&fake), Some((150 << 10, 4096)));
        assert_eq!(fake.swap().zswap(), None);

        fake.write("sys/module/zswap/parameters/enabled", "N\n");
        assert_eq!(store_of(&fake), None, "an older kernel: it may hold pages");
        let zswap = fake.swap().zswap().expect("there");
        assert!(!zswap.enabled && !zswap.matters());
        fake.write(
            "proc/meminfo",
            &format!("{MEMORY}Zswap: 8 kB\nZswapped: 64 kB\n"),
        );
        assert_eq!(store_of(&fake), Some((150 << 10, 4096 + 8192)));
        // It holds pages that it took before it was switched off.
        assert!(
            fake.swap()
                .zswap()
                .is_some_and(|zswap| !zswap.enabled && zswap.matters())
        );
        fake.write("sys/module/zswap/parameters/enabled", "Y\n");
        assert!(fake.swap().zswap().is_some_and(|zswap| zswap.enabled));
        fake.remove("sys/block/zram1/mm_stat");
        assert_eq!(store_of(&fake), None);
    }
}
