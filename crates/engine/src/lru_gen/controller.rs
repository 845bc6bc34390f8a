//! The refault controller: compares refault ratios (refaults divided by evictions) to decide which
//! tiers eviction must protect, and from which type it takes pages.
//! spec: lru-gen.md 6.2.

use super::{MAX_NR_TIERS, MIN_LRU_BATCH, Profile};
use crate::folio::FolioType;
use crate::units::Swappiness;

type PerTier = [u64; MAX_NR_TIERS];

/// Counts of evictions, refaults and protected pages, by type and tier, and moving averages of
/// earlier counts. Counts are folded into the averages when `min_seq` advances, or, if scans open
/// the generations, when `refault_clock` says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    avg_refaulted: [PerTier; 2],
    avg_total: [PerTier; 2],
    evicted: [PerTier; 2],
    refaulted: [PerTier; 2],
    protected: [PerTier; 2],
}

/// One side of a comparison of refault ratios: `gain * refaulted / total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of pages that refaulted.
    pub refaulted: u64,
    /// Number of pages that were evicted or protected.
    pub total: u64,
    /// Weight of this side; with a larger weight, the other side may have fewer refaults.
    pub gain: u64,
}

impl Position {
    /// Whether the weighted refault ratio of `pv` (the process variable) is at most that of `self`
    /// (the setpoint). Also true if `pv` has fewer than 64 refaults, which are too few to decide.
    #[must_use]
    pub const fn allows(self, pv: Self) -> bool {
        let batch = MIN_LRU_BATCH as u64;
        let own_product = product(pv.refaulted, self.total.saturating_add(batch), self.gain);
        let allowed_product = product(self.refaulted.saturating_add(1), pv.total, pv.gain);
        pv.refaulted < batch || own_product <= allowed_product
    }
}

const fn product(a: u64, b: u64, c: u64) -> u128 {
    (a as u128 * b as u128).saturating_mul(c as u128)
}

impl Controller {
    /// Creates a controller with these moving averages for one type and tier.
    #[cfg(test)]
    pub(super) fn with_history(ty: FolioType, tier: usize, refaulted: u64, total: u64) -> Self {
        let mut controller = Self::default();
        controller.avg_refaulted[ty.index()][tier] = refaulted;
        controller.avg_total[ty.index()][tier] = total;
        controller
    }

    pub(super) const fn on_evicted(&mut self, ty: FolioType, tier: usize) {
        self.evicted[ty.index()][tier] += 1;
    }

    pub(super) const fn on_refaulted(&mut self, ty: FolioType, tier: usize) {
        self.refaulted[ty.index()][tier] += 1;
    }

    /// Counts a protected page. Under the rules before Linux v6.14 the first tier is never
    /// protected.
    pub(super) const fn on_protected(&mut self, ty: FolioType, tier: usize) {
        self.protected[ty.index()][tier] += 1;
    }

    /// Evictions of `ty` from `tier` since the counts were last folded.
    #[must_use]
    pub const fn evicted(&self, ty: FolioType, tier: usize) -> u64 {
        self.evicted[ty.index()][tier]
    }

    /// Refaults of `ty` from `tier` since the counts were last folded.
    #[must_use]
    pub const fn refaulted(&self, ty: FolioType, tier: usize) -> u64 {
        self.refaulted[ty.index()][tier]
    }

    /// Protected pages of `ty` in `tier` since the counts were last folded.
    #[must_use]
    pub const fn protected(&self, ty: FolioType, tier: usize) -> u64 {
        self.protected[ty.index()][tier]
    }

    /// Returns one side of a comparison: the sums over `tiers` of type `ty`, with the weight
    /// `gain`.
    #[must_use]
    pub fn read(&self, ty: FolioType, tiers: core::ops::Range<usize>, gain: u64) -> Position {
        let t = ty.index();
        let mut position = Position {
            refaulted: 0,
            total: 0,
            gain,
        };
        for tier in tiers {
            position.refaulted += self.avg_refaulted[t][tier] + self.refaulted[t][tier];
            position.total +=
                self.avg_total[t][tier] + self.protected[t][tier] + self.evicted[t][tier];
        }
        position
    }

    /// The highest tier of `ty` from which pages may be evicted; higher tiers are protected.
    #[must_use]
    pub fn tier_idx(&self, profile: Profile, ty: FolioType) -> usize {
        let (base, above) = if profile == Profile::P616 {
            (2, 3)
        } else {
            (1, 2)
        };
        let sp = self.read(ty, 0..1, base);
        let refused =
            (1..MAX_NR_TIERS).find(|&tier| !sp.allows(self.read(ty, tier..tier + 1, above)));
        refused.unwrap_or(MAX_NR_TIERS) - 1
    }

    /// Returns the type to evict and the highest tier that may be evicted. `min_seq` is `[anon,
    /// file]`.
    #[must_use]
    pub fn choose(
        &self,
        profile: Profile,
        swappiness: Swappiness,
        min_seq: [u64; 2],
    ) -> (FolioType, usize) {
        let s = u64::from(swappiness.get());
        let max = u64::from(Swappiness::MAX);
        let file_gain = max.saturating_sub(s);
        let ty = match (profile, swappiness.get()) {
            (Profile::P616, 0 | 1) | (_, 0) => FolioType::File,
            (Profile::P63 | Profile::P612, 1..=199) if min_seq[0] < min_seq[1] => FolioType::Anon,
            (Profile::P63 | Profile::P612, 1) => FolioType::File,
            (_, 200..) => FolioType::Anon,
            (Profile::P616, _) => {
                let sp = self.read(FolioType::Anon, 0..MAX_NR_TIERS, s);
                pick(sp.allows(self.read(FolioType::File, 0..MAX_NR_TIERS, file_gain)))
            }
            (Profile::P63 | Profile::P612, _) => return self.choose_p63(s, file_gain),
        };
        (ty, self.tier_idx(profile, ty))
    }

