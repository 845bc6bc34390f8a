//! The heat map of page age over time: a column is a time, a row is a bin of ages. A darker cell
//! has more memory.
//!
//! Invariant: a shade stands for half as much memory as the next darker shade, so the eight shades
//! span a factor of 128. Only an empty cell has no shade.

use std::fmt::Write;

use engine::Bytes;
use engine::age_bins::{BINS, EDGES_MS};

use crate::ages::short;
use crate::axis::{Mark, place, times};
use crate::figure::{Figure, percent};
use crate::track::{Hints, Track};

/// Number of shades; their CSS classes are `h1`, the lightest, to `h8`.
pub(crate) const SHADES: usize = 8;
/// Minimum number of rows.
const ROWS_MIN: usize = 8;
/// Edges of bins that get a mark on the y axis, milliseconds.
const MARKED_MS: [u64; 7] = [
    1_000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000,
];

/// Draws the heat map of a track as HTML.
#[must_use]
pub fn heat(track: &Track, hints: Hints) -> String {
    let most = track
        .moments()
        .flat_map(|moment| moment.ages)
        .max()
        .unwrap_or(0);
    let used = |bin: &usize| track.moments().any(|moment| moment.ages[*bin] > 0);
    let rows = (0..BINS)
        .rev()
        .find(used)
        .map_or(0, |bin| bin + 1)
        .max(ROWS_MIN);
    let mut content = shades(track, rows, most);
    if hints == Hints::Titles {
        content += &titles(track, rows);
    }
    let says = track.last().map_or_else(
        || "nothing".to_owned(),
        |last| format!("at last {}", last.words()),
    );
    let figure = Figure {
        class: "heat",
        title: "Page age over time",
        says: &says,
        ys: &marks(rows),
        xs: &times(track),
        is_timed: true,
        field: (track.width(), as_length(rows), &content),
        legend: &legend(most),
    };
    figure.html()
}

/// Converts a number of rows to a length: a row is one unit high.
fn as_length(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}

/// Returns the shade of a cell with `bytes` bytes: 1 to [`SHADES`], or 0 if it is empty. The
/// darkest shade stands for `most` bytes.
pub(crate) fn shade(bytes: u64, most: u64) -> usize {
    if bytes == 0 {
        return 0;
    }
    let halvings = (most / bytes).max(1).ilog2();
    SHADES - usize::try_from(halvings).unwrap_or(SHADES).min(SHADES - 1)
}

/// Draws cells, as one SVG path for each shade. `of` returns the shade of the cell at a column and
/// a row. Neighbouring cells of a row with the same shade become one rectangle.
pub(crate) fn cells(rows: usize, columns: usize, of: impl Fn(usize, usize) -> usize) -> String {
    let mut paths = vec![String::new(); SHADES + 1];
    for row in 0..rows {
        // The youngest row is at the bottom.
        let y = rows - 1 - row;
        let mut column = 0;
        while column < columns {
            let (begin, shade) = (column, of(column, row));
            while column < columns && of(column, row) == shade {
                column += 1;
            }
            if shade > 0 {
                let wide = column - begin;
                let _ = write!(paths[shade], "M{begin} {y}h{wide}v1h-{wide}z");
            }
        }
    }
    let shown = paths
        .iter()
        .enumerate()
        .filter(|(_, path)| !path.is_empty());
    shown
        .map(|(shade, path)| format!("<path class=\"h{shade}\" d=\"{path}\"/>\n"))
        .collect()
}

/// Draws the cells of a track. The darkest shade stands for `most` bytes.
fn shades(track: &Track, rows: usize, most: u64) -> String {
    cells(rows, track.columns.len(), |column, row| {
        let moment = track.columns[column].as_ref();
        moment.map_or(0, |moment| shade(moment.ages[row], most))
    })
}

