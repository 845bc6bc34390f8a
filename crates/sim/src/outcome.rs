//! The result of an experiment: tables, pictures and checked claims.
//!
//! Invariant: each row of a table has as many cells as the table has columns. The same seed
//! produces the same cells; results that depend on the machine's speed are only in
//! `Outcome::timings`.

mod picture;

pub use picture::{By, Kind, Picture, Series};

/// One cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A count.
    Count(u64),
    /// A measured or computed figure.
    Figure(f64),
    /// No value, e.g. the document has no figure here.
    Empty,
}

/// A table with a title.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Heading of the table.
    pub title: String,
    /// Names of the columns with units, e.g. `pgsteal (MiB)`.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// A statement of the source document, or of pagetide's own goals, compared with the simulator's
/// figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The claim, with its bound, e.g. `stddev/mean of pgsteal <= 5%`.
    pub what: String,
    /// The document's figure, if it has one.
    pub document: Option<f64>,
    /// The simulator's figure.
    pub ours: f64,
    /// Whether the simulator's figure is within the bound.
    pub holds: bool,
}

impl Claim {
    /// Makes a claim for which the document has no figure.
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

/// All results of one run of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Deterministic results.
    pub tables: Vec<Table>,
    /// Deterministic statements.
    pub claims: Vec<Claim>,
    /// The pictures of a page, in this order. A table without a picture is shown as a table only.
    pub pictures: Vec<Picture>,
    /// Results that depend on the machine (seconds, instructions); the same seed need not reproduce
    /// them.
    pub timings: Vec<Table>,
    /// Remarks for the reader, e.g. why a figure differs from the document's.
    pub notes: Vec<String>,
}

impl Table {
    /// Makes an empty table.
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
    /// If its length is not the number of columns.
    pub fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.columns.len(), "a row of {}", self.title);
        self.rows.push(cells);
    }
}
