//! Draws distributions of values: a strip for each series, all over the same x axis, so that a
//! narrow and a wide distribution differ visibly. Bounds are drawn through all strips.
//!
//! Invariant: the columns of a strip sum to its number of values; each strip has its own scale.

use super::axis::Axis;
use super::paper::{RIGHT, TOP, WIDTH, across, along, left_of, open};
use super::{class, tip};
use crate::outcome::{By, Picture, Series};
use crate::stats::number;
use std::fmt::Write;

/// Height of a strip; then height of the space above it for its name.
const STRIP: f64 = 110.0;
const NAME: f64 = 26.0;
const FOOT: f64 = 26.0;
/// Number of columns over the whole axis.
const COLUMNS: u32 = 60;

/// Returns the drawing.
pub(super) fn draw(picture: &Picture) -> String {
    let is_rule = |series: &&Series| series.by == By::Rule;
    let rules: Vec<&Series> = picture.series.iter().filter(is_rule).collect();
    let strips = picture.series.iter().enumerate();
    let strips: Vec<(usize, &Series)> = strips.filter(|(_, s)| s.by != By::Rule).collect();
    let all = picture.series.iter().flat_map(|series| &series.points);
    let xs: Vec<f64> = all.map(|point| point.0).collect();
    let span = Axis::along(&xs, picture.log[0], [0.0, 1.0]).ends();
    let counts: Vec<Vec<f64>> = strips.iter().map(|(_, s)| counted(s, span)).collect();
    let scale = |counts: &[f64], top: f64| Axis::upward(counts, false, [top + STRIP, top]);
    let lefts = counts.iter().map(|counts| left_of(&scale(counts, 0.0)));
    let left = lefts.fold(0.0, f64::max);
    let x = Axis::along(&xs, picture.log[0], [left, WIDTH - RIGHT]);
    let bottom = TOP + number(strips.len() as u64) * (STRIP + NAME);
    let mut svg = open(&picture.title, bottom + FOOT);
    along(&mut svg, &x, &x.ticks(), [TOP, bottom]);
    let width = (WIDTH - RIGHT - left) / f64::from(COLUMNS);
    for (at, ((n, series), counts)) in strips.iter().zip(&counts).enumerate() {
        let top = TOP + number(at as u64) * (STRIP + NAME) + NAME;
        let y = scale(counts, top);
        across(&mut svg, &y, left);
        for (column, &count) in (0u32..).zip(counts).filter(|(_, count)| **count > 0.0) {
            let _ = writeln!(
                svg,
                "<rect class=\"bar {}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\">{}</rect>",
                class(picture, *n),
                left + f64::from(column) * width + 0.5,
                y.at(count),
                width - 1.0,
                y.ground() - y.at(count),
                tip(&series.name, &count.to_string())
            );
        }
    }
    for rule in rules {
        for at in rule.points.iter().map(|point| x.at(point.0)) {
            let _ = writeln!(
                svg,
                "<line class=\"line rule\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>"
            );
        }
    }
    // Names are drawn last, so that the line of a bound does not cover them.
    for (at, (_, series)) in strips.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<text class=\"value strip\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left + 4.0,
            TOP + number(at as u64) * (STRIP + NAME) + NAME - 7.0,
            pictures::escaped(&series.name)
        );
    }
    svg + "</svg>\n"
}

/// Returns the number of values in each column of an axis over `span`.
fn counted(series: &Series, [low, high]: [f64; 2]) -> Vec<f64> {
    let mut counts = vec![0.0; COLUMNS as usize];
    for &(value, many) in &series.points {
        let part = (value - low) / (high - low) * f64::from(COLUMNS);
        let past = (1..COLUMNS).take_while(|&edge| part >= f64::from(edge));
        counts[past.count()] += many;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_counted_once() {
        let series = Series::samples("x", (0..=120).map(f64::from));
        let counts = counted(&series, [0.0, 120.0]);
        assert!((counts.iter().sum::<f64>() - 121.0).abs() < 1e-9);
        assert_eq!(
            (counts[0], counts[59]),
            (2.0, 3.0),
            "the end falls into the last"
        );
    }
}
