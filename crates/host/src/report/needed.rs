//! How much memory a program needs: one number of bytes, with its cost, its confidence, and the
//! limits to set.
//!
//! Invariant: there is always a number, between the memory in use and the resident memory. For
//! sizes above the largest of the curve nothing was observed, so refaults are assumed to fall
//! linearly to zero at the resident size. A number found in that way has low confidence.

use serde::{Deserialize, Serialize};

use super::Price;
use super::curve::{Curve, CurvePoint};

/// Default budget: percent of its time that a program may wait for refaults.
pub const COST_PERCENT: f64 = 0.1;
const MINUTE_US: f64 = 60e6;
/// Watched time, in milliseconds, below which confidence is low.
const EARLY_MS: u64 = 60_000;
/// Watched time, in milliseconds, from which confidence may be high, if nothing else lowers it.
const LONG_MS: u64 = 270_000;
/// Two sizes agree if they differ by at most this part of the larger one, or by at most
/// [`EQUAL_BYTES`] bytes.
const EQUAL_PART: f64 = 0.15;
/// For safety, the needed size is raised by at most 1/16 of itself, so that even at the upper bound
/// of refaults it costs at most twice the budget.
const SAFETY_PART: u64 = 16;
/// Two sizes always agree if they differ by at most this number of bytes (2 MiB).
const EQUAL_BYTES: f64 = 2097152.0;

/// How much refaults may slow a program down.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Budget {
    /// Percent of its time that the program may wait for refaults.
    Cost(f64),
    /// Refaults per minute, in per mille of the pages of the working set; at least
    /// [`super::REFAULTS_FLOOR`] are allowed.
    Refaults(f64),
}

/// How far a needed size can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The needed size may still change much.
    #[default]
    Low,
    /// The needed size may still change.
    Medium,
    /// The needed size has been the same for some time.
    High,
}

impl Confidence {
    /// Returns `low`, `medium` or `high`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }
}

/// How much memory a program needs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Needed {
    /// Resident memory that the program needs to keep the budget.
    pub bytes: u64,
    /// Lower bound of `bytes`, by the lower bound of refaults.
    pub low_bytes: u64,
    /// Upper bound of `bytes`, by the upper bound of refaults.
    pub high_bytes: u64,
    /// Resident memory now. (Not named `resident_bytes`: a script that searches the JSON text for
    /// the report's field of that name would find this one, too.)
    pub now_bytes: u64,
    /// Percent of its time that the program would wait for refaults with `bytes` of memory.
    pub cost_percent: f64,
    /// Refaults per minute with `bytes` of memory, pages.
    pub refaults_per_minute: f64,
    /// How far `bytes` can be trusted.
    pub confidence: Confidence,
    /// Reasons for the confidence; each is a clause that says what was observed.
    pub why: Vec<String>,
    /// Time after which `bytes` may have changed and should be read again, milliseconds.
    pub look_again_ms: u64,
    /// Time for which the program was watched, milliseconds.
    pub watched_ms: u64,
    /// Price of a refault, with which the cost was computed.
    pub price: Price,
    /// Limits that suit the needed size.
    pub suggest: Suggestion,
}

/// Suggested limits of a control group, and the amounts that they include besides `Needed::bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Suggestion {
    /// Value for `memory.high` or systemd's `MemoryHigh=`.
    pub memory_high_bytes: u64,
    /// Value for `memory.max` or systemd's `MemoryMax=`.
    pub memory_max_bytes: u64,
    /// Kernel memory of the group: page tables, stacks, slab. An estimate if the program has no
    /// group of its own.
    pub kernel_bytes: u64,
    /// File pages that stay resident as other processes map them, too.
    pub shared_bytes: u64,
    /// Unmapped page cache that was accessed more than once (the kernel's active list). Page tables
    /// do not show its ages, so all of this page cache is included.
    pub cache_bytes: u64,
    /// Growth of the needed size in the later part of the watched time.
    pub growth_bytes: u64,
}

