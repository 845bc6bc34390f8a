//! Document 002: protection and detection of the working set on the anon lists.
//!
//! Two experiments: hot memory that was allocated late (`scenario`), and ebizzy with a zipf
//! distribution ([`ebizzy`]), whose 90 rows are repeated with the engine's three stages and held
//! against the document's; the multi-gen LRU and OPT meet the same accesses.
//!
//! Invariant: the document's figures are in [`document`] and nowhere else; ours come from the engine.

pub mod document;
pub mod ebizzy;
pub mod kernel;
pub mod opt;
mod pictures;
mod scenario;
mod table;

use super::Settings;
use crate::outcome::Outcome;
use document::Row;
use ebizzy::Design;

/// As many runs as the document averages.
const SEEDS: u64 = 5;

/// Runs of one parameter set: swapped in by kernel, by run.
#[derive(Clone, Debug)]
pub struct Cell90 {
    row: Row,
    runs: Vec<[u64; 6]>,
}

/// Runs the experiment.
pub(super) fn run(settings: &Settings, progress: &mut dyn FnMut(f64)) -> Outcome {
    let rows: Vec<Row> = document::ebizzy().collect();
    let cells = run_rows(&rows, settings, SEEDS, progress);
    let mut outcome = scenario::outcome(settings.scale);
    outcome.tables.push(table::table(&cells, settings.scale));
    outcome.claims.extend(table::claims(&cells));
    outcome
        .pictures
        .extend(pictures::pictures(&cells, settings.scale));
    outcome.notes = table::notes(&cells);
    outcome
}

/// All runs of `rows`, on as many threads as there are CPUs; the results do not depend on them.
fn run_rows(
    rows: &[Row],
    settings: &Settings,
    seeds: u64,
    progress: &mut dyn FnMut(f64),
) -> Vec<Cell90> {
    let tasks: Vec<(&Row, u64)> = rows
        .iter()
        .flat_map(|row| (0..seeds).map(move |n| (row, settings.seed + n)))
        .collect();
    let results = crate::parallel::map(
        &tasks,
        |&(row, seed)| Design::new(row, settings.scale).run(seed),
        progress,
    );
    let per_row = usize::try_from(seeds.max(1)).unwrap_or(1);
    let runs = results.chunks(per_row);
    rows.iter()
        .zip(runs)
        .map(|(row, runs)| Cell90 {
            row: *row,
            runs: runs.to_vec(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
