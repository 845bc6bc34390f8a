//! Measures the largest error of readers that flush only if enough has changed.
//! spec: rstat.md 6.1.
//!
//! Invariant: the exact values are computed outside the engine, only from the updates.

use crate::outcome::{By, Cell, Claim, Kind, Outcome, Picture, Series, Table};
use crate::rng::Rng;
use crate::stats::number;
use ::engine::rstat::{Flusher, GroupId, Rstat};

const READS: u64 = 20_000;
const WORKERS: [u32; 3] = [1, 4, 32];

/// Results for one number of workers.
struct Row {
    workers: u32,
    /// Number of flushes by a reader of a parent that has one busy group.
    flushes: u64,
    /// Largest error of the counter of that parent, in pages.
    worst: u64,
    /// Maximum number of pages by which a counter may be wrong, by the rule.
    bound: u64,
    /// Largest error of the counter of a parent that has ten busy groups, in pages.
    parents: u64,
}

/// Adds the table, the picture and the claim to `outcome`.
pub(super) fn run(seed: u64, outcome: &mut Outcome) {
    let rows = WORKERS.map(|workers| {
        let (flushes, worst) = worst_error(workers, 1, seed);
        Row {
            workers,
            flushes,
            worst,
            bound: 2 * 64 * u64::from(workers),
            parents: worst_error(workers, 10, seed).1,
        }
    });
    let share = rows.iter().map(|row| number(row.worst) / number(row.bound));
    let share = share.fold(0.0, f64::max);
    outcome.tables.push(table(&rows));
    outcome.pictures.push(picture(&rows));
    outcome.claims.push(Claim {
        what: "a reader is wrong by at most 128 pages a worker (share of that)".to_owned(),
        document: None,
        ours: share,
        holds: share <= 1.0,
    });
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Readers behind the flush threshold",
        &[
            "workers",
            "reads",
            "flushes by readers",
            "worst error (pages)",
            "bound (pages)",
            "worst error in the parent of ten (pages)",
        ],
    );
    for row in rows {
        let workers = u64::from(row.workers);
        let cells = [
            workers,
            READS,
            row.flushes,
            row.worst,
            row.bound,
            row.parents,
        ];
        table.row(cells.map(Cell::Count).to_vec());
    }
    table
}

fn picture(rows: &[Row]) -> Picture {
    let curve = |name: &str, of: fn(&Row) -> u64| {
        let point = |row: &Row| (f64::from(row.workers), number(of(row)));
        Series::new(name, rows.iter().map(point))
    };
    Picture::new(
        "How wrong is a reader at worst that flushes only when enough has changed?",
        Kind::Curve,
        ["workers", "pages that the reader missed"],
        vec![
            curve("a group of its own", |row| row.worst),
            curve("the parent of ten busy groups", |row| row.parents),
            curve("bound: 128 pages a worker", |row| row.bound).by(By::Rule),
        ],
    )
    .log(true, true)
}

/// Returns the number of flushes by a reader of the parent of `children` groups, and the reader's
/// largest error in pages.
fn worst_error(workers: u32, children: u32, seed: u64) -> (u64, u64) {
    let mut rstat = Rstat::new(1, workers as usize);
    let parent = rstat.create(GroupId::ROOT);
    let ids: Vec<GroupId> = (0..children).map(|_| rstat.create(parent)).collect();
    let mut rng = Rng::stream(seed, u64::from(workers));
    let (mut truth, mut worst, mut flushes) = (0, 0, 0);
    for _ in 0..READS {
        let child = ids[rng.below(children) as usize];
        let pages = u64::from(rng.below(64) + 1);
        let pages_signed = i64::try_from(pages).unwrap_or(0);
        rstat.update(rng.below(workers) as usize, child, 0, pages_signed);
        truth += pages;
        flushes += u64::from(Flusher::default().before_read(&mut rstat, parent));
        worst = worst.max(truth - rstat.total(parent, 0));
    }
    (flushes, worst)
}