#[expect(clippy::cast_precision_loss, reason = "sizes and times below 2^53")]
const fn number(n: u64) -> f64 {
    n as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are at least 0 and below 2^53"
)]
fn truncated(bytes: f64) -> u64 {
    bytes.max(0.0) as u64
}

/// Sizes of a program that its curve does not contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Part of `resident_bytes` that has an unknown age.
    pub unknown_bytes: u64,
}

/// Refaults per minute at one point of the curve: of all pages, then of file pages among them.
type Rates = (f64, f64);

/// A refault curve with prices of refaults and a budget for them.
struct PricedCurve<'a> {
    curve: &'a Curve,
    price: &'a Price,
    budget: Budget,
}

impl PricedCurve<'_> {
    /// Returns the part of the program's time that these refaults cost, in percent.
    fn percent(&self, (all, files): Rates) -> f64 {
        let us = (all - files).max(0.0) * self.price.anon_us + files * self.price.file_us;
        100.0 * us / MINUTE_US
    }

    /// Returns how much of the budget these refaults spend, in the unit of
    /// [`PricedCurve::allowed`]: percent of time, or refaults per minute.
    fn spent(&self, rates: Rates) -> f64 {
        match self.budget {
            Budget::Cost(_) => self.percent(rates),
            Budget::Refaults(_) => rates.0,
        }
    }

    /// Returns the budget: percent of time, or refaults per minute.
    fn allowed(&self) -> f64 {
        match self.budget {
            Budget::Cost(percent) => percent,
            Budget::Refaults(per_mille) => self.curve.allowed(per_mille),
        }
    }

    /// Returns the smallest size that spends at most `allowed`, with its point. The point is `None`
    /// if the size is beyond the curve. The result is `None` if `of` returns rates for no point.
    fn smallest(
        &self,
        resident: u64,
        allowed: f64,
        of: impl Fn(&CurvePoint) -> Option<Rates>,
    ) -> Option<(u64, Option<&CurvePoint>)> {
        let reported = self.curve.points.iter();
        let mut reported = reported.filter_map(|point| Some((point, self.spent(of(point)?))));
        let mut last = None;
        for (point, spent) in reported.by_ref() {
            if spent <= allowed {
                return Some((point.bytes, Some(point)));
            }
            last = Some((point.bytes, spent));
        }
        let (bytes, spent) = last?;
        let rest = number(resident.saturating_sub(bytes));
        Some((bytes + truncated(rest * (1.0 - allowed / spent)), None))
    }

    /// Returns whether the curve's last point spends more than twice the budget. If so, it is
    /// unknown at which larger size the cost falls: for a program that loops over its memory, the
    /// cost falls only when all of the memory is resident.
    fn may_be_a_cliff(&self) -> bool {
        let last = self.curve.points.last().and_then(likely_rates);
        last.is_some_and(|last| self.spent(last) > 2.0 * self.allowed())
    }

    /// Returns the refaults for a needed size beyond the curve: so many that they spend the whole
    /// budget, or none if all memory must stay resident.
    fn beyond(&self) -> Rates {
        let last = self.curve.points.last().and_then(likely_rates);
        let Some(last) = last.filter(|_| !self.may_be_a_cliff()) else {
            return (0.0, 0.0);
        };
        let part = (self.allowed() / self.spent(last).max(f64::MIN_POSITIVE)).min(1.0);
        (last.0 * part, last.1 * part)
    }
}

/// Returns the likely rates of a point: the observed ones plus one refault in the watched time.
/// `None` if no time was watched.
fn likely_rates(point: &CurvePoint) -> Option<Rates> {
    let one_more = match point.watched_ms {
        0 => return None,
        watched_ms => 60_000.0 / number(watched_ms),
    };
    let all = point.refaults_per_minute;
    let files = point.file_refaults_per_minute;
    let share = if all > 0.0 { files / all } else { 0.0 };
    Some((all + one_more, files + one_more * share))
}