    /// The rule before Linux v6.14: chooses the type by comparing the first tiers of both types,
    /// then compares each higher tier of this type with the first tier of the other.
    fn choose_p63(&self, anon_gain: u64, file_gain: u64) -> (FolioType, usize) {
        let gains = [anon_gain, file_gain];
        let sp = self.read(FolioType::Anon, 0..1, anon_gain);
        let ty = pick(sp.allows(self.read(FolioType::File, 0..1, file_gain)));
        let sp = self.read(ty.other(), 0..1, gains[ty.other().index()]);
        let gain = gains[ty.index()];
        let refused =
            (1..MAX_NR_TIERS).find(|&tier| !sp.allows(self.read(ty, tier..tier + 1, gain)));
        (ty, refused.unwrap_or(MAX_NR_TIERS) - 1)
    }

    /// Folds the counts of `ty` into the averages, and sets the counts to zero.
    pub(super) fn carry_over(&mut self, ty: FolioType) {
        let t = ty.index();
        for tier in 0..MAX_NR_TIERS {
            let total = self.protected[t][tier] + self.evicted[t][tier];
            let refaulted = self.refaulted[t][tier];
            self.avg_refaulted[t][tier] = (self.avg_refaulted[t][tier] + refaulted) / 2;
            self.avg_total[t][tier] = (self.avg_total[t][tier] + total) / 2;
        }
        self.evicted[t] = [0; MAX_NR_TIERS];
        self.refaulted[t] = [0; MAX_NR_TIERS];
        self.protected[t] = [0; MAX_NR_TIERS];
    }
}

const fn pick(file: bool) -> FolioType {
    if file {
        FolioType::File
    } else {
        FolioType::Anon
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(refaulted: u64, total: u64, gain: u64) -> Position {
        Position {
            refaulted,
            total,
            gain,
        }
    }

    /// A side with a higher weighted refault ratio is not allowed, unless it has fewer than 64
    /// refaults.
    /// spec: lru-gen.md 12, test 5.
    #[test]
    fn comparison_of_refault_ratios() {
        let sp = at(100, 1000, 2);
        assert!(sp.allows(at(100, 1000, 3)));
        assert!(!sp.allows(at(150, 1000, 3)));
        assert!(sp.allows(at(63, 0, 3)), "too few samples");
        assert!(
            at(u64::MAX, u64::MAX, 2).allows(at(u64::MAX - 1, u64::MAX, 200)),
            "no overflow"
        );
    }

    fn with(anon: (u64, u64), file: (u64, u64)) -> Controller {
        let mut c = Controller::default();
        for (t, (refaulted, total)) in [anon, file].into_iter().enumerate() {
            c.refaulted[t][0] = refaulted;
            c.evicted[t][0] = total;
        }
        c
    }

    fn type_at(c: &Controller, swappiness: u8) -> FolioType {
        let swappiness = Swappiness::new(swappiness).expect("valid");
        c.choose(Profile::P616, swappiness, [0, 0]).0
    }

    /// With equal refaults the type with more weight by swappiness is evicted; a type with more
    /// refaults is not.
    /// spec: lru-gen.md 12, test 6.
    #[test]
    fn type_by_swappiness_and_refaults() {
        let even = with((200, 1000), (200, 1000));
        assert_eq!(type_at(&even, 60), FolioType::File);
        assert_eq!(
            type_at(&with((200, 1000), (500, 1000)), 60),
            FolioType::Anon
        );
        assert_eq!(type_at(&even, 1), FolioType::File);
        assert_eq!(type_at(&even, 200), FolioType::Anon);
        assert_eq!(type_at(&even, 201), FolioType::Anon);
    }

    /// The average of 10 and a count of 30 are folded to 20, and without new events to 10.
    /// spec: lru-gen.md 12, test 13.
    #[test]
    fn averages_halve() {
        let mut c = Controller::default();
        c.avg_refaulted[0][1] = 10;
        c.refaulted[0][1] = 30;
        (c.avg_total[0][1], c.evicted[0][1], c.protected[0][1]) = (40, 50, 30);
        c.carry_over(FolioType::Anon);
        assert_eq!((c.avg_refaulted[0][1], c.refaulted[0][1]), (20, 0));
        assert_eq!(
            (c.avg_total[0][1], c.evicted[0][1], c.protected[0][1]),
            (60, 0, 0)
        );
        c.carry_over(FolioType::Anon);
        assert_eq!(c.avg_refaulted[0][1], 10);
    }

    #[test]
    fn a_tier_that_refaults_more_is_protected_with_all_above() {
        let mut c = Controller::default();
        assert_eq!(c.tier_idx(Profile::P616, FolioType::File), 3);
        c.evicted[1] = [1000, 1000, 1000, 0];
        c.refaulted[1] = [100, 100, 400, 0];
        assert_eq!(c.tier_idx(Profile::P616, FolioType::File), 1);
        c.refaulted[1][1] = 300;
        assert_eq!(c.tier_idx(Profile::P616, FolioType::File), 0);
    }
}
