//! Repeats the two experiments of source document 002 (docs/experiments.md), a patch series for
//! protection and detection of the working set on the anon lists.
//!
//! The experiments are hot memory that was allocated late (`scenario`), and the program ebizzy with
//! a Zipf distribution ([`ebizzy`]). The document's table for ebizzy has 90 rows: 30 parameter
//! sets, each with three kernels. These run on three policies of the engine. The multi-gen LRU and
//! OPT get the same accesses.
//!
//! Invariant: all figures of the document are in [`document`]; all other figures come from the
//! simulator.

pub mod document;
pub mod kernel;
pub mod opt;

pub mod ebizzy;
mod scenario;
mod table;

mod pictures;

use super::Settings;
use crate::outcome::Outcome;
use document::Row;
use ebizzy::Design;

/// Number of runs that are averaged, as in the document.
const SEEDS: u64 = 5;

/// All runs of one parameter set: for each run, the pages that each of [`kernel::Kernel::ALL`] and,
/// last, OPT swapped in.
#[derive(Clone, Debug)]
pub struct RowRuns {
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

/// Runs all `rows`, on as many threads as there are CPUs. The results do not depend on the number
/// of threads.
fn run_rows(
    rows: &[Row],
    settings: &Settings,
    seeds: u64,
    progress: &mut dyn FnMut(f64),
) -> Vec<RowRuns> {
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
        .map(|(row, runs)| RowRuns {
            row: *row,
            runs: runs.to_vec(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
