//! The kernel's counters of a zram: `comp_algorithm`, `mm_stat` and `bd_stat` (the kernel's admin
//! guide, blockdev/zram).
//!
//! Invariant: parsers accept any bytes; a figure that cannot be parsed is `None`.

use crate::system::text::{number, printable, words};

/// The compression algorithms of a zram.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Algorithms {
    /// Names of all algorithms that the kernel offers, in its order.
    pub(super) offered: Vec<String>,
    /// Name of the algorithm in use, which the kernel shows in brackets.
    pub(super) chosen: Option<String>,
}

/// Compression algorithms for zram, the fastest first: a program waits for each swapped-in page, so
/// speed matters more than size. zstd, several times slower, is the last.
const PREFERENCE: [&str; 4] = ["lz4", "lzo-rle", "lzo", "zstd"];

impl Algorithms {
    /// Parses a line such as `lzo [lzo-rle] lz4`.
    pub(super) fn parse(text: &[u8]) -> Algorithms {
        let mut found = Algorithms::default();
        for word in words(text.trim_ascii()) {
            let inner = word
                .strip_prefix(b"[")
                .and_then(|word| word.strip_suffix(b"]"));
            let name = printable(inner.unwrap_or(word));
            if inner.is_some() {
                found.chosen = Some(name.clone());
            }
            found.offered.push(name);
        }
        found
    }

    /// Returns the name of the preferred algorithm: the first of [`PREFERENCE`] that the kernel
    /// offers. If the kernel offers none of them, returns the name of the algorithm in use.
    pub(super) fn best(&self) -> Option<&str> {
        PREFERENCE
            .into_iter()
            .find(|name| self.has(name))
            .or(self.chosen.as_deref())
    }

    /// Whether the kernel offers the algorithm `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.offered.iter().any(|offered| offered == name)
    }
}

/// The columns of `mm_stat` that pagetide needs, in bytes but for the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct MmStat {
    /// Uncompressed size of the stored pages.
    pub(super) original: u64,
    /// Compressed size of the stored pages.
    pub(super) compressed: u64,
    /// The memory used for the stored pages, including fragments and the allocator's own pages.
    pub(super) memory: u64,
    /// Number of incompressible pages; 0 if the kernel does not report it.
    pub(super) huge: u64,
}

impl MmStat {
    /// Parses `orig_data_size compr_data_size mem_used_total mem_limit mem_used_max same_pages
    /// pages_compacted huge_pages ...`; newer kernels add columns at the end.
    pub(super) fn parse(text: &[u8]) -> Option<MmStat> {
        let mut figures = words(text.trim_ascii()).map(number);
        let mut next = || figures.next().flatten();
        Some(MmStat {
            original: next()?,
            compressed: next()?,
            memory: next()?,
            huge: figures.nth(4).flatten().unwrap_or(0),
        })
    }
}

/// The columns of `bd_stat`, in pages of 4 KiB: the traffic with the disk behind a zram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BdStat {
    /// Pages that are on the disk now.
    pub(super) held: u64,
    /// Pages read from the disk since the zram was made.
    pub(super) read: u64,
    /// Pages written to the disk since the zram was made.
    pub(super) written: u64,
}

impl BdStat {
    /// Parses `bd_count bd_reads bd_writes`.
    pub(super) fn parse(text: &[u8]) -> Option<BdStat> {
        let mut figures = words(text.trim_ascii()).map(number);
        let mut next = || figures.next().flatten();
        Some(BdStat {
            held: next()?,
            read: next()?,
            written: next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_fastest_that_is_offered() {
        let best = |text: &str| Algorithms::parse(text.as_bytes()).best().map(str::to_owned);
        assert_eq!(best("[lzo-rle] lzo lz4 \n").as_deref(), Some("lz4"));
        assert_eq!(best("lzo [zstd]").as_deref(), Some("lzo"));
        assert_eq!(best("[842] deflate").as_deref(), Some("842"));
        assert_eq!(best(""), None);
        let found = Algorithms::parse(b"a [b] c");
        assert_eq!(found.offered, ["a", "b", "c"]);
        assert_eq!(found.chosen.as_deref(), Some("b"));
    }

    #[test]
    fn sizes_of_old_and_new_kernels() {
        let stat = MmStat {
            original: 8192,
            compressed: 100,
            memory: 4096,
            huge: 0,
        };
        for (text, huge) in [
            ("8192 100 4096 0 4096 0 0\n", 0),
            ("   8192 100 4096 0 1 2 3 4 5", 4),
            ("8192 100 4096", 0),
        ] {
            let stat = MmStat { huge, ..stat };
            assert_eq!(MmStat::parse(text.as_bytes()), Some(stat), "{text}");
        }
        let reported = BdStat::parse(b"       7        1       9\n");
        let (held, read, written) = (7, 1, 9);
        assert_eq!(
            reported,
            Some(BdStat {
                held,
                read,
                written
            })
        );
        assert_eq!(BdStat::parse(b"1 2"), None);
        assert_eq!(MmStat::parse(b"1 2"), None);
        assert_eq!(MmStat::parse(b"1 2 -3"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn anything_goes(bytes in any::<Vec<u8>>(), text in "[ a-z0-9\\[\\]\t\n]{0,40}") {
            for text in [&bytes[..], text.as_bytes()] {
                let found = Algorithms::parse(text);
                prop_assert!(found.chosen.iter().all(|chosen| found.has(chosen)));
                let _ = (MmStat::parse(text), BdStat::parse(text));
            }
        }
    }
}
