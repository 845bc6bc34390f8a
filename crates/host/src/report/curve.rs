//! Refault rates by memory size, as data: how many refaults a target would have with less memory.
//!
//! Invariant: points are in ascending order of size, and only for sizes that were observed. The
//! smallest is the memory accessed between two scans; the largest is the largest size that was full
//! for a quarter of the watched time. Refault rates never rise from one size to the next larger
//! one.

use engine::units::PAGE_SIZE;
use serde::{Deserialize, Serialize};

/// Default limit of refaults: pages per minute, in per mille of the pages of the working set. It is
/// the rule of far memory in Google's data centers (Lagar-Cavilla and others, ASPLOS'19).
pub const REFAULTS_PER_MILLE: f64 = 2.0;
/// Refaults that are always allowed, in pages per minute (one a second), for small working sets.
pub const REFAULTS_FLOOR: f64 = 60.0;
/// Part of a limit, in per mille, down to which reclaim for the limit goes
/// (`engine::vmscan::Headroom`). Memory above that part is headroom for the program to grow.
pub(crate) const HELD_PER_MILLE: u64 = 995;
/// Number of refaults that must be expected in the watched time before a rate is trusted. With ten
/// refaults, chance changes a rate by up to a third.
const EVENTS: f64 = 10.0;
const MINUTE_MS: f64 = 60_000.0;

/// Refault rates of a target by memory size, and recommended sizes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Curve {
    /// Time between the first scan and the last, milliseconds.
    pub watched_ms: u64,
    /// Resident memory that was accessed within the last two minutes, or since the watch began.
    pub working_set_bytes: u64,
    /// Average memory accessed between two scans; nothing is known about smaller sizes.
    pub known_from_bytes: u64,
    /// Resident memory that was accessed since the watch began; nothing is known about larger
    /// sizes.
    pub known_to_bytes: u64,
    /// Resident memory that was never seen accessed; whether it will be accessed again is unknown.
    pub untouched_bytes: u64,
    /// Time in which more than a twentieth of the pages had an unknown age, milliseconds.
    pub blind_ms: u64,
    /// Kernel memory charged to the target's group (stacks, page tables, slab). It counts towards a
    /// limit and is never reclaimed. 0 if the target has no group of its own.
    pub kernel_bytes: u64,
    /// Unmapped page cache of the target's group that was accessed more than once; no point
    /// includes it.
    #[serde(default)]
    pub cache_bytes: u64,
    /// Memory that other processes map, too: it stays resident even if the target does not access
    /// it. `None` if unknown.
    pub shared_bytes: Option<u64>,
    /// Points of the curve, in ascending order of size.
    pub points: Vec<CurvePoint>,
    /// Refaults allowed at the recommended size: pages per minute, in per mille of the pages of the
    /// working set.
    pub refaults_per_mille: f64,
    /// The smallest size with at most the allowed refaults; `None` until enough time was watched.
    pub recommended: Option<Recommended>,
    /// The size at the bend of the curve: less memory causes far more refaults, and more memory
    /// avoids hardly any. `None` if the curve has no bend.
    pub knee: Option<Recommended>,
}

/// The refaults that a target would have with one size of memory.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The size: resident memory, bytes.
    pub bytes: u64,
    /// Idle time of the oldest page that would be resident with this size, milliseconds.
    pub idle_ms: u64,
    /// Refaults per minute, in pages of 4 KiB.
    pub refaults_per_minute: f64,
    /// The part of `refaults_per_minute` that are file pages.
    #[serde(default)]
    pub file_refaults_per_minute: f64,
    /// Lower bound of the refaults per minute. A rate is known only within bounds, as the order of
    /// accesses between two scans is unknown.
    #[serde(default)]
    pub at_least_per_minute: f64,
    /// Upper bound of the refaults per minute; see [`CurvePoint::at_least_per_minute`].
    #[serde(default)]
    pub at_most_per_minute: f64,
    /// Refaults per minute in the later part of the watched time; `None` if memory of this size was
    /// not full in that part.
    #[serde(default)]
    pub later_per_minute: Option<f64>,
    /// The part of `later_per_minute` that are file pages; `None` if `later_per_minute` is.
    #[serde(default)]
    pub later_file_per_minute: Option<f64>,
    /// Refaults divided by accesses: `refaulted_pages` / number of pages that scans found accessed.
    pub miss_ratio: f64,
    /// Number of refaults in the time `watched_ms`, in pages.
    pub refaulted_pages: u64,
    /// How long memory of this size would have been full, milliseconds. Before that, nothing would
    /// have been reclaimed.
    pub watched_ms: u64,
    /// File pages that do not fit into this size, bytes. They may still stay resident if other
    /// processes map them. 0 from managers of older versions.
    #[serde(default)]
    pub idle_file_bytes: u64,
}

