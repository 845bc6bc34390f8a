//! Memory over time, by age, and what less of it would cost, as pictures: markup for pages that load nothing, shared by `report --html` and the dashboard.
//!
//! Invariant: numbers in, text out; the same numbers give the same bytes. Every coordinate is a whole number inside its
//! picture, whatever the numbers are; every word from outside goes through [`escaped`]. Nothing here knows a process, a file
//! or a clock, runs in a browser, or sets a style of its own: colours are classes of [`STYLE`], so that a page may forbid
//! all others. Letters are never part of what is stretched: they have one size on any screen.
//!
//! Floors: `ages`, `decades`, `share`, `style`, `text`; `track`; `axis`; `figure`; `bars`, `heat`; `area`, `curve`, `level`, `strip`.
#![forbid(unsafe_code)]

mod ages;
mod area;
mod axis;
mod bars;
mod curve;
mod decades;
mod figure;
mod heat;
mod level;
mod share;
mod strip;
mod style;
mod text;
mod track;

pub use ages::{BINS, CLASSES, EDGES_MS, class_of, class_sums, name_of_bin, name_of_class};
pub use area::area;
pub use bars::{Bar, Part, bars};
pub use curve::{Curve, CurveAt, curve};
pub use decades::{Decades, short_rate};
pub use heat::heat;
pub use level::{came_back, waited};
pub use share::per_cent;
pub use strip::{age_bar, strip};
pub use style::STYLE;
pub use text::{csv_field, escaped, is_hidden, plain};
pub use track::{Clock, Hints, Moment, Track};
