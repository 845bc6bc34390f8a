//! A table as comma-separated values (RFC 4180): a line of names, numbers with all their digits.

use crate::outcome::{Cell, Table};

/// The table as text.
#[must_use]
pub fn csv(table: &Table) -> String {
    let mut text = line(table.columns.iter().map(|name| quoted(name)));
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
        Cell::Text(text) => quoted(text),
        Cell::Count(count) => count.to_string(),
        Cell::Figure(value) if value.is_finite() => value.to_string(),
        Cell::Figure(_) | Cell::Empty => String::new(),
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
