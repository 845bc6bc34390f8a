//! What an experiment gives: tables of cells, pictures of what they answer, and claims that were checked.
//!
//! Invariant: a table's rows are as long as its list of columns; the same seed gives the same cells,
//! so what depends on time of day is kept apart (`Outcome::timings`).

mod picture;

pub use picture::{By, Kind, Picture, Series};

/// One cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A count.
    Count(u64),
    /// A measured or derived figure.
    Figure(f64),
    /// Nothing to say, e.g. the document gives no figure here.
    Empty,
}

/// A table with a title.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The heading.
    pub title: String,
    /// Names with units, e.g. `pgsteal (MiB)`.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// A statement of the source document, or of the issue, held against our figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What is claimed, with its bound, e.g. `stddev/mean of pgsteal <= 5%`.
    pub what: String,
    /// The document's figure, when it has one.
    pub document: Option<f64>,
    /// Ours.
    pub ours: f64,
    /// Whether ours is within the bound.
    pub holds: bool,
}

impl Claim {
    /// One of which the document has no figure.
    #[must_use]
    pub const fn ours(what: String, ours: f64, holds: bool) -> Self {
        Self {
            what,
            document: None,
            ours,
            holds,
        }
    }
}

/// Everything that one run of an experiment gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Deterministic results.
    pub tables: Vec<Table>,
    /// Deterministic statements.
    pub claims: Vec<Claim>,
    /// What a page draws, in this order; tables by themselves draw nothing.
    pub pictures: Vec<Picture>,
    /// Results that depend on the machine (seconds, instructions); not part of "same seed, same
    /// bytes".
    pub timings: Vec<Table>,
    /// Remarks for the reader, e.g. why a figure differs from the document's.
    pub notes: Vec<String>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.iter().map(|c| (*c).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it is not as long as the list of columns.
    pub fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.columns.len(), "a row of {}", self.title);
        self.rows.push(cells);
    }
}
