//! What less memory would cost, as data: how many pages would come back, by size.
//!
//! Invariant: points are in ascending order of their sizes, and of sizes of which something is known: from what is in use
//! between two scans up to the largest size that was full for a quarter of the watched time. Refault rates never rise
//! from a size to the next larger one.

use serde::{Deserialize, Serialize};

/// Pages that may come back in a minute, in tenths of a percent of the working set: the far-memory rule (Lagar-Cavilla and
/// others, ASPLOS'19).
pub const REFAULTS_PER_MILLE: f64 = 2.0;
/// So many pages may come back in a minute however small the working set is: one a second.
pub const REFAULTS_FLOOR: f64 = 60.0;
/// Of a limit a manager leaves at least so much to the program (`manage::room`): reclaim ends there.
pub(crate) const HELD_PER_MILLE: u64 = 995;
/// A rate is believed from so many events on: with ten, chance makes a third more or less of it.
const EVENTS: f64 = 10.0;
const PAGE: f64 = 4096.0;
const MINUTE_MS: f64 = 60_000.0;

/// The curve, and sizes to choose.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Curve {
    /// Time between the first look and the last, milliseconds.
    pub watched_ms: u64,
    /// Resident memory that was accessed within the last two minutes, or since watching began.
    pub working_set_bytes: u64,
    /// So much is in use between two looks, on average: of less memory nothing is known.
    pub known_from_bytes: u64,
    /// So much of what is resident was seen in use since watching began: of more memory nothing is known.
    pub known_to_bytes: u64,
    /// So much was not: if and when it is used again nobody knows.
    pub untouched_bytes: u64,
    /// Time of which nothing is known: the ages of more than a twentieth of the pages were unknown, milliseconds.
    pub blind_ms: u64,
    /// What the kernel itself has of the group's charge (stacks, page tables, slab): a limit counts it, and it never leaves. 0 where
    /// the group is not the target's own.
    pub kernel_bytes: u64,
    /// What is mapped by others, too, and so stays in memory, used or not; none where nobody tells.
    pub shared_bytes: Option<u64>,
    /// By size.
    pub points: Vec<CurvePoint>,
    /// What may come back in a minute at the size to choose, in tenths of a percent of the working set.
    pub refaults_per_mille: f64,
    /// The smallest size at which no more does; none while too little time was watched to tell.
    pub recommended: Option<Recommended>,
    /// The size at the bend: less memory brings far more pages back, more memory hardly fewer.
    pub knee: Option<Recommended>,
}

/// One size.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Resident memory.
    pub bytes: u64,
    /// How long its oldest page would have been idle, milliseconds.
    pub idle_ms: u64,
    /// Pages that would come back in a minute, of 4 KiB.
    pub refaults_per_minute: f64,
    /// Those of files among them.
    #[serde(default)]
    pub file_refaults_per_minute: f64,
    /// No fewer, and no more, whatever the order of accesses between two looks was.
    #[serde(default)]
    pub at_least_per_minute: f64,
    /// See [`CurvePoint::at_least_per_minute`].
    #[serde(default)]
    pub at_most_per_minute: f64,
    /// In the later part of the time alone; none where this size was not full then.
    #[serde(default)]
    pub later_per_minute: Option<f64>,
    /// Those of files among them.
    #[serde(default)]
    pub later_file_per_minute: Option<f64>,
    /// Of the pages that a look found accessed, the part that would not have been there.
    pub miss_ratio: f64,
    /// Pages that would have come back in all of `watched_ms`.
    pub refaulted_pages: u64,
    /// How long memory of this size was full, milliseconds: before, nothing would have left it.
    pub watched_ms: u64,
    /// Pages of files that it would not hold, if they can leave. (A manager that runs since before there was this says nothing of it.)
    #[serde(default)]
    pub idle_file_bytes: u64,
}

/// A size to choose.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Recommended {
    /// What to give as `--memory-max`: that memory, what of files stays beside it as others map it, too, the kernel's own, and as much more as is kept free of a limit, so that the program does
    /// not meet it.
    pub limit_bytes: u64,
    /// What to give as `--age-every`, milliseconds: beyond its four generations the engine keeps no order, and it takes
    /// none of the youngest two; so three of them are as long as the oldest page that is held was idle.
    pub age_every_ms: u64,
    /// Resident memory.
    pub bytes: u64,
    /// [`CurvePoint::idle_ms`], milliseconds.
    pub idle_ms: u64,
    /// [`CurvePoint::refaults_per_minute`], pages.
    pub refaults_per_minute: f64,
}

