//! How much memory a program needs: one number, with what it would cost, how sure it is, and what to set.
//!
//! Invariant: there is always a number between what is in use and what is resident. Beyond the sizes of the curve nobody knows in which order
//! pages are used, so what comes back is taken to fall evenly to nothing at all that is resident; such a number has low confidence.

use serde::{Deserialize, Serialize};

use super::curve::{Curve, CurvePoint};

/// The part of its time that a program may wait for pages to come back, percent.
pub const COST_PERCENT: f64 = 0.1;
const MINUTE_US: f64 = 60e6;
/// Below this nothing is sure.
const EARLY_MS: u64 = 60_000;
/// From this on a number that does not change is.
const LONG_MS: u64 = 270_000;
/// Two sizes agree if they differ by no more than this part of the larger one, or by [`SMALL`].
const AGREE: f64 = 0.15;
/// Where the size that is likely might cost more than twice the budget, the number is higher by up to this part of it.
const SAFE_PART: u64 = 16;
const SMALL: f64 = 2097152.0;

/// What one page costs that comes back, microseconds, and where that is from.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Price {
    /// From swap.
    pub anon_us: f64,
    /// From its file.
    pub file_us: f64,
    /// In words: what the page comes from, and whether that was measured.
    pub anon_from: String,
    /// See `anon_from`.
    pub file_from: String,
}

/// How much may come back.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Budget {
    /// The program waits for so much of its time, percent.
    Cost(f64),
    /// So many tenths of a percent of the working set in a minute; [`super::REFAULTS_FLOOR`] at least.
    Refaults(f64),
}

/// How far a number can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// It may change much.
    #[default]
    Low,
    /// It may change.
    Medium,
    /// It has been the same for some time.
    High,
}

impl Confidence {
    /// `low`, `medium`, `high`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }
}

/// The number.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Needed {
    /// Resident memory that it needs.
    pub bytes: u64,
    /// The number would be no less and no more than these, for all that was seen.
    pub low_bytes: u64,
    /// See `low_bytes`.
    pub high_bytes: u64,
    /// What is resident now. (Not `resident_bytes`: scripts that take the report's first one by its name would find two.)
    pub now_bytes: u64,
    /// What it would wait for pages to come back, percent of its time.
    pub cost_percent: f64,
    /// Pages that would come back in a minute.
    pub refaults_per_minute: f64,
    /// How sure.
    pub confidence: Confidence,
    /// Why no more or no less: each a clause that says what was seen.
    pub why: Vec<String>,
    /// In so long a time it is worth asking again, milliseconds.
    pub look_again_ms: u64,
    /// How long was watched, milliseconds.
    pub watched_ms: u64,
    /// What a page costs.
    pub price: Price,
    /// What to set.
    pub suggest: Suggestion,
}

/// Limits of a control group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Suggestion {
    /// `memory.high`, systemd's `MemoryHigh=`.
    pub memory_high_bytes: u64,
    /// `memory.max`, systemd's `MemoryMax=`.
    pub memory_max_bytes: u64,
    /// What the kernel has of the group besides: page tables, stacks, slab. Where the group is not the program's own it is estimated.
    pub kernel_bytes: u64,
    /// What of files stays in memory since others map it, too.
    pub shared_bytes: u64,
    /// Growth that was seen in the later part of the time.
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
fn whole(bytes: f64) -> u64 {
    bytes.max(0.0) as u64
}

/// What is known of the program beside its curve.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Of these, bytes of unknown age.
    pub unknown_bytes: u64,
}

/// Rates of one point: all pages and those of files, a minute.
type Rates = (f64, f64);

/// A curve with prices: what a size costs.
struct Priced<'a> {
    curve: &'a Curve,
    price: &'a Price,
    budget: Budget,
}

