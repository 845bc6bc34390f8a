//! Pictures of the ebizzy results: curves over the allocated memory, those of the document and
//! those of the simulator.
//!
//! Invariant: a picture has one number of threads. Savings of the kernels have a picture for each
//! exponent, because the exponent decides how much can be saved.

use super::RowRuns;
use super::kernel::Kernel;
use super::table::DOCUMENTED;
use crate::outcome::{By, Kind, Picture, Series};
use crate::stats::{mean, number};

const THREADS: [u32; 2] = [1, 8];
const ALPHAS: [f64; 3] = [0.1, 0.7, 1.3];
const X: &str = "memory allocated (MiB)";

/// Returns the pictures: pages that base swaps in, and the part of them that each other kernel
/// saves.
pub(super) fn pictures(cells: &[RowRuns], scale: u64) -> Vec<Picture> {
    let mut pictures: Vec<Picture> = THREADS
        .iter()
        .map(|&threads| base(cells, threads, number(scale)))
        .collect();
    for alpha in ALPHAS {
        pictures.extend(THREADS.map(|threads| changes(cells, threads, alpha)));
    }
    pictures
}

/// Returns the cells with this number of threads and this exponent.
fn chosen(cells: &[RowRuns], threads: u32, alpha: f64) -> Vec<&RowRuns> {
    let is_it =
        |cell: &&RowRuns| cell.row.threads == threads && (cell.row.alpha - alpha).abs() < 0.01;
    cells.iter().filter(is_it).collect()
}

fn curve(name: String, cells: &[&RowRuns], of: impl Fn(&RowRuns) -> f64) -> Series {
    let point = |cell: &&RowRuns| (f64::from(cell.row.mib), of(cell));
    Series::new(name, cells.iter().map(point))
}

fn in_words(threads: u32) -> String {
    format!(
        "{threads} {}",
        if threads == 1 { "thread" } else { "threads" }
    )
}

fn base(cells: &[RowRuns], threads: u32, times: f64) -> Picture {
    let series = |by: By| {
        ALPHAS.map(|alpha| {
            let cells = chosen(cells, threads, alpha);
            let (name, millions) = (format!("exponent {alpha}"), 1e6);
            match by {
                By::Document => curve(format!("{name}, document"), &cells, |cell| {
                    cell.row.kernels[0].mean / millions
                })
                .by(by),
                _ => curve(name, &cells, |cell| {
                    mean(&cell.swapped(0)) * times / millions
                }),
            }
        })
    };
    Picture::new(
        format!(
            "ebizzy, {}: does base swap in what the document's did?",
            in_words(threads)
        ),
        Kind::Curve,
        [X, "pages swapped in by base (millions)"],
        [series(By::Us), series(By::Document)].concat(),
    )
}

fn changes(cells: &[RowRuns], threads: u32, alpha: f64) -> Picture {
    let cells = chosen(cells, threads, alpha);
    let name = |n: usize| Kernel::ALL[n].name();
    // The document's series come first, so that the colors match.
    let mut series: Vec<Series> = [1, 2, 4]
        .map(|n| curve(name(n).to_owned(), &cells, |cell| cell.change(n)))
        .into();
    series.extend((1..DOCUMENTED).map(|n| {
        let of = |cell: &RowRuns| cell.row.improvements[n - 1];
        curve(format!("{}, document", name(n)), &cells, of).by(By::Document)
    }));
    Picture::new(
        format!(
            "ebizzy, {}, exponent {alpha}: how much more or less than base is swapped in?",
            in_words(threads)
        ),
        Kind::Curve,
        [X, "change against base (%), less is better"],
        series,
    )
}
