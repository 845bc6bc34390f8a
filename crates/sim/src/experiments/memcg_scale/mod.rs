//! Measures the cost of finding and reclaiming 1,024 pages, by the number of tenants.
//!
//! Half of the tenants are idle: they have very few pages and touch none. The others have 16 MiB,
//! and the pages taken from them are faulted in again, so each reclaim finds the same state. The
//! memcg LRU stops when it has enough pages; the walk over the hierarchy visits every tenant every
//! time. The walk by heat levels is measured, too, but there are no claims about it.
//!
//! Invariant: the claims are about steps (memcgs visited plus pages scanned), which depend only on
//! the settings; times are only in the timings. Reclaims run one after the other, as in kswapd. For
//! the memcg LRU, a second column has the time with the processor's caches cleared before each
//! reclaim, which depends on the number of tenants that it visits.

mod world;

mod sizes;

mod sweep;

pub use world::{Caches, Cost, World};

use super::Settings;
use crate::outcome::{Cell, Claim, Kind, Outcome, Picture, Series, Table};
use crate::stats::{self, least, number};
use engine::machine::GlobalReclaim;

/// Pages requested in one reclaim.
pub const REQUEST: u64 = 1024;
/// Maximum ratio of the cost with many tenants to the cost with few, from the document.
const FLAT: f64 = 1.3;
const TENANTS: [u32; 3] = [10, 1000, 100_000];
/// Minimum number of tenants of each row, at any scale. With fewer than 32 tenants, one pass of the
/// iterator cannot take 1,024 pages: it makes several passes, so its cost is not proportional to
/// the number of tenants.
const FEWEST: [u32; 3] = [10, 100, 1000];
/// Numbers of reclaims that are averaged: for the memcg LRU, and for the slower walks.
const RECLAIMS: [u32; 2] = [200, 5];

/// One row of the table: a number of tenants, with the cost of each way to choose among them.
struct Row {
    tenants: u32,
    lru: Cost,
    lru_cleared: Cost,
    iterator: Cost,
    heat: Cost,
}

impl Row {
    fn new(tenants: u32, settings: &Settings) -> Self {
        let mut world = World::new(tenants, settings.seed);
        let [nr, few] = RECLAIMS;
        let lru = world.measure(GlobalReclaim::MemcgLru, Caches::AsLeft, nr);
        let lru_cleared = world.measure(GlobalReclaim::MemcgLru, Caches::Cleared, nr);
        let walk = |global| World::new(tenants, settings.seed).measure(global, Caches::AsLeft, few);
        Self {
            tenants,
            lru,
            lru_cleared,
            iterator: walk(GlobalReclaim::Iterator),
            heat: walk(GlobalReclaim::HeatLevel),
        }
    }
}

/// Returns the number of tenants of each row at `scale`.
fn tenants(scale: u32) -> [u32; 3] {
    [0, 1, 2].map(|row| (TENANTS[row] / scale).max(FEWEST[row]))
}

/// Runs the experiment.
pub(super) fn run(settings: &Settings, progress: &mut dyn FnMut(f64)) -> Outcome {
    let scale = u32::try_from(settings.scale).unwrap_or(u32::MAX);
    let mut rows: Vec<Row> = Vec::new();
    let tenants = tenants(scale);
    for n in tenants {
        rows.push(Row::new(n, settings));
        progress(0.7 * f64::from(n) / f64::from(tenants[2]));
    }
    let mut outcome = outcome(&rows);
    let mut rest = |done| progress(0.7 + 0.3 * done);
    sweep::run(scale, settings.seed, &mut outcome, &mut rest);
    outcome
}

fn outcome(rows: &[Row]) -> Outcome {
    Outcome {
        tables: vec![steps(rows)],
        pictures: pictures(rows).into(),
        claims: claims(rows),
        timings: vec![seconds(rows)],
        notes: vec![NOTE.to_owned()],
    }
}

const NOTE: &str = "Where visits are more than 32 of the many tenants, it is idle ones that are met once more, not used-up memcgs. \
    Who has too little for the priority goes to the tail of a random bin, and when met again to the young (memcg-lru.md 4). The first \
    reclaim of all meets everybody. Its first pass, if at priority 12, ages nobody (lru-gen.md 5.5), and meets nine sixteenths \
    of the idle twice: they alone turn young in it, and stand before all others in the bins of the next generation. The first \
    reclaim after it that starts at one of the eight bins visits them there, a 28th of all tenants; the others visit 16. \
    Two reclaims are left out, so some six such are among the 200 that count. From some 450 reclaims on 100,000 tenants show \
    another thing: as nobody ages at priority 12, a memcg that has nothing old left stays at the head of its bin and is visited in vain.";

