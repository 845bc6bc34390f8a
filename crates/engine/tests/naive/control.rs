//! The refault controller, written directly from spec/lru-gen.md 6.2.

use engine::FolioType;

#[derive(Default)]
pub struct Control {
    /// Averages by type and tier: (refaulted, evicted and protected). `now` has the same for events
    /// since `min_seq` last changed.
    avg: [[(u128, u128); 4]; 2],
    now: [[(u128, u128); 4]; 2],
}

/// Whether about `pv.0 / pv.1 * sp_gain <= sp.0 / sp.1 * pv_gain` (the refault rates, weighted), or
/// `pv` has fewer than 64 refaults.
fn ok(sp: (u128, u128), sp_gain: u128, pv: (u128, u128), pv_gain: u128) -> bool {
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

    /// The average plus the present events of a type and tier.
    fn read(&self, ty: FolioType, tier: usize) -> (u128, u128) {
        let (avg, now) = (self.avg[ty as usize][tier], self.now[ty as usize][tier]);
        (avg.0 + now.0, avg.1 + now.1)
    }

    /// The sum of [`Self::read`] over all tiers.
    fn all(&self, ty: FolioType) -> (u128, u128) {
        (0..4)
            .map(|tier| self.read(ty, tier))
            .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    pub fn tier_idx(&self, ty: FolioType) -> usize {
        let mut tier = 1;
        while tier < 4 && ok(self.read(ty, 0), 2, self.read(ty, tier), 3) {
            tier += 1;
        }
        tier - 1
    }

    /// The type to evict from.
    pub fn choose(&self, swappiness: u64) -> FolioType {
        let s = u128::from(swappiness);
        let file = s <= 1
            || (s < 200
                && ok(
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

    /// Adds the present events to the averages, and halves these.
    pub fn carry_over(&mut self, ty: FolioType) {
        for tier in 0..4 {
            let (avg, now) = (self.avg[ty as usize][tier], self.now[ty as usize][tier]);
            self.avg[ty as usize][tier] = ((avg.0 + now.0) / 2, (avg.1 + now.1) / 2);
        }
        self.now[ty as usize] = Default::default();
    }
}
