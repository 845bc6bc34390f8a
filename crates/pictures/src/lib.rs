//! Draws pictures as HTML and SVG, for pages that load nothing from elsewhere: memory over time by
//! age, and the refaults that less memory would cost. `report --html` and the dashboard use the
//! same pictures.
//!
//! Invariant: the same numbers produce the same bytes. Every coordinate is a whole number inside
//! its picture, for any numbers. Every text from outside goes through [`escaped`]. This crate uses
//! no process, file or clock, and its output has no scripts. Styles come only from the classes of
//! [`STYLE`], so a page may forbid all other styles. Letters are never inside the part of a picture
//! that is stretched, so they have the same size on any screen.
//!
//! Modules, from the lowest to the highest; each uses only lower ones: `ages`, `decades`, `share`,
//! `style`, `text`; `track`; `axis`; `figure`; `bars`, `heat`; `area`, `curve`, `level`, `strip`.
#![forbid(unsafe_code)]

mod ages;
mod decades;
mod share;
mod style;
mod text;

mod track;

mod axis;

mod figure;

mod area;
mod bars;
mod curve;
mod heat;
mod level;

mod strip;

pub use engine::age_bins::{BINS, EDGES_MS};

pub use ages::{CLASS_EDGES_MS, CLASSES, class_of, class_sums, name_of_bin, name_of_class};
pub use area::area;
pub use bars::{Bar, Part, bars};
pub use curve::{Curve, CurveAt, curve};
pub use decades::{Decades, short_rate};
pub use heat::heat;
pub use level::{refaults, waited};
pub use share::per_cent;
pub use strip::{age_bar, strip};
pub use style::STYLE;
pub use text::{csv_field, escaped, is_hidden, plain};
pub use track::{Clock, Hints, Moment, Track};
