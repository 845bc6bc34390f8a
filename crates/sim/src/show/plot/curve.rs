//! Draws points joined by lines: the values of a sweep, or values over time.
//!
//! Invariant: if there are few x values, the axis marks exactly these. If a series has few points,
//! each point has a dot, so that the line between two dots is not taken for data.

use super::axis::Axis;
use super::paper::{BODY, RIGHT, TOP, WIDTH, across, along, left_of, open};
use super::{class, tip};
use crate::outcome::Picture;
use std::fmt::Write;

/// Height of the space below the x axis, for its numbers.
const FOOT: f64 = 26.0;
/// Maximum number of different x values that are shown as a sweep.
const SWEPT_MAX: usize = 12;
/// Maximum number of points of a curve with dots.
const DOTS_MAX: usize = 48;

/// Returns the drawing.
pub(super) fn draw(picture: &Picture) -> String {
    let all = || picture.series.iter().flat_map(|series| &series.points);
    let ys: Vec<f64> = all().map(|point| point.1).collect();
    let mut xs: Vec<f64> = all().map(|point| point.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let [log_x, log_y] = picture.log;
    let bottom = TOP + BODY;
    let y = Axis::upward(&ys, log_y, [bottom, TOP]);
    let left = left_of(&y);
    let x = Axis::along(&xs, log_x, [left + 10.0, WIDTH - RIGHT]);
    let mut svg = open(&picture.title, bottom + FOOT);
    across(&mut svg, &y, left);
    let ticks = if xs.len() <= SWEPT_MAX { xs } else { x.ticks() };
    along(&mut svg, &x, &ticks, [TOP, bottom]);
    for (n, series) in picture.series.iter().enumerate() {
        let mut points = series.points.clone();
        points.retain(|point| point.1.is_finite() && (!log_y || point.1 > 0.0));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let position = |&(px, py): &(f64, f64)| (x.at(px), y.at(py));
        let class = class(picture, n);
        let positions: Vec<String> = points
            .iter()
            .map(position)
            .map(|(px, py)| format!("{px:.1},{py:.1}"))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline class=\"line {class}\" points=\"{}\"/>",
            positions.join(" ")
        );
        for point in points
            .iter()
            .take(DOTS_MAX)
            .filter(|_| points.len() <= DOTS_MAX)
        {
            let ((cx, cy), value) = (position(point), super::super::figure(point.1));
            let at = super::axis::short(point.0);
            let _ = writeln!(
                svg,
                "<circle class=\"dot {class}\" cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3.5\">{}</circle>",
                tip(&series.name, &format!("{value} at {at}"))
            );
        }
    }
    svg + "</svg>\n"
}