impl Recommended {
    /// The recommendation for a point of the curve: its resident bytes, what stays beside them, and `kernel_bytes` (stacks, page tables), plus
    /// the half percent that reclaim keeps free below a limit. (The story: what others map, too, was taken to leave, and at a size to which 12
    /// refaults a minute were promised there were 3,203.)
    fn of(point: &CurvePoint, curve: &Curve) -> Recommended {
        let stays = curve.shared_bytes.unwrap_or(u64::MAX);
        let stays = point.idle_file_bytes.min(stays);
        let charged = u128::from(point.bytes) + u128::from(stays) + u128::from(curve.kernel_bytes);
        let limit = charged * 1000 / u128::from(HELD_PER_MILLE);
        Recommended {
            limit_bytes: u64::try_from(limit)
                .map_or(u64::MAX, |limit| limit.next_multiple_of(4096)),
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
    /// Pages a minute that so many per mille of the working set are.
    #[must_use]
    pub fn allowed(&self, refaults_per_mille: f64) -> f64 {
        let share = number(self.working_set_bytes) / PAGE * refaults_per_mille / 1000.0;
        share.max(REFAULTS_FLOOR)
    }

    /// How long must be watched until so many per mille can be told from none, milliseconds.
    #[must_use]
    pub fn needed_ms(&self, refaults_per_mille: f64) -> f64 {
        EVENTS * MINUTE_MS / self.allowed(refaults_per_mille)
    }

    /// The smallest size at which, and at all larger ones, no more come back than so many per mille of the working set
    /// in a minute; none while too little time was watched to tell.
    #[must_use]
    pub fn smallest(&self, refaults_per_mille: f64) -> Option<Recommended> {
        let allowed = self.allowed(refaults_per_mille);
        let needed = self.needed_ms(refaults_per_mille);
        let is_told = |point: &&CurvePoint| number(point.watched_ms) >= needed;
        let told = self.points.iter().rev().filter(is_told);
        let fits = |point: &&CurvePoint| point.refaults_per_minute <= allowed;
        let chosen = told.take_while(fits).last();
        chosen.map(|point| Recommended::of(point, self))
    }

    /// The point farthest below the straight line between both ends of the curve; none where nothing is below it.
    #[must_use]
    pub fn bend(&self) -> Option<Recommended> {
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

    /// The same of a target of which so much stays beside what is held: what the kernel has of its group, and what others map, too, as far as these
    /// are known. Sizes are chosen anew.
    #[must_use]
    pub fn beside(mut self, kernel_bytes: Option<u64>, shared_bytes: Option<u64>) -> Curve {
        self.kernel_bytes = kernel_bytes.unwrap_or(0);
        self.shared_bytes = shared_bytes;
        let rule = self.refaults_per_mille;
        self.recommending(rule)
    }

    /// Chooses sizes anew, by this rule.
    #[must_use]
    pub fn recommending(mut self, refaults_per_mille: f64) -> Curve {
        self.refaults_per_mille = refaults_per_mille;
        self.recommended = self.smallest(refaults_per_mille);
        self.knee = self.bend();
        self
    }
}

impl CurvePoint {
    /// A size with what it would have missed, of so many touches.
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

    /// Sizes of 1, 2, ... MiB with so many refaults in ten minutes.
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
        // The story: the limit is held against the group's charge, so what the kernel had of it was missing for pages.
        let with_kernel = curve.clone().recommending(2.0).beside(Some(20 << 20), None);
        let chosen = with_kernel.recommended.expect("as before");
        assert_eq!(chosen.bytes, 3 << 20);
        assert_eq!(
            chosen.limit_bytes,
            (23_u64 << 20) * 1000 / 995 / 4096 * 4096 + 4096
        );
        // What of files stays, as far as the kernel says that others map it; all of it where it says nothing.
        let mut files = curve.clone().recommending(2.0);
        files.points[2].idle_file_bytes = 8 << 20;
        for (shared, mib) in [(Some(0), 3_u64), (Some(5 << 20), 8), (None, 11)] {
            let chosen = files.clone().beside(None, shared).recommended;
            let limit = chosen.expect("as before").limit_bytes;
            assert_eq!(
                limit,
                ((mib << 20) * 1000 / 995).next_multiple_of(4096),
                "{shared:?}"
            );
        }
        let strict = curve.smallest(0.5).expect("25 a minute, and 60 at least");
        assert_eq!(strict.bytes, 5 << 20);
    }

    /// A size that looks good below one that does not is chance.
    #[test]
    fn all_larger_sizes_keep_the_rule_too() {
        let curve = curve(&[500, 90_000, 400]);
        assert_eq!(curve.smallest(2.0).map(|one| one.bytes), Some(3 << 20));
    }

    #[test]
    fn nothing_is_recommended_before_the_rule_can_be_told() {
        let mut curve = curve(&[10, 0]);
        curve
            .points
            .iter_mut()
            .for_each(|point| point.watched_ms = 5_000);
        // 100 a minute: ten of them take six seconds.
        assert_eq!(curve.smallest(2.0), None);
        assert!((curve.needed_ms(2.0) - 6_000.0).abs() < 1e-9);
        assert_eq!(Curve::default().smallest(2.0), None);
    }

    #[test]
    fn the_knee_is_where_the_curve_bends() {
        let bent = curve(&[10_000, 5_000, 300, 200, 100, 0]);
        assert_eq!(bent.bend().map(|one| one.bytes), Some(3 << 20));
        assert_eq!(curve(&[5, 5, 5]).bend(), None, "flat");
        assert_eq!(curve(&[10, 9, 8, 0]).bend(), None, "a cliff at the end");
    }

    #[test]
    fn rates_are_of_the_time_that_was_watched() {
        let point = CurvePoint::new(4096, 7, (30, 60), 20_000);
        assert!((point.refaults_per_minute - 90.0).abs() < 1e-9);
        assert!((point.miss_ratio - 0.5).abs() < 1e-9);
        let never = CurvePoint::new(4096, 7, (0, 0), 0);
        assert!(never.refaults_per_minute == 0.0 && never.miss_ratio == 0.0);
    }
}
