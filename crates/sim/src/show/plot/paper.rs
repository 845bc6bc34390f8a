//! The paper of a picture: its size, grid and numbers.
//!
//! Invariant: everything drawn lies within the view box.

use super::axis::{Axis, short};
use super::words::width;
use std::fmt::Write;

/// Width of every picture.
pub(super) const WIDTH: f64 = 760.0;
/// Room to the right, for half of the last number.
pub(super) const RIGHT: f64 = 26.0;
/// Room above, for the value on the highest bar.
pub(super) const TOP: f64 = 20.0;
/// Height between the axes.
pub(super) const BODY: f64 = 250.0;

/// Room that the numbers of an upward axis take to its left.
pub(super) fn left_of(axis: &Axis) -> f64 {
    let widths = axis.ticks().into_iter().map(|tick| width(&short(tick)));
    widths.fold(24.0, f64::max) + 14.0
}

/// The beginning of a drawing of this height; `about` is what a screen reader says.
pub(super) fn open(about: &str, height: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">\n",
        pictures::escaped(about)
    )
}

/// Lines across, and their numbers.
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

/// Numbers below `bottom`, those left out that would touch the one before; a line up to `top` at each.
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
