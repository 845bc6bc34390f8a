//! Curves of any policies at many limits in one pass: miniature simulation (Waldspurger et al.,
//! ATC'17), corrected by what the same sample gets wrong about LRU.
//!
//! Pages are sampled by their hash; a small memory a limit sees the sample, with its limit and its
//! reclaim batch scaled by the rate. Each costs the rate of a full run. Which pages happen to be in
//! the sample shifts all policies alike, and for LRU the exact curve is to be had in one pass: so
//! the difference between the exact and the sampled LRU curve is added (a control variate).
//!
//! Invariant: at rate 1 every memory does exactly what a full run does.

use super::{Cache, Curve, RECLAIM_BATCH, Sampler, Stack, ratio};
use crate::trace::Dense;

/// The small memories of some curves over one sample.
pub struct Miniature {
    sampler: Sampler,
    dense: Dense,
    limits: Vec<u64>,
    curves: Vec<Vec<Small>>,
    stack: Stack,
    lru: Curve,
    references: u64,
    ids: Vec<u32>,
    /// Pages that got an id at the last feeding.
    new: Vec<u64>,
}

struct Small {
    cache: Box<dyn Cache>,
    misses: u64,
}

impl std::fmt::Debug for Miniature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Miniature")
            .field("sampler", &self.sampler)
            .field("limits", &self.limits)
            .field("references", &self.references)
            .finish_non_exhaustive()
    }
}

impl Miniature {
    /// For `limits` (pages of the whole trace) on a sample of `rate`.
    #[must_use]
    pub fn new(limits: &[u64], rate: f64) -> Self {
        Self {
            sampler: Sampler::new(rate),
            dense: Dense::default(),
            limits: limits.to_vec(),
            curves: Vec::new(),
            stack: Stack::default(),
            lru: Curve::default(),
            references: 0,
            ids: Vec::new(),
            new: Vec::new(),
        }
    }

    /// Adds a curve; `make` gives a memory of so many pages that reclaims so many at a time.
    pub fn add(&mut self, make: impl Fn(u64, usize) -> Box<dyn Cache>) {
        let batch = usize::try_from(self.sampler.scaled(RECLAIM_BATCH as u64)).unwrap_or(1);
        let small = |&limit: &u64| Small {
            cache: make(self.sampler.scaled(limit), batch),
            misses: 0,
        };
        self.curves.push(self.limits.iter().map(small).collect());
    }

    /// References pages in turn. Best some ten thousands at a time: every memory sees them all before
    /// the next does.
    pub fn feed(&mut self, pages: impl Iterator<Item = u64>) {
        self.ids.clear();
        self.new.clear();
        for page in pages {
            self.references += 1;
            if self.sampler.takes(page) {
                let (known, id) = (self.dense.len(), self.dense.id(page));
                self.ids.push(id);
                if id == known {
                    self.new.push(page);
                }
            }
        }
        for &id in &self.ids {
            self.lru.count(self.stack.access(id));
        }
        for small in self.curves.iter_mut().flatten() {
            small.cache.introduce(&self.new);
            small.misses += small.cache.misses(&self.ids);
        }
    }

    /// Pages in the sample.
    #[must_use]
    pub const fn sampled_pages(&self) -> u32 {
        self.dense.len()
    }

    /// References so far, sampled or not.
    #[must_use]
    pub const fn references(&self) -> u64 {
        self.references
    }

    /// The ids that [`Self::feed`] sampled last.
    #[must_use]
    pub fn sampled(&self) -> &[u32] {
        &self.ids
    }

    /// What `size` pages of the whole trace are in the sample.
    #[must_use]
    pub fn scaled(&self, size: u64) -> u64 {
        self.sampler.scaled(size)
    }

    /// The miss ratios of curve `n` in the order they were added, estimated from the sample alone: what a test and
    /// the example `curves` hold [`Miniature::corrected`] against.
    ///
    /// # Panics
    /// If there are fewer curves.
    #[must_use]
    pub fn miss_ratios(&self, n: usize) -> Vec<f64> {
        let ratios = self.curves[n].iter().map(|s| self.estimate(s.misses));
        ratios.map(|ratio| ratio.clamp(0.0, 1.0)).collect()
    }

    /// The same, corrected with the exact LRU curve of the whole trace: several times nearer, at
    /// the price of that pass.
    ///
    /// # Panics
    /// If there are fewer curves.
    #[must_use]
    pub fn corrected(&self, n: usize, exact: &Curve) -> Vec<f64> {
        let misses: Vec<u64> = self.curves[n].iter().map(|small| small.misses).collect();
        self.correct(&misses, exact)
    }

    /// Corrected miss ratios from misses in the sample, one a limit.
    #[must_use]
    pub fn correct(&self, misses: &[u64], exact: &Curve) -> Vec<f64> {
        let scaled: Vec<u64> = self.limits.iter().map(|&l| self.scaled(l)).collect();
        let (all, sampled) = (exact.misses(&self.limits), self.lru.misses(&scaled));
        let shift = all.into_iter().zip(sampled);
        let shift = shift.map(|(all, lru)| ratio(all, exact.references()) - self.estimate(lru));
        let corrected = misses.iter().zip(shift);
        let corrected = corrected.map(|(&misses, shift)| self.estimate(misses) + shift);
        corrected.map(|ratio| ratio.clamp(0.0, 1.0)).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    fn estimate(&self, misses: u64) -> f64 {
        let expected = self.references as f64 * self.sampler.rate();
        misses as f64 / expected.max(1.0)
    }
}
