//! Draws bars side by side in named groups, so that the document's figure is next to the
//! simulator's.
//!
//! Invariant: bars begin at zero, or at the lower end of a logarithmic axis. The values are written
//! either on all bars or on none.

use super::axis::{Axis, short};
use super::paper::{BODY, RIGHT, TOP, WIDTH, across, left_of, open};
use super::words::{Names, width};
use super::{class, tip};
use crate::outcome::Picture;
use crate::stats::number;
use std::fmt::Write;

/// Maximum width of a bar, in units of the drawing.
const BAR_MAX: f64 = 64.0;
/// Height of the space below the names of groups.
const FOOT: f64 = 6.0;

/// Formats the value on a bar: with three significant digits, but whole from 100 on, and in short
/// form from 100,000 on.
fn label(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 1e5 => return short((value / 1e3).round() * 1e3),
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Returns the drawing.
pub(super) fn draw(picture: &Picture, groups: &[String]) -> String {
    let values: Vec<f64> = picture
        .series
        .iter()
        .flat_map(|series| series.points.iter().map(|point| point.1))
        .collect();
    let y = Axis::upward(&values, picture.log[1], [TOP + BODY, TOP]);
    let count = number(groups.len().max(1) as u64);
    let mut left = left_of(&y);
    let names = Names::new(groups, (WIDTH - left - RIGHT) / count);
    let slot = (WIDTH - left - RIGHT) / count;
    left = left.max(names.overhang() - slot / 2.0 + 8.0);
    let slot = (WIDTH - left - RIGHT) / count;
    let many = number(picture.series.len().max(1) as u64);
    let bar = (slot * 0.8 / many).min(BAR_MAX);
    let mut svg = open(&picture.title, TOP + BODY + names.height() + FOOT);
    across(&mut svg, &y, left);
    let reported = values.iter().all(|&v| width(&label(v)) <= bar + 2.0);
    for n in 0..groups.len() {
        names.draw(
            &mut svg,
            n,
            left + slot * (number(n as u64) + 0.5),
            TOP + BODY,
        );
    }
    for (n, series) in picture.series.iter().enumerate() {
        for &(group, value) in &series.points {
            let from = left + slot * (group + 0.5) + bar * (number(n as u64) - many / 2.0);
            let (top, ground) = (y.at(value), y.ground());
            let _ = writeln!(
                svg,
                "<rect class=\"bar {}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\">{}</rect>",
                class(picture, n),
                from + 1.0,
                top.min(ground),
                (bar - 2.0).max(0.5),
                (ground - top).abs(),
                tip(&series.name, &label(value)),
            );
            if reported {
                let above = if value < 0.0 { 13.0 } else { -4.0 };
                let _ = writeln!(
                    svg,
                    "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    from + bar / 2.0,
                    top + above,
                    label(value),
                );
            }
        }
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_on_bars() {
        let shown = [
            0.0,
            0.0059,
            4.444,
            38.0,
            869.93,
            26_736.2,
            5_160_080.0,
            -12.34,
        ]
        .map(label);
        assert_eq!(
            shown,
            ["0", "0.006", "4.44", "38", "870", "26736", "5.16M", "-12.3"]
        );
    }
}
