//! Figures of all tenants over time, for the dashboard.
//!
//! Invariant: the history takes no more than [`BYTES_MAX`] in a file, and little more in memory. If
//! it would, the oldest data of the tier that takes most bytes is dropped. Times without a manager
//! have no data. A removed tenant stays until the last column with its data is dropped.
//!
//! Floors: `row`; `names`, `tier`, `actions`; here; `file`.

mod actions;
mod names;
mod row;

mod tier;

pub(super) mod file;

use std::collections::{BTreeMap, BTreeSet};

use engine::units::PAGE_SIZE;
use host::manage::tenants::figures::TenantFigures;
use pictures::{BINS, CLASSES, Clock, Moment, Track, class_sums};

use super::snapshot::{Action, Snapshot, name_of};
use actions::Actions;
use names::Names;
pub(super) use names::cut;
use row::{AGES, FIELDS, HAS_WAITED, REFAULTS, Row, STEALS, SWAPPED, UNKNOWN, WAITED_US};
use tier::Tier;

/// Most bytes of the whole history.
pub(super) const BYTES_MAX: usize = 16 << 20;
/// Most tenants of a snapshot that get a history; those nearest to the root are preferred.
const TENANTS_MAX: usize = 5_000;
/// Most bytes of names while the history is full; if there are more, the names of tenants without
/// data are found and dropped.
const NAMES_MAX: usize = BYTES_MAX / 8;

/// The time span that the dashboard shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Range {
    Hour,
    Day,
    Week,
}

impl Range {
    pub(super) const ALL: [Range; 3] = [Range::Hour, Range::Day, Range::Week];

    /// Returns the span's name in a query.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Range::Hour => "hour",
            Range::Day => "day",
            Range::Week => "week",
        }
    }

    /// Returns the width of a column in milliseconds, and the number of columns.
    const fn shape(self) -> (u64, usize) {
        match self {
            Range::Hour => (15_000, 240),
            Range::Day => (300_000, 288),
            Range::Week => (1_800_000, 336),
        }
    }
}

/// Event counters of a tenant in the last snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counted {
    refaults: [u64; 2],
    steals: [u64; 3],
    waited_us: Option<u64>,
}

/// The history of all tenants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct History {
    tiers: [Tier; 3],
    names: Names,
    actions: Actions,
    /// Event counters at the last snapshot, by the number of the tenant's name; they start at 0
    /// with the process.
    counted: BTreeMap<u32, Counted>,
    last_ms: Option<u64>,
}

impl Default for History {
    fn default() -> History {
        let tier = |range: Range| Tier::new(range.shape().0, range.shape().1);
        History {
            tiers: Range::ALL.map(tier),
            names: Names::default(),
            actions: Actions::default(),
            counted: BTreeMap::new(),
            last_ms: None,
        }
    }
}

/// Bytes by age class at each of several times; `None` at a time without data.
pub(super) type Strip = Vec<Option<[u64; CLASSES]>>;

/// Recent events of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Recent {
    /// Refaulted pages a minute; `None` if unknown.
    pub(super) back: Option<u64>,
    /// The share of the time in which a process of the tenant waited for memory, in hundredths of a
    /// percent; `None` if unknown.
    pub(super) waited: Option<u32>,
}

impl History {
    /// Adds a snapshot.
    pub(super) fn push(&mut self, snapshot: &Snapshot) {
        let covered_ms = self
            .last_ms
            .map_or(0, |last| snapshot.at_ms.saturating_sub(last));
        self.last_ms = Some(snapshot.at_ms);
        let mut rows = BTreeMap::new();
        let mut counted = BTreeMap::new();
        for figures in snapshot.figures.tenants.iter().take(TENANTS_MAX) {
            let number = self.names.number_of(&name_of(&figures.path));
            // The fourth count, of pages that the kernel reclaimed on its own, has no figure in a
            // row.
            let [kswapd, direct, proactive, _] = figures.steals.map(|(_, count)| count);
            let now = Counted {
                refaults: figures.refaults,
                steals: [kswapd, direct, proactive],
                waited_us: figures.pressure.map(|pressure| pressure.some.total_us),
            };
            rows.insert(number, row_of(figures, self.counted.get(&number), &now));
            counted.insert(number, now);
        }
        self.counted = counted;
        for tier in &mut self.tiers {
            tier.push(snapshot.at_ms, covered_ms, &rows);
        }
        self.actions.extend(&snapshot.actions);
        self.fit();
    }

    /// Returns the bytes that the history takes.
    pub(super) fn bytes(&self) -> usize {
        let tiers: usize = self.tiers.iter().map(Tier::bytes).sum();
        tiers + self.names.bytes() + self.actions.bytes()
    }

    /// Drops the oldest data until the history takes at most [`BYTES_MAX`].
    fn fit(&mut self) {
        if self.bytes() > BYTES_MAX && self.names.bytes() > NAMES_MAX {
            self.forget_names();
        }
        while self.bytes() > BYTES_MAX {
            let largest = self.tiers.iter_mut().max_by_key(|tier| tier.bytes());
            if !largest.is_some_and(Tier::drop_oldest) {
                return;
            }
        }
    }

    /// Drops names that no row has.
    pub(super) fn forget_names(&mut self) {
        let mut used: BTreeSet<u32> = self.counted.keys().copied().collect();
        for tier in &self.tiers {
            tier.names(&mut |name| {
                used.insert(name);
            });
        }
        self.names.retain(&used);
    }

    /// The actions, the newest last.
    pub(super) fn actions(&self) -> impl DoubleEndedIterator<Item = &Action> {
        self.actions.all()
    }