/// A recommended size of memory, with the options that achieve it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Recommended {
    /// Value for `--memory-max`: the sum of `bytes`, file pages that stay resident as other
    /// processes map them, kernel memory, and the headroom that reclaim keeps below a limit.
    pub limit_bytes: u64,
    /// Value for `--age-every`, milliseconds: a third of `idle_ms` in whole seconds, at least 1 s.
    /// The engine keeps four generations and reclaims from none of the two youngest. So three
    /// generations span the idle time of the oldest page that stays.
    pub age_every_ms: u64,
    /// The recommended resident memory, bytes.
    pub bytes: u64,
    /// [`CurvePoint::idle_ms`] of this size, milliseconds.
    pub idle_ms: u64,
    /// [`CurvePoint::refaults_per_minute`] of this size, pages.
    pub refaults_per_minute: f64,
}

impl Recommended {
    /// Recommends the size of a point. The limit is `charged * 1000 / 995`. `charged` is the sum of
    /// the point's resident bytes, file pages that stay as other processes map them, and kernel
    /// memory.
    fn of(point: &CurvePoint, curve: &Curve) -> Recommended {
        let stays = curve.shared_bytes.unwrap_or(u64::MAX);
        let stays = point.idle_file_bytes.min(stays);
        let charged = u128::from(point.bytes) + u128::from(stays) + u128::from(curve.kernel_bytes);
        let limit = charged * 1000 / u128::from(HELD_PER_MILLE);
        Recommended {
            limit_bytes: u64::try_from(limit)
                .map_or(u64::MAX, |limit| limit.next_multiple_of(PAGE_SIZE)),
            age_every_ms: (point.idle_ms / 3000).max(1) * 1000,
            bytes: point.bytes,
            idle_ms: point.idle_ms,
            refaults_per_minute: point.refaults_per_minute,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes and times below 2^53")]
const fn number(n: u64) -> f64 {
    n as f64
}

impl Curve {
    /// Returns the allowed refaults, pages per minute: this per mille of the working set's pages,
    /// but at least [`REFAULTS_FLOOR`].
    #[must_use]
    pub fn allowed(&self, refaults_per_mille: f64) -> f64 {
        let share =
            number(self.working_set_bytes) / number(PAGE_SIZE) * refaults_per_mille / 1000.0;
        share.max(REFAULTS_FLOOR)
    }

    /// Returns the time, milliseconds, that must be watched to distinguish the allowed rate of
    /// refaults from zero: ten refaults are expected in it.
    #[must_use]
    pub fn needed_ms(&self, refaults_per_mille: f64) -> f64 {
        EVENTS * MINUTE_MS / self.allowed(refaults_per_mille)
    }

    /// Returns the smallest size from which on no size exceeds the allowed refaults; `None` until
    /// enough time was watched.
    #[must_use]
    pub fn smallest(&self, refaults_per_mille: f64) -> Option<Recommended> {
        let allowed = self.allowed(refaults_per_mille);
        let needed = self.needed_ms(refaults_per_mille);
        let is_reported = |point: &&CurvePoint| number(point.watched_ms) >= needed;
        let reported = self.points.iter().rev().filter(is_reported);
        let fits = |point: &&CurvePoint| point.refaults_per_minute <= allowed;
        let chosen = reported.take_while(fits).last();
        chosen.map(|point| Recommended::of(point, self))
    }

    /// Returns the point farthest below the straight line from the first to the last point; `None`
    /// if no point is below the line.
    #[must_use]
    pub fn knee_point(&self) -> Option<Recommended> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        let span = number(last.bytes) - number(first.bytes);
        let fall = first.refaults_per_minute - last.refaults_per_minute;
        if span <= 0.0 || fall <= 0.0 {
            return None;
        }
        let below = |point: &CurvePoint| {
            let along = (number(point.bytes) - number(first.bytes)) / span;
            let fallen = (first.refaults_per_minute - point.refaults_per_minute) / fall;
            fallen - along
        };
        let farthest = self
            .points
            .iter()
            .max_by(|one, other| below(one).total_cmp(&below(other)))?;
        (below(farthest) > 0.0).then(|| Recommended::of(farthest, self))
    }

    /// Sets the memory that no limit reduces, and computes the recommended sizes again.
    /// `kernel_bytes`: kernel memory of the target's group. `shared_bytes`: memory that other
    /// processes map, too. `None` if unknown.
    #[must_use]
    pub fn beside(mut self, kernel_bytes: Option<u64>, shared_bytes: Option<u64>) -> Curve {
        self.kernel_bytes = kernel_bytes.unwrap_or(0);
        self.shared_bytes = shared_bytes;
        let rule = self.refaults_per_mille;
        self.recommend(rule)
    }

    /// Sets the unmapped page cache that was accessed more than once; `None` counts as 0.
    #[must_use]
    pub fn with_cache(mut self, cache_bytes: Option<u64>) -> Curve {
        self.cache_bytes = cache_bytes.unwrap_or(0);
        self
    }

    /// Computes the recommended sizes again, with this limit of refaults
    /// ([`Curve::refaults_per_mille`]).
    #[must_use]
    pub fn recommend(mut self, refaults_per_mille: f64) -> Curve {
        self.refaults_per_mille = refaults_per_mille;
        self.recommended = self.smallest(refaults_per_mille);
        self.knee = self.knee_point();
        self
    }
}

impl CurvePoint {
    /// Creates a point for the size `bytes`. `idle_ms`: idle time of the oldest page that fits.
    /// `refaulted`: number of refaults, then number of all accesses. `watched_ms`: time in which
    /// both were counted.
    #[must_use]
    pub fn new(bytes: u64, idle_ms: u64, refaulted: (u64, u64), watched_ms: u64) -> CurvePoint {
        let (refaulted_pages, touched) = refaulted;
        let ratio = |part: f64, of: u64| if of == 0 { 0.0 } else { part / number(of) };
        CurvePoint {
            bytes,
            idle_ms,
            refaults_per_minute: ratio(number(refaulted_pages) * MINUTE_MS, watched_ms),
            miss_ratio: ratio(number(refaulted_pages), touched),
            refaulted_pages,
            watched_ms,
            ..CurvePoint::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a curve with points at 1, 2, ... MiB, which have these numbers of refaults in 10
    /// minutes.
    fn curve(refaults: &[u64]) -> Curve {
        let points = (1..).zip(refaults);
        let points = points.map(|(mib, n)| CurvePoint::new(mib << 20, 0, (*n, 1_000_000), 600_000));
        Curve {
            working_set_bytes: 50_000 * 4096,
            points: points.collect(),
            ..Curve::default()
        }
    }

    #[test]
    fn the_smallest_size_that_keeps_the_rule_is_chosen() {
        let curve = curve(&[90_000, 3_000, 999, 1_000, 400, 0]);
        let chosen = curve.smallest(2.0).expect("100 a minute are allowed");
        assert_eq!(chosen.bytes, 3 << 20);
        assert_eq!(
            chosen.limit_bytes, 3_162_112,
            "half a percent more, whole pages"
        );
        assert!((chosen.refaults_per_minute - 99.9).abs() < 1e-9);
        // Regression: the limit did not include kernel memory, although the kernel counts it
        // towards the limit. So that much memory was missing for pages.
        let with_kernel = curve.clone().recommend(2.0).beside(Some(20 << 20), None);
        let chosen = with_kernel.recommended.expect("as before");
        assert_eq!(chosen.bytes, 3 << 20);
        assert_eq!(
            chosen.limit_bytes,
            (23_u64 << 20) * 1000 / 995 / 4096 * 4096 + 4096
        );
        // Of the file pages, as many stay resident as the kernel reports that other processes map;
        // all stay if the kernel reports nothing.
        let mut files = curve.clone().recommend(2.0);
        files.points[2].idle_file_bytes = 8 << 20;
        for (shared, mib) in [(Some(0), 3_u64), (Some(5 << 20), 8), (None, 11)] {
            let chosen = files.clone().beside(None, shared).recommended;
            let limit = chosen.expect("as before").limit_bytes;
            assert_eq!(
                limit,
                ((mib << 20) * 1000 / 995).next_multiple_of(PAGE_SIZE),
                "{shared:?}"
            );
        }
        let strict = curve.smallest(0.5).expect("25 a minute, and 60 at least");
        assert_eq!(strict.bytes, 5 << 20);
    }

    /// If a size has few refaults but a larger size has many, the few are due to chance.
    #[test]
    fn all_larger_sizes_keep_the_rule_too() {
        let curve = curve(&[500, 90_000, 400]);
        assert_eq!(curve.smallest(2.0).map(|one| one.bytes), Some(3 << 20));
    }

    #[test]
    fn nothing_is_recommended_before_enough_time_was_watched() {
        let mut curve = curve(&[10, 0]);
        curve
            .points
            .iter_mut()
            .for_each(|point| point.watched_ms = 5_000);
        // 100 refaults a minute are allowed: to expect ten of them takes 6 s.
        assert_eq!(curve.smallest(2.0), None);
        assert!((curve.needed_ms(2.0) - 6_000.0).abs() < 1e-9);
        assert_eq!(Curve::default().smallest(2.0), None);
    }

    #[test]
    fn the_knee_is_where_the_curve_bends() {
        let bent = curve(&[10_000, 5_000, 300, 200, 100, 0]);
        assert_eq!(bent.knee_point().map(|one| one.bytes), Some(3 << 20));
        assert_eq!(curve(&[5, 5, 5]).knee_point(), None, "flat");
        assert_eq!(
            curve(&[10, 9, 8, 0]).knee_point(),
            None,
            "a cliff at the end"
        );
    }

    #[test]
    fn rates_refer_to_the_watched_time() {
        let point = CurvePoint::new(4096, 7, (30, 60), 20_000);
        assert!((point.refaults_per_minute - 90.0).abs() < 1e-9);
        assert!((point.miss_ratio - 0.5).abs() < 1e-9);
        let never = CurvePoint::new(4096, 7, (0, 0), 0);
        assert!(never.refaults_per_minute == 0.0 && never.miss_ratio == 0.0);
    }
}
