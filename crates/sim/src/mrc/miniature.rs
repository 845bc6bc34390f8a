//! A curve of any policy of the engine at many limits in one pass: miniature simulation
//! (Waldspurger et al., ATC'17), corrected by what the same sample gets wrong about LRU.
//!
//! Pages are sampled by their hash; a small engine a limit sees the sample with its limit and its
//! reclaim batch scaled by the rate. Each costs the rate of a full run. Which pages happen to be in
//! the sample shifts all policies alike, and for LRU the exact curve is to be had in one pass: so
//! the difference between the exact and the sampled LRU curve is added (a control variate).
//!
//! Invariant: at rate 1 every engine does exactly what a full run does.

use super::{Curve, EngineRun, RECLAIM_BATCH, Sampler, Stack, ratio};
use crate::trace::Dense;
use engine::Policy;

/// The engines of one curve.
#[derive(Debug)]
pub struct Miniature {
    sampler: Sampler,
    dense: Dense,
    limits: Vec<u64>,
    runs: Vec<EngineRun>,
    stack: Stack,
    lru: Curve,
    references: u64,
}

impl Miniature {
    /// Engines of `policy` at `limits` (pages of the whole trace) on a sample of `rate`.
    #[must_use]
    pub fn new(policy: Policy, limits: &[u64], rate: f64) -> Self {
        let sampler = Sampler::new(rate);
        let batch = usize::try_from(sampler.scaled(RECLAIM_BATCH as u64)).unwrap_or(1);
        let run = |&limit: &u64| EngineRun::with_batch(policy, sampler.scaled(limit), batch);
        Self {
            sampler,
            dense: Dense::default(),
            limits: limits.to_vec(),
            runs: limits.iter().map(run).collect(),
            stack: Stack::default(),
            lru: Curve::default(),
            references: 0,
        }
    }

    /// References a page.
    #[inline]
    pub fn access(&mut self, page: u64) {
        self.references += 1;
        if !self.sampler.takes(page) {
            return;
        }
        let id = self.dense.id(page);
        self.lru.count(self.stack.access(id));
        for run in &mut self.runs {
            run.access(id);
        }
    }

    /// Pages in the sample.
    #[must_use]
    pub const fn sampled_pages(&self) -> u32 {
        self.dense.len()
    }

    /// The miss ratio at each limit, estimated from the sample alone.
    #[must_use]
    pub fn miss_ratios(&self) -> Vec<f64> {
        let ratios = self.runs.iter().map(|run| self.estimate(run.misses()));
        ratios.map(|ratio| ratio.clamp(0.0, 1.0)).collect()
    }

    /// The same, corrected with the exact LRU curve of the whole trace: several times nearer, at
    /// the price of that pass.
    #[must_use]
    pub fn corrected(&self, exact: &Curve) -> Vec<f64> {
        let scaled: Vec<u64> = self
            .limits
            .iter()
            .map(|&l| self.sampler.scaled(l))
            .collect();
        let (all, sampled) = (exact.misses(&self.limits), self.lru.misses(&scaled));
        let shift = all.into_iter().zip(sampled);
        let shift = shift.map(|(all, lru)| ratio(all, exact.references()) - self.estimate(lru));
        let runs = self.runs.iter().map(|run| self.estimate(run.misses()));
        let corrected = runs.zip(shift).map(|(ratio, shift)| ratio + shift);
        corrected.map(|ratio| ratio.clamp(0.0, 1.0)).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    fn estimate(&self, misses: u64) -> f64 {
        let expected = self.references as f64 * self.sampler.rate();
        misses as f64 / expected.max(1.0)
    }
}
