//! Scan targets: how many pages of each classic list a pass scans.
//! spec: classic-lru.md 4.3, 5.

use super::{Prepared, Sizes};
use crate::folio::FolioType;
use crate::memcg::ScanProtection;
use crate::units::{PAGE_SIZE, SWAP_CLUSTER_MAX, Swappiness};

/// Largest ratio of active to inactive pages: above it, active pages are deactivated. `total` is
/// the number of pages on both lists.
#[must_use]
pub const fn inactive_ratio(total: u64) -> u64 {
    let gb = total >> (30 - PAGE_SIZE.trailing_zeros());
    if gb == 0 { 1 } else { (10 * gb).isqrt() }
}

/// Whether the inactive list is so short that active pages must be deactivated.
#[must_use]
pub const fn inactive_is_low(inactive: u64, active: u64) -> bool {
    inactive * inactive_ratio(inactive + active) < active
}

/// Recent cost of scanning each type, in pages scanned in vain; a page of I/O counts as 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Cost of scanning anon pages.
    pub anon: u64,
    /// Cost of scanning file pages.
    pub file: u64,
}

impl Costs {
    /// Adds `32 * nr_io + nr_rotated` to the cost of `ty`. Both costs are halved when their sum
    /// exceeds `lru_size / 4`.
    pub const fn note(&mut self, ty: FolioType, nr_io: u64, nr_rotated: u64, lru_size: u64) {
        let cost = nr_io * SWAP_CLUSTER_MAX + nr_rotated;
        match ty {
            FolioType::Anon => self.anon += cost,
            FolioType::File => self.file += cost,
        }
        if self.anon + self.file > lru_size / 4 {
            self.anon /= 2;
            self.file /= 2;
        }
    }

    /// Returns the relative scan weights `[anon, file]`: the type that costs less has the larger
    /// weight. The total cost is added to the cost of each type, so that cost alone makes no weight
    /// zero.
    #[must_use]
    pub fn fractions(self, swappiness: Swappiness) -> [u64; 2] {
        let total = self.anon + self.file;
        let (a, f) = (total + self.anon, total + self.file);
        let s = u64::from(swappiness.get().min(Swappiness::MAX));
        let weight = |s: u64, own: u64| s * (a + f + 1) / (own + 1);
        [weight(s, a), weight(u64::from(Swappiness::MAX) - s, f)]
    }
}

/// Inputs of [`scan_targets`].
#[derive(Clone, Copy, Debug)]
pub struct ScanInput {
    /// Number of pages on each list.
    pub sizes: Sizes,
    /// The pass scans `size >> priority` pages of each list.
    pub priority: u32,
    /// Swappiness: the balance between anon and file.
    pub swappiness: Swappiness,
    /// Whether anon pages can be swapped out.
    pub swap: bool,
    /// Decisions for the whole pass.
    pub prepared: Prepared,
    /// The memcg's effective protection; `None` if all of its pages may be scanned.
    pub protection: Option<ScanProtection>,
    /// Whether the memcg is online; an offline memcg was removed, but still has pages.
    pub online: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Only(FolioType),
    Equal,
    Fract,
}

fn mode(input: &ScanInput) -> Mode {
    let none = input.swappiness == Swappiness::FILE_ONLY;
    if !input.swap || (input.prepared.memcg_reclaim && none) {
        Mode::Only(FolioType::File)
    } else if input.swappiness == Swappiness::ANON_ONLY {
        Mode::Only(FolioType::Anon)
    } else if input.priority == 0 && !none {
        Mode::Equal
    } else if input.prepared.file_is_tiny {
        Mode::Only(FolioType::Anon)
    } else if input.prepared.cache_trim {
        Mode::Only(FolioType::File)
    } else {
        Mode::Fract
    }
}

/// Returns how many pages of a list of `size` pages to scan at this priority, without protected
/// pages.
fn target(input: &ScanInput, size: u64) -> u64 {
    let scan = input.protection.map_or(size, |p| p.scan(size));
    match scan >> input.priority {
        0 if !input.online => size.min(SWAP_CLUSTER_MAX),
        scan => scan,
    }
}

/// Returns the number of pages to scan of each list: `[anon, file]`, each `[inactive, active]`.
#[must_use]
pub fn scan_targets(input: &ScanInput) -> [[u64; 2]; 2] {
    let mode = mode(input);
    let fractions = input.prepared.costs.fractions(input.swappiness);
    let sum = (fractions[0] + fractions[1]).max(1);
    FolioType::ALL.map(|ty| {
        let t = ty.index();
        [input.sizes.inactive[t], input.sizes.active[t]].map(|size| {
            let scan = target(input, size);
            match mode {
                Mode::Only(only) if only == ty => scan,
                Mode::Only(_) => 0,
                Mode::Equal => scan,
                Mode::Fract if input.online => share(scan, fractions[t], sum, 0),
                Mode::Fract => share(scan, fractions[t], sum, sum - 1),
            }
        })
    })
}

