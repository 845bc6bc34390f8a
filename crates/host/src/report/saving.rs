//! What swapped-out memory saves: its size, less the memory that its compressed copies take.
//!
//! Invariant: what is not known is `None`, never 0. A target's part of the compressed memory is the
//! kernel's own figure where there is one. Else it is shared out by pages, and `known_by` says so.

use engine::Bytes;
use serde::{Deserialize, Serialize};

/// The swapped-out memory of the host, and the memory that its compressed copies take (zram,
/// zswap). Swap on disks takes none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SwapStore {
    /// Bytes of all swap areas that are in use.
    pub swapped_bytes: u64,
    /// Memory that the compressed copies take, bytes.
    pub compressed_bytes: u64,
}

/// How the compressed size is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownBy {
    /// The kernel reports it for the target's control group (zswap, cgroup version 2).
    Group,
    /// The host's compressed memory, shared out by pages: each swapped-out page has the same part.
    Pages,
}

impl KnownBy {
    /// Returns the words for users.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            KnownBy::Group => "as the kernel reports for its control group",
            KnownBy::Pages => "the host's, shared out by pages",
        }
    }
}

/// The compressed copies that the kernel counts for one control group (zswap).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupStore {
    /// Uncompressed size of the pages, bytes.
    pub stored_bytes: u64,
    /// Memory that the pages take, bytes.
    pub compressed_bytes: u64,
}

/// What the swapped-out memory of a target saves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Saving {
    /// Swapped-out memory of the target, bytes.
    pub swapped_bytes: u64,
    /// Memory that its compressed copies take, bytes; `None` if unknown.
    pub compressed_bytes: Option<u64>,
    /// `swapped_bytes - compressed_bytes`; negative if the copies take more than the pages did.
    /// `None` if unknown.
    pub net_bytes: Option<i64>,
    /// How `compressed_bytes` is known; `None` if nothing is swapped out, or it is unknown.
    pub known_by: Option<KnownBy>,
}

impl SwapStore {
    /// Returns the memory that `swapped` bytes take, if each page takes the same.
    fn share(self, swapped: u64) -> Option<u64> {
        let part = u128::from(self.compressed_bytes) * u128::from(swapped.min(self.swapped_bytes));
        let part = part.checked_div(u128::from(self.swapped_bytes))?;
        u64::try_from(part).ok()
    }

    /// Returns the store without the pages that are counted for a group.
    fn without(self, group: GroupStore) -> SwapStore {
        SwapStore {
            swapped_bytes: self.swapped_bytes.saturating_sub(group.stored_bytes),
            compressed_bytes: self.compressed_bytes.saturating_sub(group.compressed_bytes),
        }
    }
}

impl Saving {
    /// Returns the saving of a target with `swapped` bytes of swapped-out memory. `host` is the
    /// host's store, `None` if unknown; `group` is the part that the kernel counts for the target.
    #[must_use]
    pub fn of(swapped: u64, host: Option<SwapStore>, group: Option<GroupStore>) -> Saving {
        let group = group.unwrap_or_default();
        let rest = swapped.saturating_sub(group.stored_bytes);
        let of_rest = match rest {
            0 => Some(0),
            rest => host.and_then(|host| host.without(group).share(rest)),
        };
        let compressed = of_rest.map(|bytes| bytes.saturating_add(group.compressed_bytes));
        let compressed = if swapped == 0 { Some(0) } else { compressed };
        let known_by = match rest {
            _ if swapped == 0 => None,
            0 => Some(KnownBy::Group),
            _ => compressed.map(|_| KnownBy::Pages),
        };
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        Saving {
            swapped_bytes: swapped,
            compressed_bytes: compressed,
            net_bytes: compressed.map(|bytes| signed(swapped).saturating_sub(signed(bytes))),
            known_by,
        }
    }

    /// Returns the net saving in words, such as `47 MiB`; `None` if it is unknown.
    #[must_use]
    pub fn net(&self) -> Option<String> {
        let net = self.net_bytes?;
        let sign = if net < 0 { "-" } else { "" };
        Some(format!("{sign}{}", Bytes(net.unsigned_abs())))
    }

