//! Formats the outcome of an experiment as text, CSV, JSON, Parquet or an HTML page.
//!
//! Invariant: every format depends only on the outcome, so the same outcome has the same bytes.
//! Timings are shown only on request.

mod csv;
mod json;
mod parquet;
mod plot;
mod style;
mod text;

mod html;

pub use csv::csv;
pub use html::html;
pub use json::json;
pub use parquet::parquet;
pub use text::text;

use crate::outcome::{Cell, Outcome, Table};

/// The experiment and settings that an outcome belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Heading {
    /// Name of the experiment.
    pub name: String,
    /// Description of the experiment in one line.
    pub about: String,
    /// Number of the source document, if there is one.
    pub document: Option<String>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Divisor of all sizes.
    pub scale: u64,
}

impl Heading {
    /// Returns the heading as one line.
    #[must_use]
    pub fn line(&self) -> String {
        let document = self.document.as_ref();
        let document = document.map_or(String::new(), |d| format!(", document {d}"));
        let about = match self.about.as_str() {
            "" => String::new(),
            about => format!(": {about}"),
        };
        format!(
            "{}{about} (seed {}, scale 1/{}{document})",
            self.name, self.seed, self.scale
        )
    }
}

/// Returns the tables to show: the claims, then the results, then the timings if requested.
#[must_use]
pub fn tables(outcome: &Outcome, timings: bool) -> Vec<Table> {
    let mut all = Vec::new();
    if !outcome.claims.is_empty() {
        all.push(claims(outcome));
    }
    all.extend(outcome.tables.iter().cloned());
    if timings {
        all.extend(outcome.timings.iter().cloned());
    }
    all
}

fn claims(outcome: &Outcome) -> Table {
    let mut table = Table::new("Claims", &["claim", "document", "ours", "holds"]);
    for claim in &outcome.claims {
        table.row(vec![
            Cell::Text(claim.what.clone()),
            claim.document.map_or(Cell::Empty, Cell::Figure),
            Cell::Figure(claim.ours),
            Cell::Text(if claim.holds { "yes" } else { "NO" }.to_owned()),
        ]);
    }
    table
}

/// Returns file names for tables: their titles in lower case, with dashes between the words. If two
/// are the same, the second gets a number.
#[must_use]
pub fn file_names(tables: &[Table]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for table in tables {
        let words = table.title.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<String> = words
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_lowercase)
            .collect();
        let stem = if words.is_empty() {
            "table".to_owned()
        } else {
            words.join("-")
        };
        let mut name = stem.clone();
        let mut n = 2;
        while names.contains(&name) {
            name = format!("{stem}-{n}");
            n += 1;
        }
        names.push(name);
    }
    names
}

/// Formats a figure for people, with about four significant digits.
fn figure(value: f64) -> String {
    let size = value.abs();
    match () {
        () if !value.is_finite() => "-".to_owned(),
        () if value == 0.0 => "0".to_owned(),
        () if size >= 1000.0 => format!("{value:.0}"),
        () if size >= 100.0 => format!("{value:.1}"),
        () if size >= 1.0 => format!("{value:.2}"),
        () if size >= 0.001 => format!("{value:.4}"),
        () => format!("{value:.2e}"),
    }
}

/// Formats a cell for people.
fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(count) => count.to_string(),
        Cell::Figure(value) => figure(*value),
        Cell::Empty => String::new(),
    }
}

#[cfg(test)]
mod tests;