impl Priced<'_> {
    /// Percent of the time that so many pages a minute cost.
    fn percent(&self, (all, files): Rates) -> f64 {
        let us = (all - files).max(0.0) * self.price.anon_us + files * self.price.file_us;
        100.0 * us / MINUTE_US
    }

    /// What is held against [`Priced::allowed`].
    fn spent(&self, rates: Rates) -> f64 {
        match self.budget {
            Budget::Cost(_) => self.percent(rates),
            Budget::Refaults(_) => rates.0,
        }
    }

    fn allowed(&self) -> f64 {
        match self.budget {
            Budget::Cost(percent) => percent,
            Budget::Refaults(per_mille) => self.curve.allowed(per_mille),
        }
    }

    /// The smallest size at which no more is spent than allowed, with its point where it has one; none where nothing is known.
    fn smallest(
        &self,
        resident: u64,
        allowed: f64,
        of: impl Fn(&CurvePoint) -> Option<Rates>,
    ) -> Option<(u64, Option<&CurvePoint>)> {
        let told = self.curve.points.iter();
        let mut told = told.filter_map(|point| Some((point, self.spent(of(point)?))));
        let mut last = None;
        for (point, spent) in told.by_ref() {
            if spent <= allowed {
                return Some((point.bytes, Some(point)));
            }
            last = Some((point.bytes, spent));
        }
        let (bytes, spent) = last?;
        let rest = number(resident.saturating_sub(bytes));
        Some((bytes + whole(rest * (1.0 - allowed / spent)), None))
    }

    /// Whether more than twice what is allowed is spent at the curve's last point. Where above that it falls is not
    /// known: of a program that goes around in a loop it falls at once, where all of it is there.
    fn may_be_a_cliff(&self) -> bool {
        let last = self.curve.points.last().and_then(likely);
        last.is_some_and(|last| self.spent(last) > 2.0 * self.allowed())
    }

    /// What is spent where no point of the curve keeps the budget: all that is allowed, or nothing where all of the
    /// memory stays.
    fn beyond(&self) -> Rates {
        let last = self.curve.points.last().and_then(likely);
        let Some(last) = last.filter(|_| !self.may_be_a_cliff()) else {
            return (0.0, 0.0);
        };
        let part = (self.allowed() / self.spent(last).max(f64::MIN_POSITIVE)).min(1.0);
        (last.0 * part, last.1 * part)
    }
}

/// As was seen, and one more.
fn likely(point: &CurvePoint) -> Option<Rates> {
    let one_more = match point.watched_ms {
        0 => return None,
        watched_ms => 60_000.0 / number(watched_ms),
    };
    let all = point.refaults_per_minute;
    let files = point.file_refaults_per_minute;
    let share = if all > 0.0 { files / all } else { 0.0 };
    Some((all + one_more, files + one_more * share))
}

/// So many a minute, and by how much chance can have made it less or more: one in twenty is outside.
fn by_chance(per_minute: f64, watched_ms: u64) -> f64 {
    let minutes = number(watched_ms.max(1)) / 60_000.0;
    1.64 * (per_minute / minutes).sqrt()
}

fn scaled(point: &CurvePoint, to: f64) -> Option<Rates> {
    let (all, files) = likely(point)?;
    Some((to, files * to / all))
}

fn at_least(point: &CurvePoint) -> Option<Rates> {
    let least = point.at_least_per_minute;
    scaled(point, (least - by_chance(least, point.watched_ms)).max(0.0))
}

fn at_most(point: &CurvePoint) -> Option<Rates> {
    let most = point.at_most_per_minute.max(likely(point)?.0);
    scaled(point, most + by_chance(most, point.watched_ms))
}

fn of_late(point: &CurvePoint) -> Option<Rates> {
    Some((point.later_per_minute?, point.later_file_per_minute?))
}

/// Whether two sizes are the same for all that matters.
fn agree(one: u64, other: u64) -> bool {
    let larger = number(one.max(other));
    number(one.abs_diff(other)) <= (AGREE * larger).max(SMALL)
}