fn steps(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Cost of reclaiming 1,024 pages",
        &[
            "tenants",
            "memcg LRU visits (memcgs)",
            "of them in vain (memcgs)",
            "most in one reclaim (memcgs)",
            "iterator visits (memcgs)",
            "heat levels visits (memcgs)",
            "memcg LRU looks (pages)",
            "iterator looks (pages)",
            "heat levels looks (pages)",
            "memcg LRU reclaimed (pages taken)",
            "iterator reclaimed (pages taken)",
            "heat levels reclaimed (pages taken)",
        ],
    );
    for row in rows {
        let all = [&row.lru, &row.iterator, &row.heat];
        let mut cells = vec![Cell::Count(u64::from(row.tenants))];
        cells.extend([
            Cell::Figure(row.lru.visited),
            Cell::Figure(row.lru.in_vain),
            Cell::Count(row.lru.most_visited),
            Cell::Figure(row.iterator.visited),
            Cell::Figure(row.heat.visited),
        ]);
        cells.extend(all.map(|cost| Cell::Figure(cost.scanned)));
        cells.extend(all.map(|cost| Cell::Figure(cost.reclaimed)));
        table.row(cells);
    }
    table
}

fn seconds(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Time of reclaiming 1,024 pages",
        &[
            "tenants",
            "memcg LRU (us)",
            "memcg LRU, caches cleared (us)",
            "iterator (us)",
            "heat levels (us)",
        ],
    );
    for row in rows {
        table.row(vec![
            Cell::Count(u64::from(row.tenants)),
            Cell::Figure(row.lru.median_us),
            Cell::Figure(row.lru_cleared.median_us),
            Cell::Figure(row.iterator.median_us),
            Cell::Figure(row.heat.median_us),
        ]);
    }
    table
}

/// Returns pictures of the steps and of the time, for the memcg LRU and the iterator.
fn pictures(rows: &[Row]) -> [Picture; 2] {
    let curve = |name: &str, of: fn(&Row) -> f64| {
        let points = rows.iter().map(|row| (f64::from(row.tenants), of(row)));
        Series::new(name, points)
    };
    let picture = |title: &str, y: &str, series: [Series; 2]| {
        let axes = ["tenants, every second one idle", y];
        Picture::new(title, Kind::Curve, axes, series.into()).log(true, true)
    };
    [
        picture(
            "How many memcgs are visited for 1,024 pages?",
            "memcgs visited by a reclaim",
            [
                curve("memcg LRU", |row| row.lru.visited),
                curve("hierarchy iterator", |row| row.iterator.visited),
            ],
        ),
        picture(
            "How long does a reclaim of 1,024 pages take?",
            "time (us)",
            [
                curve("memcg LRU", |row| row.lru.median_us),
                curve("hierarchy iterator", |row| row.iterator.median_us),
            ],
        )
        .timed(),
    ]
}

fn claims(rows: &[Row]) -> Vec<Claim> {
    let [.., fewer, most] = rows else {
        return Vec::new();
    };
    let all: Vec<f64> = rows.iter().map(|row| row.lru.steps()).collect();
    let spread = stats::most(&all) / least(&all);
    let visits = rows.iter().map(|row| row.lru.visited).fold(0.0, f64::max);
    let growth = number(u64::from(most.tenants)) / number(u64::from(fewer.tenants));
    let iterator = most.iterator.steps() / fewer.iterator.steps();
    vec![
        Claim::ours(
            format!("memcg LRU: most steps / fewest, over all numbers of tenants <= {FLAT}"),
            spread,
            spread <= FLAT,
        ),
        Claim::ours(
            format!(
                "memcg LRU: visits (memcgs) at most {:.0}, twice what is enough at 64 pages each",
                2.0 * sweep::FEWEST
            ),
            visits,
            visits <= 2.0 * sweep::FEWEST,
        ),
        Claim::ours(
            "iterator: visits for each tenant, at least 1".to_owned(),
            most.iterator.visited / number(u64::from(most.tenants)),
            most.iterator.visited >= number(u64::from(most.tenants)),
        ),
        Claim::ours(
            format!(
                "iterator: {} tenants instead of {} cost {growth:.0} times the steps, +- a quarter",
                most.tenants, fewer.tenants
            ),
            iterator,
            (iterator / growth - 1.0).abs() <= 0.25,
        ),
    ]
}

#[cfg(test)]
mod tests;
