//! The refault controller, written directly from spec/lru-gen.md 6.2.

use engine::FolioType;

#[derive(Default)]
pub struct Control {
    /// Averages by type and tier: (number refaulted, number evicted or protected).
    avg: [[(u128, u128); 4]; 2],
    /// Counts of the same events since `min_seq` last changed.
    now: [[(u128, u128); 4]; 2],
}

/// Compares two weighted refault ratios: whether about `pv.0 / pv.1 * sp_gain <= sp.0 / sp.1 *
/// pv_gain`. Also true if `pv` has fewer than 64 refaults.
fn allows(sp: (u128, u128), sp_gain: u128, pv: (u128, u128), pv_gain: u128) -> bool {
    pv.0 < 64 || pv.0 * (sp.1 + 64) * sp_gain <= (sp.0 + 1) * pv.1 * pv_gain
}

impl Control {
    pub fn refaulted(&mut self, ty: FolioType, tier: usize) {
        self.now[ty as usize][tier].0 += 1;
    }

    pub fn evicted(&mut self, ty: FolioType, tier: usize) {
        self.now[ty as usize][tier].1 += 1;
    }

    pub fn protected(&mut self, ty: FolioType, tier: usize) {
        self.now[ty as usize][tier].1 += 1;
    }

    /// Returns the sum of averages and present counts of a type and tier.
    fn read(&self, ty: FolioType, tier: usize) -> (u128, u128) {
        let (avg, now) = (self.avg[ty as usize][tier], self.now[ty as usize][tier]);
        (avg.0 + now.0, avg.1 + now.1)
    }

    /// Returns the sum of [`Self::read`] over all tiers.
    fn all(&self, ty: FolioType) -> (u128, u128) {
        (0..4)
            .map(|tier| self.read(ty, tier))
            .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    pub fn tier_idx(&self, ty: FolioType) -> usize {
        let mut tier = 1;
        while tier < 4 && allows(self.read(ty, 0), 2, self.read(ty, tier), 3) {
            tier += 1;
        }
        tier - 1
    }

    /// Returns the type to evict.
    pub fn choose(&self, swappiness: u64) -> FolioType {
        let s = u128::from(swappiness);
        let file = s <= 1
            || (s < 200
                && allows(
                    self.all(FolioType::Anon),
                    s,
                    self.all(FolioType::File),
                    200 - s,
                ));
        if file {
            FolioType::File
        } else {
            FolioType::Anon
        }
    }

    /// Adds the present counts to the averages, and halves the sums.
    pub fn carry_over(&mut self, ty: FolioType) {
        for tier in 0..4 {
            let (avg, now) = (self.avg[ty as usize][tier], self.now[ty as usize][tier]);
            self.avg[ty as usize][tier] = ((avg.0 + now.0) / 2, (avg.1 + now.1) / 2);
        }
        self.now[ty as usize] = Default::default();
    }
}