/// Returns by how many refaults per minute chance may change a rate: 1.64 standard deviations. In
/// one of twenty cases the true rate is higher by more than that.
fn chance_margin(per_minute: f64, watched_ms: u64) -> f64 {
    let minutes = number(watched_ms.max(1)) / 60_000.0;
    1.64 * (per_minute / minutes).sqrt()
}

/// Returns the likely rates of a point, scaled so that the rate of all pages is `to` per minute.
fn scaled(point: &CurvePoint, to: f64) -> Option<Rates> {
    let (all, files) = likely_rates(point)?;
    Some((to, files * to / all))
}

/// Returns the lower bound of a point's rates, lowered by what chance may have added.
fn at_least(point: &CurvePoint) -> Option<Rates> {
    let least = point.at_least_per_minute;
    scaled(
        point,
        (least - chance_margin(least, point.watched_ms)).max(0.0),
    )
}

/// Returns the upper bound of a point's rates, raised by what chance may have hidden.
fn at_most(point: &CurvePoint) -> Option<Rates> {
    let most = point.at_most_per_minute.max(likely_rates(point)?.0);
    scaled(point, most + chance_margin(most, point.watched_ms))
}

/// Returns a point's rates in the later part of the watched time; `None` if they are unknown.
fn in_later_part(point: &CurvePoint) -> Option<Rates> {
    Some((point.later_per_minute?, point.later_file_per_minute?))
}

/// Returns whether two sizes in bytes differ by too little to matter ([`EQUAL_PART`],
/// [`EQUAL_BYTES`]).
fn nearly_equal(one: u64, other: u64) -> bool {
    let larger = number(one.max(other));
    number(one.abs_diff(other)) <= (EQUAL_PART * larger).max(EQUAL_BYTES)
}

impl Needed {
    /// Returns how much memory the program with this curve needs; `None` before the second scan,
    /// when nothing is known.
    #[must_use]
    pub fn of(curve: &Curve, beside: Beside, budget: Budget, price: &Price) -> Option<Needed> {
        let priced = PricedCurve {
            curve,
            price,
            budget,
        };
        let (resident, allowed) = (beside.resident_bytes, priced.allowed());
        let (bytes, point) = priced
            .smallest(resident, allowed, likely_rates)
            .filter(|(_, point)| point.is_some() || !priced.may_be_a_cliff())
            .unwrap_or((resident, None));
        let bound = |of: fn(&CurvePoint) -> Option<Rates>, allowed: f64| {
            let found = priced.smallest(resident, allowed, of);
            found.map_or(resident, |(bytes, _)| bytes)
        };
        // The time of an access is known only to within an interval, and so is the size of a loop.
        // With slightly less memory a loop misses all its pages. So at the upper bound of refaults
        // the size must cost at most twice the budget.
        let safe = bound(at_most, 2.0 * allowed).min(bytes + bytes / SAFETY_PART);
        let bytes = bytes.max(safe);
        let low = bound(at_least, allowed).min(bytes);
        let high = bound(at_most, allowed).max(bytes);
        let point = point.map(|point| {
            let above = curve.points.iter().find(|above| above.bytes >= bytes);
            above.unwrap_or(point)
        });
        let late = priced
            .smallest(resident, allowed, in_later_part)
            .map(|(late, _)| late);
        let spent = match point {
            Some(point) => likely_rates(point).unwrap_or_default(),
            None => priced.beyond(),
        };
        let mut needed = Needed {
            bytes: bytes.min(resident.max(1)),
            low_bytes: low,
            high_bytes: high.min(resident.max(bytes)),
            now_bytes: resident,
            cost_percent: priced.percent(spent),
            refaults_per_minute: spent.0,
            watched_ms: curve.watched_ms,
            price: price.clone(),
            ..Needed::default()
        };
        needed.set_confidence(curve, beside, (point, late));
        needed.suggest = Suggestion::of(&needed, curve, point, late);
        (curve.watched_ms > 0).then_some(needed)
    }