/// Returns an invisible area over each column, as SVG. The browser shows the column's figures while
/// the pointer is in the area.
fn titles(track: &Track, rows: usize) -> String {
    let mut text = "<g class=\"hits\">".to_owned();
    for (column, moment) in track.columns.iter().enumerate() {
        if let Some(moment) = moment {
            let (time, words) = (track.time_of(column), moment.words());
            let _ = writeln!(
                text,
                "<rect x=\"{column}\" y=\"0\" width=\"1\" height=\"{rows}\"><title>{time}: {words}</title></rect>"
            );
        }
    }
    text + "</g>\n"
}

/// Returns the marks of the y axis.
fn marks(rows: usize) -> Vec<Mark> {
    let edges = EDGES_MS.iter().enumerate().take(rows + 1).skip(1);
    let marked = edges.filter(|(_, edge)| MARKED_MS.contains(edge));
    let whole = as_length(rows);
    // An age is marked at the lower edge of its row.
    let mark = |(bin, edge): (usize, &u64)| (place(whole - as_length(bin), whole), short(*edge));
    marked.map(mark).collect()
}

/// Returns the legend as HTML: the shades from the lightest to the darkest, which stands for `most`
/// bytes.
fn legend(most: u64) -> String {
    let mut svg = "<svg class=\"ramp\" aria-hidden=\"true\">".to_owned();
    for shade in 1..=SHADES {
        let step = as_length(shade - 1) * 125;
        let _ = write!(
            svg,
            "<rect class=\"h{shade}\" x=\"{}\" y=\"0\" width=\"12.5%\" height=\"10\"/>",
            percent(step)
        );
    }
    let (least, most) = (Bytes(most >> (SHADES - 1)), Bytes(most));
    format!(
        "<p class=\"legend\"><span>{least}</span>{svg}</svg><span>{most}</span><span class=\"note\">in a cell</span></p>\n"
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::track::{Clock, Moment};

    #[test]
    fn shades_are_halvings() {
        for (bytes, shade_of) in [
            (0, 0),
            (1, 1),
            (7, 1),
            (8, 2),
            (500, 7),
            (501, 8),
            (1000, 8),
            (2000, 8),
        ] {
            assert_eq!(shade(bytes, 1000), shade_of, "{bytes}");
        }
    }

    #[test]
    fn neighbours_are_one_piece_and_gaps_are_nothing() {
        let full = Moment {
            ages: std::array::from_fn(|bin| if bin == 1 { 4096 } else { 0 }),
            ..Moment::default()
        };
        let track = Track {
            from_ms: 0,
            step_ms: 1000,
            columns: vec![Some(full), Some(full), None, Some(full)],
            clock: Clock::Ago,
        };
        let html = heat(&track, Hints::None);
        // There are eight rows, so the second row from the bottom is at y = 6.
        assert!(
            html.contains("<path class=\"h8\" d=\"M0 6h2v1h-2zM3 6h1v1h-1z\"/>"),
            "{html}"
        );
        assert!(!html.contains("<title>"));
        let titled = heat(&track, Hints::Titles);
        assert_eq!(titled.matches("<title>").count(), 3);
        assert!(titled.contains("3s ago: 4 KiB in memory"), "{titled}");
    }

    proptest! {
        #[test]
        fn every_cell_with_memory_has_a_shade(ages in prop::collection::vec(prop::array::uniform18(any::<u64>()), 0..9)) {
            let columns = ages.iter().map(|ages| Some(Moment { ages: *ages, ..Moment::default() })).collect();
            let track = Track { from_ms: 0, step_ms: 1, columns, clock: Clock::Passed };
            let html = heat(&track, Hints::None);
            // The widths of all rectangles sum to the number of cells that are not empty.
            let wide = html.split("class=\"h").flat_map(|path| path.split('M').skip(1)).filter_map(|piece| {
                piece.split('h').nth(1)?.split('v').next()?.parse::<usize>().ok()
            });
            let full = ages.iter().flatten().filter(|bytes| **bytes > 0).count();
            prop_assert_eq!(wide.sum::<usize>(), full);
        }
    }
}
