//! The frame of a drawing: its size, its grid lines, and the numbers along its axes.
//!
//! Invariant: everything drawn is within the view box.

use super::axis::{Axis, short};
use super::words::width;
use std::fmt::Write;

/// Width of every drawing, in its own units.
pub(super) const WIDTH: f64 = 760.0;
/// Width of the space at the right, into which half of the last number reaches.
pub(super) const RIGHT: f64 = 26.0;
/// Height of the space at the top, for the value on the highest bar.
pub(super) const TOP: f64 = 20.0;
/// Height of the area between the axes.
pub(super) const BODY: f64 = 250.0;

/// Returns the width of the space for the numbers of a y axis, at the left of the drawing.
pub(super) fn left_of(axis: &Axis) -> f64 {
    let widths = axis.ticks().into_iter().map(|tick| width(&short(tick)));
    widths.fold(24.0, f64::max) + 14.0
}

/// Returns the beginning of a drawing with this height; a screen reader reads `about`.
pub(super) fn open(about: &str, height: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">\n",
        pictures::escaped(about)
    )
}

/// Draws the horizontal grid lines of the y axis, with their numbers.
pub(super) fn across(svg: &mut String, y: &Axis, left: f64) {
    for tick in y.ticks() {
        let at = y.at(tick);
        let ground = (at - y.ground()).abs() < 0.05;
        let _ = writeln!(
            svg,
            "<line class=\"{}\" x1=\"{left:.1}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            if ground { "ground" } else { "grid" },
            WIDTH - RIGHT,
            left - 7.0,
            at + 4.0,
            short(tick),
        );
    }
}

/// Draws the numbers of the x axis below `bottom`, and at each a line up to `top`. Leaves out a
/// number that would touch the previous one.
pub(super) fn along(svg: &mut String, x: &Axis, ticks: &[f64], [top, bottom]: [f64; 2]) {
    let mut free = f64::MIN;
    for &tick in ticks {
        let (at, text) = (x.at(tick), short(tick));
        let half = width(&text) / 2.0;
        if at - half < free {
            continue;
        }
        free = at + half + 6.0;
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
            bottom + 17.0,
        );
    }
}