    /// Whether there is data of a tenant with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.find(name).is_some()
    }

    /// Returns one tenant's figures in the time span `range` that ends at `now_ms`.
    pub(super) fn track(&self, range: Range, name: &str, now_ms: u64) -> Track {
        let (step_ms, length) = range.shape();
        let mut columns = vec![None; length];
        if let Some(wanted) = self.names.find(name) {
            self.tier(range).visit(now_ms, |seen, row| {
                if seen.name == wanted && columns[seen.place].is_none() {
                    columns[seen.place] = Some(moment(row, seen.covered_ms));
                }
            });
        }
        let first =
            (now_ms / step_ms).saturating_sub(u64::try_from(length).unwrap_or(u64::MAX) - 1);
        Track {
            from_ms: first * step_ms,
            step_ms,
            columns,
            clock: Clock::Ago,
        }
    }

    /// Returns the figures of each tenant in the span `range` that ends now, at `places` times.
    pub(super) fn strips(&self, range: Range, places: usize, now_ms: u64) -> BTreeMap<&str, Strip> {
        let (_, length) = range.shape();
        let mut by_number: BTreeMap<u32, Strip> = BTreeMap::new();
        self.tier(range).visit(now_ms, |seen, row| {
            let new = || vec![None; places];
            let strip = by_number.entry(seen.name).or_insert_with(new);
            // If several columns fall on the same time, the newest counts.
            let place = &mut strip[seen.place * places / length];
            if seen.is_own || place.is_none() {
                *place = Some(class_sums(&ages(row)));
            }
        });
        self.named(by_number)
    }

    /// Returns the events of each tenant in the last minute for which there is data.
    pub(super) fn recent(&self, now_ms: u64) -> BTreeMap<&str, Recent> {
        const COLUMNS: usize = 4;
        let tier = self.tier(Range::Hour);
        let mut newest = 0;
        tier.visit(now_ms, |seen, _| newest = newest.max(seen.place));
        let mut sums: BTreeMap<u32, (Row, u64)> = BTreeMap::new();
        tier.visit(now_ms, |seen, row| {
            if seen.is_own && seen.place + COLUMNS > newest {
                let (sum, covered) = sums.entry(seen.name).or_default();
                let both = sum.0.iter_mut().zip(row.0);
                both.for_each(|(sum, value)| *sum = sum.saturating_add(value));
                *covered = covered.saturating_add(seen.covered_ms);
            }
        });
        let recent = |(row, covered_ms): (Row, u64)| {
            let moment = moment(&row, covered_ms);
            Recent {
                back: moment.back,
                waited: moment.waited,
            }
        };
        self.named(sums.into_iter().map(|(number, sum)| (number, recent(sum))))
    }

    /// Replaces the numbers of names by the names.
    fn named<T>(&self, all: impl IntoIterator<Item = (u32, T)>) -> BTreeMap<&str, T> {
        let named = |(number, one)| Some((self.names.get(number)?, one));
        all.into_iter().filter_map(named).collect()
    }

    fn tier(&self, range: Range) -> &Tier {
        &self.tiers[match range {
            Range::Hour => 0,
            Range::Day => 1,
            Range::Week => 2,
        }]
    }
}

/// Returns a row of current sizes, and of the events since `before`: all events if the tenant is
/// new or its counters have restarted.
fn row_of(figures: &TenantFigures, before: Option<&Counted>, now: &Counted) -> Row {
    let mut row = Row([0; FIELDS]);
    for node in &figures.nodes {
        for ty in 0..2 {
            for (pages, bytes) in row.0[AGES].iter_mut().zip(node.ages[ty]) {
                *pages += bytes / PAGE_SIZE;
            }
            row.0[UNKNOWN] += node.unknown[ty] / PAGE_SIZE;
        }
    }
    row.0[SWAPPED] = figures.swapped / PAGE_SIZE;
    // Without an earlier snapshot it is unknown in which time the events happened.
    let Some(before) = before else {
        return row;
    };
    let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
    for (at, (now, before)) in REFAULTS
        .into_iter()
        .zip(now.refaults.into_iter().zip(before.refaults))
    {
        row.0[at] = since(now, before);
    }
    for (at, (now, before)) in STEALS
        .into_iter()
        .zip(now.steals.into_iter().zip(before.steals))
    {
        row.0[at] = since(now, before);
    }
    if let (Some(now), Some(before)) = (now.waited_us, before.waited_us) {
        row.0[HAS_WAITED] = 1;
        row.0[WAITED_US] = since(now, before);
    }
    row
}

fn ages(row: &Row) -> [u64; BINS] {
    let mut ages = [0; BINS];
    for (bytes, pages) in ages.iter_mut().zip(&row.0[AGES]) {
        *bytes = pages.saturating_mul(PAGE_SIZE);
    }
    ages
}

/// Converts a row, whose events cover `covered_ms`, to the figures that are drawn.
fn moment(row: &Row, covered_ms: u64) -> Moment {
    let back = REFAULTS
        .iter()
        .fold(0u64, |sum, at| sum.saturating_add(row.0[*at]));
    let per = |events: u64, times: u64| {
        let rate = (u128::from(events) * u128::from(times)).checked_div(u128::from(covered_ms))?;
        u64::try_from(rate).ok()
    };
    // The share in hundredths of a percent is `10 * microseconds / milliseconds`.
    let waited = per(row.0[WAITED_US], 10).map(|share| share.min(10_000));
    Moment {
        ages: ages(row),
        unknown: row.0[UNKNOWN].saturating_mul(PAGE_SIZE),
        swapped: row.0[SWAPPED].saturating_mul(PAGE_SIZE),
        back: per(back, 60_000),
        waited: waited
            .filter(|_| row.0[HAS_WAITED] > 0)
            .and_then(|share| u32::try_from(share).ok()),
    }
}

#[cfg(test)]
mod tests;