    /// Sets the confidence and its reasons. `point`: the curve's point for the needed size, `None`
    /// beyond the curve. `late`: the size needed in the later part of the watched time.
    fn set_confidence(
        &mut self,
        curve: &Curve,
        beside: Beside,
        (point, late): (Option<&CurvePoint>, Option<u64>),
    ) {
        let mut confidence = match curve.watched_ms {
            0..EARLY_MS => Confidence::Low,
            EARLY_MS..LONG_MS => Confidence::Medium,
            _ => Confidence::High,
        };
        self.why = vec![format!("watched {}", engine::Millis(curve.watched_ms))];
        let mut at_most = |bound: Confidence, why: String| {
            confidence = confidence.min(bound);
            self.why.push(why);
        };
        if curve.blind_ms > curve.watched_ms {
            at_most(
                Confidence::Low,
                "too many ages were unknown most of the time".to_owned(),
            );
        }
        if beside.unknown_bytes * 5 > self.bytes {
            let bytes = engine::Bytes(beside.unknown_bytes);
            at_most(
                Confidence::Low,
                format!("{bytes} of unknown age are counted as needed"),
            );
        }
        if curve.points.is_empty() {
            at_most(
                Confidence::Low,
                "too few pages were seen in use for long enough".to_owned(),
            );
        } else if point.is_none() {
            at_most(
                Confidence::Low,
                "pages are still used for the first time, and the order of the others is not known"
                    .to_owned(),
            );
        }
        if let Some(late) = late
            && !nearly_equal(late, self.bytes)
        {
            let late = engine::Bytes(late);
            at_most(Confidence::Medium, format!("recently it needed {late}"));
        }
        if !(nearly_equal(self.low_bytes, self.bytes) && nearly_equal(self.high_bytes, self.bytes))
        {
            let (low, high) = (
                engine::Bytes(self.low_bytes),
                engine::Bytes(self.high_bytes),
            );
            at_most(Confidence::Medium, format!("between {low} and {high}"));
        }
        self.confidence = confidence;
        self.look_again_ms = match confidence {
            Confidence::Low => LONG_MS.saturating_sub(curve.watched_ms).max(EARLY_MS),
            Confidence::Medium => curve.watched_ms.clamp(LONG_MS, 3_600_000),
            Confidence::High => 3_600_000,
        };
    }
}

/// Rounds up to a size that people would set: a multiple of 1 MiB with at most four significant
/// binary digits.
fn rounded_up(bytes: u64) -> u64 {
    let step = (bytes.max(1).next_power_of_two() / 16).max(1 << 20);
    bytes.next_multiple_of(step)
}