    /// Returns the saving in words; `None` if nothing is swapped out.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        if self.swapped_bytes == 0 {
            return None;
        }
        let unknown = || "unknown: what swap takes in memory cannot be read here".to_owned();
        let parts = self.net().zip(self.compressed_bytes).zip(self.known_by);
        Some(parts.map_or_else(unknown, |((net, compressed), known_by)| {
            let [swapped, taken] = [self.swapped_bytes, compressed].map(Bytes);
            let how = known_by.words();
            format!("net {net}: {swapped} swapped out, {taken} of memory for them ({how})")
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn host(swapped: u64, compressed: u64) -> Option<SwapStore> {
        Some(SwapStore {
            swapped_bytes: swapped * MIB,
            compressed_bytes: compressed * MIB,
        })
    }

    fn figures(saving: Saving) -> (Option<u64>, Option<i64>, Option<KnownBy>) {
        let mib = |bytes: i64| bytes / (1 << 20);
        let compressed = saving.compressed_bytes.map(|bytes| bytes / MIB);
        (compressed, saving.net_bytes.map(mib), saving.known_by)
    }

    #[test]
    fn compressed_memory_is_shared_out_by_pages() {
        let saving = Saving::of(64 * MIB, host(256, 100), None);
        assert_eq!(figures(saving), (Some(25), Some(39), Some(KnownBy::Pages)));
        // On a disk, swapped-out memory takes no memory.
        let saving = Saving::of(64 * MIB, host(256, 0), None);
        assert_eq!(figures(saving), (Some(0), Some(64), Some(KnownBy::Pages)));
        // Pages that cannot be compressed save nothing.
        let saving = Saving::of(64 * MIB, host(64, 66), None);
        assert_eq!(figures(saving), (Some(66), Some(-2), Some(KnownBy::Pages)));
    }

    #[test]
    fn the_kernels_figure_of_a_group_comes_first() {
        let group = GroupStore {
            stored_bytes: 64 * MIB,
            compressed_bytes: 10 * MIB,
        };
        let saving = Saving::of(64 * MIB, host(256, 100), Some(group));
        assert_eq!(figures(saving), (Some(10), Some(54), Some(KnownBy::Group)));
        // The other 64 MiB are a third of what the host has beside: 30 of 90 MiB.
        let saving = Saving::of(128 * MIB, host(256, 100), Some(group));
        assert_eq!(figures(saving), (Some(40), Some(88), Some(KnownBy::Pages)));
    }

    #[test]
    fn a_saving_in_words() {
        let words = Saving::of(64 * MIB, host(256, 100), None).words();
        let want = "net 39 MiB: 64 MiB swapped out, 25 MiB of memory for them (the host's, shared \
                    out by pages)";
        assert_eq!(words.as_deref(), Some(want));
        let words = Saving::of(64 * MIB, host(64, 66), None).words();
        assert!(words.is_some_and(|words| words.starts_with("net -2 MiB: ")));
        assert_eq!(Saving::of(0, None, None).words(), None);
        let words = Saving::of(MIB, None, None).words();
        assert!(words.is_some_and(|words| words.starts_with("unknown: ")));
    }

    #[test]
    fn what_is_not_known_is_not_0() {
        assert_eq!(figures(Saving::of(0, None, None)), (Some(0), Some(0), None));
        assert_eq!(figures(Saving::of(MIB, None, None)), (None, None, None));
        assert_eq!(
            figures(Saving::of(MIB, host(0, 0), None)),
            (None, None, None)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn parts_never_add_up_to_more_than_the_whole(
            parts in prop::collection::vec(0u64..1 << 40, 1..20), compressed in 0u64..1 << 40
        ) {
            let host = SwapStore { swapped_bytes: parts.iter().sum(), compressed_bytes: compressed };
            let each = parts.iter().map(|part| Saving::of(*part, Some(host), None));
            let sum: u64 = each.filter_map(|saving| saving.compressed_bytes).sum();
            prop_assert!(sum <= compressed);
        }

        #[test]
        fn any_figures_have_a_saving(
            swapped in any::<u64>(), store in any::<(u64, u64)>(), group in any::<(u64, u64)>()
        ) {
            let host = SwapStore { swapped_bytes: store.0, compressed_bytes: store.1 };
            let group = GroupStore { stored_bytes: group.0, compressed_bytes: group.1 };
            let saving = Saving::of(swapped, Some(host), Some(group));
            prop_assert_eq!(saving.net_bytes.is_some(), saving.compressed_bytes.is_some());
        }
    }
}