impl Needed {
    /// What a program with this curve needs. None without a curve: before two looks nothing is known.
    #[must_use]
    pub fn of(curve: &Curve, beside: Beside, budget: Budget, price: &Price) -> Option<Needed> {
        let priced = Priced {
            curve,
            price,
            budget,
        };
        let (resident, allowed) = (beside.resident_bytes, priced.allowed());
        let (bytes, point) = priced
            .smallest(resident, allowed, likely)
            .filter(|(_, point)| point.is_some() || !priced.may_be_a_cliff())
            .unwrap_or((resident, None));
        let bound = |of: fn(&CurvePoint) -> Option<Rates>, allowed: f64| {
            let found = priced.smallest(resident, allowed, of);
            found.map_or(resident, |(bytes, _)| bytes)
        };
        // Where a scan finds accesses is known to within its interval. A loop's size is known no better, and a little less
        // than that costs it everything: so the number is one that costs twice the budget at most.
        let safe = bound(at_most, 2.0 * allowed).min(bytes + bytes / SAFE_PART);
        let bytes = bytes.max(safe);
        let low = bound(at_least, allowed).min(bytes);
        let high = bound(at_most, allowed).max(bytes);
        let point = point.map(|point| {
            let above = curve.points.iter().find(|above| above.bytes >= bytes);
            above.unwrap_or(point)
        });
        let late = priced
            .smallest(resident, allowed, of_late)
            .map(|(late, _)| late);
        let spent = match point {
            Some(point) => likely(point).unwrap_or_default(),
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
        needed.judge(curve, beside, (point, late));
        needed.suggest = Suggestion::of(&needed, curve, point, late);
        (curve.watched_ms > 0).then_some(needed)
    }

    /// How sure the number is, and why.
    fn judge(
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
                "most of the time too many ages were unknown".to_owned(),
            );
        }
        if beside.unknown_bytes * 5 > self.bytes {
            let bytes = engine::Bytes(beside.unknown_bytes);
            at_most(
                Confidence::Low,
                format!("{bytes} of unknown age are taken to be needed"),
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
                "pages are still used for the first time; in which order the others are, nobody knows".to_owned(),
            );
        }
        if let Some(late) = late
            && !agree(late, self.bytes)
        {
            let late = engine::Bytes(late);
            at_most(Confidence::Medium, format!("of late it needed {late}"));
        }
        if !(agree(self.low_bytes, self.bytes) && agree(self.high_bytes, self.bytes)) {
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

/// A number that people set: three binary digits, rounded up; whole MiB at least.
fn rounded_up(bytes: u64) -> u64 {
    let step = (bytes.max(1).next_power_of_two() / 16).max(1 << 20);
    bytes.next_multiple_of(step)
}

impl Suggestion {
    /// `memory.high`: what is needed (at low confidence what may be), what stays beside it, the kernel's part and the growth that was
    /// seen, a quarter more, and 4 MiB; `memory.max` half of that more. docs/howto/sizing.md.
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
        // Tables, and stacks and structures of a process or two.
        let guess = needed.now_bytes / 256 + (1 << 20);
        let kernel = if curve.kernel_bytes > 0 {
            curve.kernel_bytes
        } else {
            guess
        };
        let files = point.map_or(0, |point| point.idle_file_bytes);
        let shared = files.min(curve.shared_bytes.unwrap_or(files));
        let all = bytes + growth + kernel + shared;
        let high = rounded_up(all + all / 4 + (4 << 20));
        Suggestion {
            memory_high_bytes: high,
            memory_max_bytes: rounded_up(high + high / 2),
            kernel_bytes: kernel,
            shared_bytes: shared,
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

    /// Points at 20, 21, ... MiB with so many pages a minute, of a program of 229 MiB.
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

    fn needed(curve: &Curve, budget: Budget) -> Needed {
        let beside = Beside {
            resident_bytes: 229 * MIB,
            unknown_bytes: 0,
        };
        Needed::of(curve, beside, budget, &price()).expect("it was watched")
    }

    /// 0.1% of a minute are 60 ms: 6,000 pages of 10 us, or 600 of 100 us.
    #[test]
    fn the_smallest_size_that_keeps_the_budget_is_needed() {
        let curve = curve(&[90_000.0, 7_000.0, 5_000.0, 30.0], 300_000);
        let told = needed(&curve, Budget::Cost(COST_PERCENT));
        assert_eq!(told.bytes, 22 * MIB);
        assert!((told.cost_percent - 0.0833).abs() < 0.001, "{told:?}");
        assert_eq!(told.confidence, Confidence::High);
        assert_eq!(told.suggest.memory_high_bytes % MIB, 0);
        assert!((30..40).contains(&(told.suggest.memory_high_bytes / MIB)));
        // Those of files are dearer.
        let mut files = curve.clone();
        for point in &mut files.points {
            point.file_refaults_per_minute = point.refaults_per_minute;
            point.later_file_per_minute = point.later_per_minute;
        }
        assert_eq!(needed(&files, Budget::Cost(COST_PERCENT)).bytes, 23 * MIB);
        // Regression: 34 pages a minute were too many for a working set of 21 MiB.
        assert_eq!(needed(&curve, Budget::Refaults(2.0)).bytes, 23 * MIB);
    }

    /// Regression: a loop through 48 MiB was said to need 47.9 and 46.8 MiB, with which it waits for every page.
    #[test]
    fn the_number_costs_twice_the_budget_at_most() {
        let mut cliff = curve(&[900_000.0, 9_000.0, 30.0, 20.0, 10.0], 300_000);
        cliff.points[1].at_most_per_minute = 900_000.0;
        cliff.points[2].at_most_per_minute = 400_000.0;
        let told = needed(&cliff, Budget::Cost(COST_PERCENT));
        assert_eq!((told.bytes / MIB, told.high_bytes / MIB), (23, 23));
        // Not what would be another number altogether.
        for point in &mut cliff.points[3..] {
            point.at_most_per_minute = 400_000.0;
        }
        let told = needed(&cliff, Budget::Cost(COST_PERCENT));
        assert_eq!(told.bytes, 22 * MIB + 22 * MIB / 16);
        // Twice the budget is no cliff.
        let mut slow = curve(&[9_000.0, 7_000.0, 5_000.0, 3_000.0], 300_000);
        slow.points[2].at_most_per_minute = 11_000.0;
        assert_eq!(needed(&slow, Budget::Cost(COST_PERCENT)).bytes, 22 * MIB);
    }

    /// Above the curve's last point, refaults are assumed to fall linearly to zero. If they cost more than twice the
    /// budget at that point, all resident memory is needed.
    #[test]
    fn there_is_always_a_number() {
        let far = curve(&[90_000.0, 60_000.0], 300_000);
        let told = needed(&far, Budget::Cost(COST_PERCENT));
        // Regression: a loop through 64 MiB in 32 s was said to need 63.6 MiB, with which it waits for every page.
        assert_eq!((told.bytes / MIB, told.confidence), (229, Confidence::Low));
        assert!(told.cost_percent < 0.01, "{told:?}");
        let near = curve(&[90_000.0, 10_000.0], 300_000);
        let told = needed(&near, Budget::Cost(COST_PERCENT));
        assert_eq!(
            (told.bytes / MIB, told.confidence),
            (21 + 208 * 4 / 10, Confidence::Low)
        );
        assert!((told.cost_percent - COST_PERCENT).abs() < 0.01, "{told:?}");
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
            let told = needed(&curve(&steady, watched_ms), Budget::Cost(COST_PERCENT));
            assert_eq!(told.confidence, want, "{told:?}");
            assert_eq!(told.why.len(), 1, "{told:?}");
        }
        // It needs more of late.
        let mut grows = curve(&[9_000.0, 30.0, 20.0, 10.0, 0.0], 300_000);
        grows
            .points
            .iter_mut()
            .for_each(|point| point.later_per_minute = Some(80_000.0));
        let told = needed(&grows, Budget::Cost(COST_PERCENT));
        assert_eq!(told.confidence, Confidence::Medium);
        assert!(told.why[1].starts_with("of late it needed 21"), "{told:?}");
        assert!(told.suggest.growth_bytes > 100 * MIB);
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
