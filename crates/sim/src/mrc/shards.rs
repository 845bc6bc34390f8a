//! SHARDS: estimates the LRU curve from a sample of the pages, chosen by hash (Waldspurger et al.,
//! FAST'15).
//!
//! A page is in the sample if its hash is below a threshold, so either all references to a page are
//! in the sample or none. A distance in the sample stands for one that is `1 / rate` times as long.
//! If the sample has more or fewer references than the rate implies, the count at the smallest
//! distance is corrected (SHARDS-adj).
//!
//! Invariant: the same trace and rate produce the same curve.

use super::{Curve, Stack, ratio};
use crate::trace::Dense;

/// Decides which pages are in the sample.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    threshold: u64,
    rate: f64,
}

impl Sampler {
    /// Makes a sampler of a share `rate` of all pages, 0 to 1.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of the range of hashes; more than all saturates"
    )]
    pub fn new(rate: f64) -> Self {
        let rate = if rate.is_nan() {
            1.0
        } else {
            rate.clamp(0.0, 1.0)
        };
        let threshold = if rate < 1.0 {
            (rate * u64::MAX as f64) as u64
        } else {
            u64::MAX
        };
        Self { threshold, rate }
    }

    /// Returns the share of the pages that are sampled.
    #[must_use]
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns whether `page` is in the sample.
    #[must_use]
    #[inline]
    pub const fn takes(&self, page: u64) -> bool {
        // The last step of SplitMix64: every bit of the page number changes the result.
        let x = page.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31 <= self.threshold
    }

    /// Returns the size in the sample that stands for `size` pages; at least 1.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "sizes below 2^53"
    )]
    pub fn scaled(&self, size: u64) -> u64 {
        let scaled = (size as f64 * self.rate).round() as u64;
        scaled.max(u64::from(size > 0))
    }
}

/// An LRU curve that is computed from a sample.
#[derive(Clone, Debug)]
pub struct Shards {
    sampler: Sampler,
    dense: Dense,
    stack: Stack,
    curve: Curve,
    references: u64,
}

impl Shards {
    /// Makes a curve with a sampling rate of 0 to 1; 1 is exact.
    #[must_use]
    pub fn new(rate: f64) -> Self {
        Self {
            sampler: Sampler::new(rate),
            dense: Dense::default(),
            stack: Stack::default(),
            curve: Curve::default(),
            references: 0,
        }
    }

    /// References a page.
    #[inline]
    pub fn access(&mut self, page: u64) {
        self.references += 1;
        if self.sampler.takes(page) {
            self.curve.count(self.stack.access(self.dense.id(page)));
        }
    }

    /// Returns the maximum number of bytes by which the tables grow at once during `more` new
    /// pages.
    #[must_use]
    pub fn growth_bytes(&self, more: usize) -> u64 {
        self.dense.growth_bytes(more)
    }

    /// Returns the number of pages in the sample.
    #[must_use]
    pub const fn sampled_pages(&self) -> u64 {
        self.curve.pages()
    }

    /// Returns an estimate of the footprint, pages.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an estimate of a count"
    )]
    pub fn pages(&self) -> u64 {
        (self.sampled_pages() as f64 / self.sampler.rate).round() as u64
    }

    /// Returns an estimate of the miss ratio of an LRU memory of `size` pages.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    pub fn miss_ratio(&self, size: u64) -> f64 {
        let misses = self.curve.misses(&[self.sampler.scaled(size)])[0];
        if size == 0 {
            return ratio(misses, self.curve.references());
        }
        let expected = self.references as f64 * self.sampler.rate;
        (misses as f64 / expected.max(1.0)).clamp(0.0, 1.0)
    }
}
