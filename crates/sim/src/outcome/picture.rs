//! The description of a picture of an experiment's results. The title is the question that the
//! picture answers.
//!
//! Invariant: all figures of a picture are in the two units of its axis labels. A series from the
//! document is marked as such. The n-th series of the document belongs to the n-th of the
//! simulator, and has its colour.

use super::{Cell, Table};
use crate::stats::number;

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// The question that the picture answers, or the answer.
    pub title: String,
    /// How the picture is drawn.
    pub kind: Kind,
    /// Label of the x axis, with its unit.
    pub x: String,
    /// Label of the y axis, with its unit.
    pub y: String,
    /// Whether each axis is logarithmic: x, y. All values on such an axis must be above zero.
    pub log: [bool; 2],
    /// Whether the figures depend on the machine's speed; if so, the picture is shown only with the
    /// timings.
    pub timed: bool,
    /// The series of figures that are drawn.
    pub series: Vec<Series>,
}

/// How a picture is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Bars side by side, in groups with these names.
    Bars(Vec<String>),
    /// Points joined by lines, in order.
    Curve,
    /// A histogram of the values of each series.
    Distribution,
}

/// Where the figures of a series come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// From the simulator.
    Us,
    /// From the source document.
    Document,
    /// From neither: a bound, or the exact values.
    Rule,
}

/// A series of figures: its name in the legend, its source, and its points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Where the figures come from.
    pub by: By,
    /// The points. For bars: number of the group, value. For a curve: x, y. For a distribution: a
    /// value, and how often it occurs.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Makes a series of the simulator from its points.
    #[must_use]
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            name: name.into(),
            by: By::Us,
            points: points.into_iter().collect(),
        }
    }

    /// Makes a series of bars, with a value for each group in order; `None` leaves a gap.
    #[must_use]
    pub fn bars(name: impl Into<String>, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        let values = (0u64..).map(number).zip(values);
        Self::new(
            name,
            values.filter_map(|(group, value)| Some((group, value?))),
        )
    }

    /// Makes a series of values whose distribution is drawn.
    #[must_use]
    pub fn samples(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        Self::new(name, values.into_iter().map(|value| (value, 1.0)))
    }

    /// Returns the same series, attributed to another source.
    #[must_use]
    pub fn by(self, by: By) -> Self {
        Self { by, ..self }
    }
}

impl Picture {
    /// Makes a picture; `axes` are the labels of the x and the y axis, with their units.
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

    /// Sets whether the x axis and the y axis are logarithmic.
    #[must_use]
    pub fn log(self, x: bool, y: bool) -> Self {
        Self {
            log: [x, y],
            ..self
        }
    }

    /// Marks the picture as shown only with the timings.
    #[must_use]
    pub fn timed(self) -> Self {
        Self {
            timed: true,
            ..self
        }
    }

    /// Makes a curve of each column of a table that has this `unit` (the text in parentheses in its
    /// name), over the first column. `None` if the first column has text, or if no column has the
    /// unit.
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

/// Returns the figures of a column, `None` for an empty cell; `None` instead of a column that has
/// text.
fn column(table: &Table, column: usize) -> Option<Vec<Option<f64>>> {
    let figures = table.rows.iter().map(|row| match &row[column] {
        Cell::Count(count) => Some(Some(number(*count))),
        Cell::Figure(value) => Some(Some(*value)),
        Cell::Empty => Some(None),
        Cell::Text(_) => None,
    });
    figures.collect()
}
