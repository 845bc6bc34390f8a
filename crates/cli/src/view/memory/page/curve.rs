//! What less memory would cost, as a line over the memory; and in numbers.
//!
//! Invariant: the line lies within the paper; a rate of nothing lies on its ground.

use std::fmt::Write;

use daemon::options::{Bytes, Millis};
use host::report::{Curve, Report};

use crate::view::share;
use crate::view::text::escaped;

use super::super::curve::{Decades, not_known, rate, rows, short, words};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 260.0;
/// Room for the axes: left, top, right, bottom.
const MARGIN: [f64; 4] = [62.0, 10.0, 14.0, 24.0];
/// Of the paper's height, for rates between nothing and the lowest decade.
const GROUND: f64 = 0.08;

/// What the axes span.
struct Frame {
    from: u64,
    span: u64,
    decades: Option<Decades>,
}

impl Frame {
    fn x(&self, bytes: u64) -> f64 {
        let [left, _, right, _] = MARGIN;
        let part = share(bytes.saturating_sub(self.from), self.span);
        left + part.clamp(0.0, 1.0) * (WIDTH - left - right)
    }

    fn y(&self, rate: f64) -> f64 {
        let [_, top, _, bottom] = MARGIN;
        let height = self.decades.and_then(|decades| decades.height(rate));
        let part = height.map_or(0.0, |height| GROUND + (1.0 - GROUND) * height);
        top + (1.0 - part) * (HEIGHT - top - bottom)
    }
}

/// Picture, words and table; nothing without a curve.
pub(super) fn curve(report: &Report) -> String {
    let Some(curve) = &report.curve else {
        return String::new();
    };
    let mut text = picture(curve);
    for (name, chosen) in [("limit", &curve.recommended), ("bend", &curve.knee)] {
        if let Some(chosen) = chosen {
            let words = escaped(&words(report, curve, chosen));
            let _ = writeln!(text, "<p><b>{name}</b> {words}</p>");
        }
    }
    let not_known = escaped(&not_known(report, curve));
    let _ = writeln!(text, "<p><b>not known</b> {not_known}</p>");
    text + &table(curve)
}

fn picture(curve: &Curve) -> String {
    let [first, .., last] = &curve.points[..] else {
        return String::new();
    };
    let frame = Frame {
        from: first.bytes,
        span: last.bytes.saturating_sub(first.bytes).max(1),
        decades: Decades::of(curve),
    };
    let mut svg = axes(&frame);
    let corners = curve.points.iter();
    let corners = corners.map(|point| {
        let (x, y) = (frame.x(point.bytes), frame.y(point.refaults_per_minute));
        format!("{x:.1},{y:.1}")
    });
    let corners: Vec<String> = corners.collect();
    let _ = writeln!(
        svg,
        "<polyline class=\"curve\" points=\"{}\"/>",
        corners.join(" ")
    );
    for (name, chosen) in [("limit", &curve.recommended), ("bend", &curve.knee)] {
        let Some(chosen) = chosen else { continue };
        let (x, y) = (frame.x(chosen.bytes), frame.y(chosen.refaults_per_minute));
        let _ = writeln!(
            svg,
            "<circle class=\"a0\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{name}: {}</title></circle>",
            Bytes(chosen.bytes)
        );
    }
    svg + "</svg>\n"
}

fn axes(frame: &Frame) -> String {
    let [left, top, right, bottom] = MARGIN;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"pages that would come back in a minute, by memory\">\n\
         <rect class=\"paper\" x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\"/>\n",
        WIDTH - left - right,
        HEIGHT - top - bottom,
    );
    let powers = frame.decades.into_iter().flat_map(Decades::powers);
    for value in std::iter::once(0.0).chain(powers) {
        let y = frame.y(value);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - right,
            left - 6.0,
            y + 4.0,
            short(value),
        );
    }
    for quarter in 0..=4 {
        let part = u128::from(frame.span) * quarter / 4;
        let part = u64::try_from(part).unwrap_or(frame.span);
        let bytes = frame.from.saturating_add(part);
        let anchor = if quarter == 4 { "end" } else { "middle" };
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            frame.x(bytes),
            HEIGHT - bottom + 16.0,
            Bytes(bytes),
        );
    }
    svg
}

fn table(curve: &Curve) -> String {
    let mut text = "<div class=\"scroll\"><table><tr><th>memory</th><th>idle for</th>\
        <th>back a minute</th><th>of the accesses</th></tr>\n"
        .to_owned();
    for point in rows(&curve.points) {
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.3}%</td></tr>",
            Bytes(point.bytes),
            Millis(point.idle_ms),
            rate(point.refaults_per_minute),
            100.0 * point.miss_ratio,
        );
    }
    text + "</table></div>"
}
