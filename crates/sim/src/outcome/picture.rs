//! What an experiment draws: a picture is named by the question it answers.
//!
//! Invariant: all figures of a picture share its two units, which stand in its labels; a series of the
//! document's is marked as such, and the document's n-th series belongs to our n-th.

use super::{Cell, Table};
use crate::stats::number;

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The question that it answers, or the answer.
    pub title: String,
    /// How it is drawn.
    pub kind: Kind,
    /// What lies along the page, with its unit.
    pub x: String,
    /// What goes up, with its unit.
    pub y: String,
    /// Equal ratios have equal lengths, along the page and up; all values must be above zero there.
    pub log: [bool; 2],
    /// It shows what depends on the machine, and is shown where timings are.
    pub timed: bool,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// How a picture is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Bars side by side, in the groups that are named here.
    Bars(Vec<String>),
    /// Points in order, joined.
    Curve,
    /// How many lie where.
    Distribution,
}

/// Whose figures they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Ours.
    Us,
    /// The source document's.
    Document,
    /// Neither's: a bound, or the truth.
    Rule,
}

/// Figures of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// Whose they are.
    pub by: By,
    /// Bars: number of the group, and its value. Curve: x and y. Distribution: a value, and how many have it.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Of points.
    #[must_use]
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            name: name.into(),
            by: By::Us,
            points: points.into_iter().collect(),
        }
    }

    /// Of a value for each group in turn; `None` leaves a gap.
    #[must_use]
    pub fn bars(name: impl Into<String>, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        let values = (0u64..).map(number).zip(values);
        Self::new(
            name,
            values.filter_map(|(group, value)| Some((group, value?))),
        )
    }

    /// Of values that are counted.
    #[must_use]
    pub fn samples(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        Self::new(name, values.into_iter().map(|value| (value, 1.0)))
    }

    /// The same figures, of somebody else.
    #[must_use]
    pub fn by(self, by: By) -> Self {
        Self { by, ..self }
    }
}

impl Picture {
    /// A picture; `axes` are the labels along the page and up, each with its unit.
    #[must_use]
    pub fn new(title: impl Into<String>, kind: Kind, axes: [&str; 2], series: Vec<Series>) -> Self {
        let [x, y] = axes.map(str::to_owned);
        Self {
            title: title.into(),
            kind,
            x,
            y,
            log: [false; 2],
            timed: false,
            series,
        }
    }

    /// With logarithmic axes: along the page, up.
    #[must_use]
    pub fn log(self, x: bool, y: bool) -> Self {
        Self {
            log: [x, y],
            ..self
        }
    }

    /// Shown only where timings are.
    #[must_use]
    pub fn timed(self) -> Self {
        Self {
            timed: true,
            ..self
        }
    }

    /// Curves of a table's columns over its first one, of those columns whose unit (what stands in
    /// parentheses) is `unit`. `None` if the first column has names in it, or there are no such columns.
    #[must_use]
    pub fn of_columns(title: &str, table: &Table, unit: &str) -> Option<Self> {
        let x = column(table, 0)?;
        let end = format!(" ({unit})");
        let series = table.columns.iter().enumerate().skip(1);
        let series = series.filter_map(|(n, name)| {
            let values = column(table, n)?.into_iter();
            let points = x.iter().zip(values).filter_map(|(x, y)| Some(((*x)?, y?)));
            Some(Series::new(name.strip_suffix(&end)?, points))
        });
        let series: Vec<Series> = series.collect();
        let kind = Kind::Curve;
        (!series.is_empty()).then(|| Self::new(title, kind, [&table.columns[0], unit], series))
    }
}

/// A column's figures; `None` if there is a name in it.
fn column(table: &Table, column: usize) -> Option<Vec<Option<f64>>> {
    let figures = table.rows.iter().map(|row| match &row[column] {
        Cell::Count(count) => Some(Some(number(*count))),
        Cell::Figure(value) => Some(Some(*value)),
        Cell::Empty => Some(None),
        Cell::Text(_) => None,
    });
    figures.collect()
}
