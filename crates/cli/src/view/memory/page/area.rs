//! Memory over time, stacked by age: the coldest at the bottom, so that cold memory is read from the
//! ground.
//!
//! Invariant: layers never cross; the top of the highest is what was resident.

use std::fmt::Write;

use daemon::options::{Bytes, Millis};

use crate::view::share;

use super::super::history::Point;
use super::{AGES, age_name, legend_of};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 260.0;
/// Room for the axes: left, top, right, bottom.
const MARGIN: [f64; 4] = [62.0, 10.0, 14.0, 24.0];
/// Of the time axis, milliseconds.
const STEPS_MS: [u64; 20] = [
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    1_800_000,
    3_600_000,
    7_200_000,
    21_600_000,
    43_200_000,
    86_400_000,
    604_800_000,
];
/// Marks on the time axis, at most, and on the axis of sizes.
const MARKS: u64 = 8;
const LEVELS: u64 = 5;

/// What the axes span.
struct Frame {
    from_ms: u64,
    span_ms: u64,
    most: u64,
}

impl Frame {
    fn x(&self, ms: u64) -> f64 {
        let [left, _, right, _] = MARGIN;
        let part = share(ms.saturating_sub(self.from_ms), self.span_ms);
        left + part.clamp(0.0, 1.0) * (WIDTH - left - right)
    }

    fn y(&self, bytes: u64) -> f64 {
        let [_, top, _, bottom] = MARGIN;
        let part = share(bytes, self.most).clamp(0.0, 1.0);
        top + (1.0 - part) * (HEIGHT - top - bottom)
    }
}

/// The picture and its legend, of at least two points.
pub(super) fn area(points: &[Point]) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return String::new();
    };
    let frame = Frame {
        from_ms: first.wall_ms,
        span_ms: last.wall_ms.saturating_sub(first.wall_ms).max(1),
        most: points.iter().map(highest).max().unwrap_or(0).max(1),
    };
    let mut svg = axes(&frame);
    // From the ground up: the oldest age first, the unknown on top.
    let mut ground = vec![0u64; points.len()];
    let mut used = [false; AGES];
    for age in (0..AGES).rev() {
        used[age] = points.iter().any(|point| point.ages[age] > 0);
        let heights: Vec<u64> = points.iter().map(|point| point.ages[age]).collect();
        svg += &layer(
            &frame,
            points,
            &mut ground,
            &heights,
            (&format!("a{age}"), &age_name(age)),
        );
    }
    let unknown: Vec<u64> = points.iter().map(|point| point.unknown).collect();
    svg += &layer(&frame, points, &mut ground, &unknown, ("un", "age unknown"));
    let swapped = points.iter().any(|point| point.swapped > 0);
    if swapped {
        let line = points.iter();
        let line = line.map(|point| corner(&frame, point.wall_ms, point.swapped));
        let line: Vec<String> = line.collect();
        let _ = writeln!(
            svg,
            "<polyline class=\"line\" points=\"{}\"/>",
            line.join(" ")
        );
    }
    let others = [
        ("un", "age unknown", unknown.iter().any(|&bytes| bytes > 0)),
        ("out", "swapped (dashed line)", swapped),
    ];
    svg + "</svg>\n" + &legend_of(used, &others)
}

/// What the point needs of the axis.
fn highest(point: &Point) -> u64 {
    let ages = point
        .ages
        .iter()
        .fold(point.unknown, |sum, age| sum.saturating_add(*age));
    ages.max(point.swapped)
}

fn corner(frame: &Frame, ms: u64, bytes: u64) -> String {
    format!("{:.1},{:.1}", frame.x(ms), frame.y(bytes))
}

/// One age: between the ground and the ground with it, which is the next one's ground.
fn layer(
    frame: &Frame,
    points: &[Point],
    ground: &mut [u64],
    heights: &[u64],
    (class, name): (&str, &str),
) -> String {
    if heights.iter().all(|&height| height == 0) {
        return String::new();
    }
    let mut upper = Vec::new();
    let mut lower = Vec::new();
    for ((point, ground), height) in points.iter().zip(ground).zip(heights) {
        lower.push(corner(frame, point.wall_ms, *ground));
        *ground = ground.saturating_add(*height);
        upper.push(corner(frame, point.wall_ms, *ground));
    }
    lower.reverse();
    format!(
        "<polygon class=\"{class}\" points=\"{} {}\"><title>{name}</title></polygon>\n",
        upper.join(" "),
        lower.join(" ")
    )
}

fn axes(frame: &Frame) -> String {
    let [left, top, right, bottom] = MARGIN;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"memory by age over time\">\n\
         <rect class=\"paper\" x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\"/>\n",
        WIDTH - left - right,
        HEIGHT - top - bottom,
    );
    // Round in binary, as sizes are named.
    let step = (frame.most / LEVELS).max(1).next_power_of_two();
    for n in 0..=LEVELS {
        let bytes = step.saturating_mul(n);
        if bytes > frame.most {
            break;
        }
        let y = frame.y(bytes);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - right,
            left - 6.0,
            y + 4.0,
            Bytes(bytes),
        );
    }
    let fits = |step: &&u64| frame.span_ms / **step <= MARKS;
    let longest = frame.span_ms.div_ceil(MARKS);
    let step = STEPS_MS.iter().find(fits).copied().unwrap_or(longest);
    for n in 0..=MARKS {
        let after = step.saturating_mul(n);
        if after > frame.span_ms {
            break;
        }
        let at = frame.from_ms.saturating_add(after);
        let name = match at {
            0..100 => "0s".to_owned(),
            at => Millis(at / 100 * 100).to_string(),
        };
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
            frame.x(at),
            HEIGHT - bottom + 16.0,
        );
    }
    svg
}
