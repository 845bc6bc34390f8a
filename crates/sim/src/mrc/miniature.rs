//! Estimates the curves of any policies at many limits in one pass: miniature simulation
//! (Waldspurger et al., ATC'17), corrected by the error that the same sample has for LRU.
//!
//! Pages are sampled by their hash. For each limit, a small memory processes the sampled
//! references. Its limit and its reclaim batch are scaled by the sampling rate, which also scales
//! its cost. The error of a sample is about the same for all policies. The exact LRU curve is known
//! from an earlier pass, so the difference between the exact and the sampled LRU curve is added to
//! each result (a control variate).
//!
//! Invariant: at rate 1, every memory does exactly the same as a full run.

use super::{Cache, Curve, RECLAIM_BATCH, Sampler, Stack, ratio};
use crate::trace::Dense;

/// The small memories of all curves, which process the same sample.
pub struct Miniature {
    sampler: Sampler,
    dense: Dense,
    limits: Vec<u64>,
    curves: Vec<Vec<SmallMemory>>,
    stack: Stack,
    lru: Curve,
    references: u64,
    ids: Vec<u32>,
    /// Page numbers of the ids that the last call of [`Miniature::replay`] added.
    new: Vec<u64>,
}

/// A memory of one policy and one limit, scaled down by the sampling rate, and its misses.
struct SmallMemory {
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
    /// Makes an empty set of curves for `limits` (pages of the whole trace), on a sample of `rate`
    /// (0 to 1).
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

    /// Adds a curve. `make` gets a size and a reclaim batch, in pages, and returns a memory with
    /// these.
    pub fn add(&mut self, make: impl Fn(u64, usize) -> Box<dyn Cache>) {
        let batch = usize::try_from(self.sampler.scaled(RECLAIM_BATCH as u64)).unwrap_or(1);
        let small = |&limit: &u64| SmallMemory {
            cache: make(self.sampler.scaled(limit), batch),
            misses: 0,
        };
        self.curves.push(self.limits.iter().map(small).collect());
    }

    /// Processes references to `pages`. Calls with some ten thousand references are fastest: each
    /// memory processes all references of a call before the next memory does.
    pub fn replay(&mut self, pages: impl Iterator<Item = u64>) {
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

    /// Returns the number of pages in the sample.
    #[must_use]
    pub const fn sampled_pages(&self) -> u32 {
        self.dense.len()
    }

    /// Returns the ids of the sampled references of the last [`Self::replay`].
    #[must_use]
    pub fn sampled(&self) -> &[u32] {
        &self.ids
    }

    /// Returns the size in the sample that stands for `size` pages of the whole trace.
    #[must_use]
    pub fn scaled(&self, size: u64) -> u64 {
        self.sampler.scaled(size)
    }

    /// Returns the miss ratios of curve `n` (in the order of [`Self::add`]), estimated only from
    /// the sample.
    ///
    /// A test and the example `curves` compare them with [`Miniature::corrected`].
    ///
    /// # Panics
    /// If there is no curve `n`.
    #[must_use]
    pub fn miss_ratios(&self, n: usize) -> Vec<f64> {
        let ratios = self.curves[n].iter().map(|s| self.estimate(s.misses));
        ratios.map(|ratio| ratio.clamp(0.0, 1.0)).collect()
    }

    /// Returns the miss ratios of curve `n`, corrected with the exact LRU curve of the whole trace.
    ///
    /// They are several times more accurate than [`Miniature::miss_ratios`], but the exact curve
    /// costs a pass over the trace.
    ///
    /// # Panics
    /// If there is no curve `n`.
    #[must_use]
    pub fn corrected(&self, n: usize, exact: &Curve) -> Vec<f64> {
        let misses: Vec<u64> = self.curves[n].iter().map(|small| small.misses).collect();
        self.correct(&misses, exact)
    }

    /// Returns corrected miss ratios. `misses` has the misses in the sample, one number for each
    /// limit.
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