fn share(scan: u64, fraction: u64, sum: u64, round: u64) -> u64 {
    let product = u128::from(scan) * u128::from(fraction) + u128::from(round);
    u64::try_from(product / u128::from(sum)).unwrap_or(scan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Pages;

    const GIB: u64 = (1 << 30) / PAGE_SIZE;

    /// At 1 GiB the inactive list is low below a quarter of the pages; just below 1 GiB the ratio
    /// is 1.
    /// spec: classic-lru.md 8, test 4.
    #[test]
    fn inactive_list_is_low() {
        assert!(inactive_is_low(65_535, 196_609));
        assert!(!inactive_is_low(65_536, 196_608));
        assert_eq!((inactive_ratio(GIB), inactive_ratio(GIB - 1)), (3, 1));
    }

    /// The ratio of active to inactive pages for lists of 10 MiB to 10 TiB.
    /// spec: classic-lru.md 8, test 5.
    #[test]
    fn ratio_table() {
        let mib = [10, 100].map(|m| inactive_ratio(m * GIB / 1024));
        assert_eq!(mib, [1, 1]);
        let gib = [1, 10, 100, 1024, 10_240].map(|g| inactive_ratio(g * GIB));
        assert_eq!(gib, [3, 10, 31, 101, 320]);
    }

    /// At swappiness 60 and equal costs anon has 30%; with cost on anon alone, 90 of 510.
    /// spec: classic-lru.md 8, test 8.
    #[test]
    fn fractions_by_cost() {
        let s = Swappiness::default();
        let c = 1 << 20;
        let [ap, fp] = Costs { anon: c, file: c }.fractions(s);
        assert_eq!(
            [ap, fp],
            [
                60 * (6 * c + 1) / (3 * c + 1),
                140 * (6 * c + 1) / (3 * c + 1)
            ]
        );
        assert_eq!((1000 * ap / (ap + fp) + 5) / 10, 30, "percent");
        let [ap, fp] = Costs { anon: c, file: 0 }.fractions(s);
        assert_eq!(
            [ap, fp],
            [60 * (3 * c + 1) / (2 * c + 1), 140 * (3 * c + 1) / (c + 1)]
        );
        // 90 / (90 + 420); by integer division 89 / (89 + 419).
        assert!((175..=177).contains(&(1000 * ap / (ap + fp))), "{ap} {fp}");
        assert_eq!(Costs::default().fractions(Swappiness::FILE_ONLY)[0], 0);
    }

    /// Costs above a quarter of the lists' size are halved, and keep their proportion.
    /// spec: classic-lru.md 8, test 9.
    #[test]
    fn costs_decay() {
        let mut costs = Costs {
            anon: 150,
            file: 75,
        };
        costs.note(FolioType::File, 0, 26, 1000);
        assert_eq!(costs, Costs { anon: 75, file: 50 });
        costs.note(FolioType::Anon, 1, 0, 1000);
        assert_eq!(
            costs,
            Costs {
                anon: 107,
                file: 50
            }
        );
    }

    fn input() -> ScanInput {
        ScanInput {
            sizes: Sizes {
                inactive: [1000, 1000],
                active: [1000, 1000],
            },
            priority: 0,
            swappiness: Swappiness::default(),
            swap: true,
            prepared: PREPARED,
            protection: None,
            online: true,
        }
    }

    const PREPARED: Prepared = Prepared {
        costs: Costs { anon: 0, file: 0 },
        may_deactivate: [true; 2],
        memcg_reclaim: false,
        file_is_tiny: false,
        cache_trim: false,
    };

    /// classic-lru.md 5.3: protected memory stays out of the target, at any priority.
    #[test]
    fn protection_shortens_the_scan() {
        let half = ScanProtection {
            usage: Pages(1000),
            protected: Pages(500),
            by_low: true,
        };
        let input = |priority| ScanInput {
            priority,
            protection: Some(half),
            ..input()
        };
        assert_eq!(scan_targets(&input(0)), [[501; 2]; 2]);
        assert_eq!(target(&input(2), 1000), 501 >> 2);
    }

    /// Swap, swappiness, priority and the decisions for the pass select which lists are scanned.
    /// spec: classic-lru.md 8, tests 12 and 14.
    #[test]
    fn modes() {
        let off = ScanInput {
            swap: false,
            ..input()
        };
        assert_eq!(scan_targets(&off), [[0, 0], [1000, 1000]]);
        let zero = ScanInput {
            swappiness: Swappiness::FILE_ONLY,
            ..input()
        };
        assert_eq!(
            scan_targets(&zero),
            [[0, 0], [1000, 1000]],
            "FRACT with ap = 0"
        );
        assert_eq!(
            scan_targets(&input()),
            [[1000; 2]; 2],
            "EQUAL at priority 0"
        );
        let anon = ScanInput {
            swappiness: Swappiness::ANON_ONLY,
            ..input()
        };
        assert_eq!(scan_targets(&anon), [[1000, 1000], [0, 0]]);
        let trim = ScanInput {
            priority: 2,
            prepared: Prepared {
                cache_trim: true,
                ..PREPARED
            },
            ..input()
        };
        assert_eq!(scan_targets(&trim), [[0, 0], [250, 250]]);
        let tiny = ScanInput {
            priority: 2,
            prepared: Prepared {
                file_is_tiny: true,
                ..PREPARED
            },
            ..input()
        };
        assert_eq!(scan_targets(&tiny), [[250, 250], [0, 0]]);
        let fract = ScanInput {
            priority: 2,
            ..input()
        };
        assert_eq!(scan_targets(&fract), [[75, 75], [175, 175]]);
    }

    #[test]
    fn an_offline_memcg_is_scanned_to_the_last_page() {
        let input = ScanInput {
            priority: 12,
            online: false,
            ..input()
        };
        let targets = scan_targets(&input);
        assert!(targets.iter().flatten().all(|&n| n > 0), "{targets:?}");
    }
}
