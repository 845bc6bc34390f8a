//! A table as comma-separated values (RFC 4180): a line of names, numbers with all their digits.
//!
//! Invariant: a line a row, whatever the words of an experiment file are, and none of them a formula.

use pictures::csv_field;

use crate::outcome::{Cell, Table};

/// The table as text.
#[must_use]
pub fn csv(table: &Table) -> String {
    let mut text = line(table.columns.iter().map(|name| csv_field(name)));
    for row in &table.rows {
        text += &line(row.iter().map(plain));
    }
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    cells.collect::<Vec<_>>().join(",") + "\n"
}

fn plain(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => csv_field(text),
        Cell::Count(count) => count.to_string(),
        Cell::Figure(value) if value.is_finite() => value.to_string(),
        Cell::Figure(_) | Cell::Empty => String::new(),
    }
}
