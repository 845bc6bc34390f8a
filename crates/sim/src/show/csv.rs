//! Formats a table as comma-separated values (RFC 4180): a line of column names, then a line for
//! each row. Numbers have all their digits.
//!
//! Invariant: each row is one line, whatever text an experiment file contains, and a spreadsheet
//! takes no cell for a formula.

use pictures::csv_field;

use crate::outcome::{Cell, Table};

/// Returns the table as CSV.
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