impl Suggestion {
    /// Suggests limits (docs/howto/sizing.md). `memory.high` is `1.25 * all + 4 MiB`, rounded up,
    /// and `memory.max` is `1.5 * memory.high`, rounded up. `all` is the sum of: the needed memory
    /// (at low confidence its upper bound), its observed growth, kernel memory, file pages that
    /// stay as other processes map them, and unmapped page cache that was accessed more than once.
    fn of(
        needed: &Needed,
        curve: &Curve,
        point: Option<&CurvePoint>,
        late: Option<u64>,
    ) -> Suggestion {
        let bytes = match needed.confidence {
            Confidence::Low => needed.high_bytes,
            Confidence::Medium | Confidence::High => needed.bytes,
        };
        let growth = late.unwrap_or(bytes).saturating_sub(bytes);
        // Estimates page tables, and the stacks and kernel structures of one or two processes.
        let guess = needed.now_bytes / 256 + (1 << 20);
        let kernel = if curve.kernel_bytes > 0 {
            curve.kernel_bytes
        } else {
            guess
        };
        let files = point.map_or(0, |point| point.idle_file_bytes);
        let shared = files.min(curve.shared_bytes.unwrap_or(files));
        let cache = curve.cache_bytes;
        let all = bytes + growth + kernel + shared + cache;
        let high = rounded_up(all + all / 4 + (4 << 20));
        Suggestion {
            memory_high_bytes: high,
            memory_max_bytes: rounded_up(high + high / 2),
            kernel_bytes: kernel,
            shared_bytes: shared,
            cache_bytes: cache,
            growth_bytes: growth,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn price() -> Price {
        Price {
            anon_us: 10.0,
            file_us: 100.0,
            ..Price::default()
        }
    }

    /// Returns the curve of a program of 229 MiB. Its points at 20, 21, ... MiB have these refaults
    /// per minute.
    fn curve(per_minute: &[f64], watched_ms: u64) -> Curve {
        let point = |(mib, rate): (u64, &f64)| CurvePoint {
            bytes: mib * MIB,
            refaults_per_minute: *rate,
            at_least_per_minute: *rate,
            at_most_per_minute: *rate,
            later_per_minute: Some(*rate),
            later_file_per_minute: Some(0.0),
            watched_ms,
            ..CurvePoint::default()
        };
        Curve {
            watched_ms,
            working_set_bytes: 21 * MIB,
            points: (20..).zip(per_minute).map(point).collect(),
            ..Curve::default()
        }
    }

    /// Regression: page tables do not show unmapped page cache. For nginx with 8,000 files of 16
    /// KiB a limit of 20 MiB was suggested, with which nginx reads 6,000 pages a minute from its
    /// disk again.
    #[test]
    fn suggested_limits_include_unmapped_page_cache_in_use() {
        let alone = curve(&[10.0, 0.0], 300_000);
        let without = needed(&alone, Budget::Cost(0.1));
        let with = needed(&alone.with_cache(Some(40 * MIB)), Budget::Cost(0.1));
        assert_eq!(with.bytes, without.bytes, "it is no page of a page table");
        assert_eq!(with.suggest.cache_bytes, 40 * MIB);
        let more = with.suggest.memory_high_bytes - without.suggest.memory_high_bytes;
        assert!((40 * MIB..64 * MIB).contains(&more), "{more}");
    }

    fn needed(curve: &Curve, budget: Budget) -> Needed {
        let beside = Beside {
            resident_bytes: 229 * MIB,
            unknown_bytes: 0,
        };
        Needed::of(curve, beside, budget, &price()).expect("it was watched")
    }

    /// 0.1% of a minute is 60 ms: the time of 6,000 refaults of 10 us, or of 600 refaults of 100
    /// us.
    #[test]
    fn the_smallest_size_that_keeps_the_budget_is_needed() {
        let curve = curve(&[90_000.0, 7_000.0, 5_000.0, 30.0], 300_000);
        let reported = needed(&curve, Budget::Cost(COST_PERCENT));
        assert_eq!(reported.bytes, 22 * MIB);
        assert!(
            (reported.cost_percent - 0.0833).abs() < 0.001,
            "{reported:?}"
        );
        assert_eq!(reported.confidence, Confidence::High);
        assert_eq!(reported.suggest.memory_high_bytes % MIB, 0);
        assert!((30..40).contains(&(reported.suggest.memory_high_bytes / MIB)));
        // Refaults of file pages cost more than those from swap.
        let mut files = curve.clone();
        for point in &mut files.points {
            point.file_refaults_per_minute = point.refaults_per_minute;
            point.later_file_per_minute = point.later_per_minute;
        }
        assert_eq!(needed(&files, Budget::Cost(COST_PERCENT)).bytes, 23 * MIB);
        // Regression: 34 refaults a minute counted as too many for a working set of 21 MiB.
        assert_eq!(needed(&curve, Budget::Refaults(2.0)).bytes, 23 * MIB);
    }

    /// Regression: a loop over 48 MiB was reported to need 47.9 or 46.8 MiB. With that little
    /// memory it waits for every page.
    #[test]
    fn the_number_costs_twice_the_budget_at_most() {
        let mut cliff = curve(&[900_000.0, 9_000.0, 30.0, 20.0, 10.0], 300_000);
        cliff.points[1].at_most_per_minute = 900_000.0;
        cliff.points[2].at_most_per_minute = 400_000.0;
        let reported = needed(&cliff, Budget::Cost(COST_PERCENT));
        assert_eq!((reported.bytes / MIB, reported.high_bytes / MIB), (23, 23));
        // The size is raised by at most one sixteenth.
        for point in &mut cliff.points[3..] {
            point.at_most_per_minute = 400_000.0;
        }
        let reported = needed(&cliff, Budget::Cost(COST_PERCENT));
        assert_eq!(reported.bytes, 22 * MIB + 22 * MIB / 16);
        // A last point that costs no more than twice the budget does not count as a cliff.
        let mut slow = curve(&[9_000.0, 7_000.0, 5_000.0, 3_000.0], 300_000);
        slow.points[2].at_most_per_minute = 11_000.0;
        assert_eq!(needed(&slow, Budget::Cost(COST_PERCENT)).bytes, 22 * MIB);
    }

    /// Above the curve's last point, refaults are assumed to fall linearly to zero. If the last
    /// point costs more than twice the budget, all resident memory is reported as needed.
    #[test]
    fn there_is_always_a_number() {
        let far = curve(&[90_000.0, 60_000.0], 300_000);
        let reported = needed(&far, Budget::Cost(COST_PERCENT));
        // Regression: a loop over 64 MiB in 32 s was reported to need 63.6 MiB. With that little
        // memory it waits for every page.
        assert_eq!(
            (reported.bytes / MIB, reported.confidence),
            (229, Confidence::Low)
        );
        assert!(reported.cost_percent < 0.01, "{reported:?}");
        let affinity = curve(&[90_000.0, 10_000.0], 300_000);
        let reported = needed(&affinity, Budget::Cost(COST_PERCENT));
        assert_eq!(
            (reported.bytes / MIB, reported.confidence),
            (21 + 208 * 4 / 10, Confidence::Low)
        );
        assert!(
            (reported.cost_percent - COST_PERCENT).abs() < 0.01,
            "{reported:?}"
        );
        let none = needed(&curve(&[], 5_000), Budget::Cost(COST_PERCENT));
        assert_eq!((none.bytes, none.confidence), (229 * MIB, Confidence::Low));
        let idle = needed(&curve(&[0.0], 300_000), Budget::Cost(COST_PERCENT));
        assert_eq!((idle.bytes, idle.confidence), (20 * MIB, Confidence::High));
        let unseen = Needed::of(
            &Curve::default(),
            Beside::default(),
            Budget::Cost(0.1),
            &price(),
        );
        assert_eq!(unseen, None, "nothing was watched");
    }

    #[test]
    fn confidence_says_why() {
        let steady = [9_000.0, 7_000.0, 30.0];
        for (watched_ms, want) in [
            (30_000, Confidence::Low),
            (120_000, Confidence::Medium),
            (300_000, Confidence::High),
        ] {
            let reported = needed(&curve(&steady, watched_ms), Budget::Cost(COST_PERCENT));
            assert_eq!(reported.confidence, want, "{reported:?}");
            assert_eq!(reported.why.len(), 1, "{reported:?}");
        }
        // The program needs more in the later part of the watched time.
        let mut grows = curve(&[9_000.0, 30.0, 20.0, 10.0, 0.0], 300_000);
        grows
            .points
            .iter_mut()
            .for_each(|point| point.later_per_minute = Some(80_000.0));
        let reported = needed(&grows, Budget::Cost(COST_PERCENT));
        assert_eq!(reported.confidence, Confidence::Medium);
        assert!(
            reported.why[1].starts_with("recently it needed 21"),
            "{reported:?}"
        );
        assert!(reported.suggest.growth_bytes > 100 * MIB);
    }

    #[test]
    fn suggestions_are_numbers_that_people_set() {
        for (bytes, want) in [
            (1, 1),
            (MIB, 1),
            (43 * MIB, 44),
            (47 * MIB, 48),
            (600 * MIB, 640),
        ] {
            assert_eq!(rounded_up(bytes), want * MIB, "{bytes}");
        }
    }
}
