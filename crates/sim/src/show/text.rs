//! Formats an outcome as text for a terminal.

use super::{Heading, cell, tables};
use crate::outcome::{Cell, Outcome, Table};

/// Maximum number of rows that are shown of a table. Of a longer table, only the first and the last
/// rows are shown, [`ROWS_SHOWN`] each.
const ROWS_MAX: usize = 100;
const ROWS_SHOWN: usize = 16;

/// Returns the outcome as text: heading, tables, remarks.
#[must_use]
pub fn text(heading: &Heading, outcome: &Outcome, timings: bool) -> String {
    let mut text = heading.line() + "\n";
    for table in tables(outcome, timings) {
        text += &format!("\n{}\n", table.title);
        text += &lines(&table);
    }
    for note in &outcome.notes {
        text += &format!("\n{}\n", wrapped(note));
    }
    text
}

fn lines(table: &Table) -> String {
    let cut = table.rows.len() > ROWS_MAX;
    let shown = |n: usize| !cut || n < ROWS_SHOWN || n + ROWS_SHOWN >= table.rows.len();
    let mut grid = vec![table.columns.clone()];
    let rows = table.rows.iter().enumerate().filter(|(n, _)| shown(*n));
    grid.extend(rows.map(|(_, row)| row.iter().map(cell).collect()));
    let widths: Vec<usize> = (0..table.columns.len())
        .map(|c| grid.iter().map(|r| r[c].chars().count()).max().unwrap_or(0))
        .collect();
    let left: Vec<bool> = (0..table.columns.len())
        .map(|c| is_text(table, c))
        .collect();
    let mut text = String::new();
    for (n, row) in grid.iter().enumerate() {
        let cells = row.iter().zip(widths.iter().zip(&left));
        let cells: Vec<String> = cells
            .map(|(cell, (&width, &left))| {
                if left {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            })
            .collect();
        text += &format!("  {}\n", cells.join("  ").trim_end());
        if cut && n == ROWS_SHOWN {
            let gone = table.rows.len() - 2 * ROWS_SHOWN;
            text += &format!("  ... {gone} rows more (all of them with --csv)\n");
        }
    }
    text
}

/// Returns whether a column has text.
pub(super) fn is_text(table: &Table, column: usize) -> bool {
    let names = |row: &Vec<Cell>| matches!(row[column], Cell::Text(_));
    table.rows.iter().any(names)
}

fn wrapped(note: &str) -> String {
    let mut lines = vec![String::new()];
    for word in note.split_whitespace() {
        let last = lines.len() - 1;
        if lines[last].len() + word.len() > 96 {
            lines.push(String::new());
        }
        let line = lines.last_mut().expect("never empty");
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.join("\n")
}
