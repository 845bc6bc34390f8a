//! A table as a picture: inline SVG, no script, no network.
//!
//! Numbers over numbers become lines, numbers over names become bars. Columns of one unit (what
//! stands in parentheses) share a picture, others get their own. Axes start at zero; an axis of
//! which the largest value is a thousand times the smallest is logarithmic.

use crate::outcome::{Cell, Table};
use crate::stats::number;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 46.0;
const BARS_MAX: usize = 48;
const COLORS: [&str; 6] = [
    "#2f6fb2", "#d1622b", "#3c8d53", "#8a5aa8", "#b5892a", "#58616b",
];

/// The pictures of a table; none if there is nothing to see in it.
pub(super) fn plots(table: &Table) -> String {
    let rows = table.rows.len();
    if rows < 2 {
        return String::new();
    }
    let xs = numbers(table, 0);
    let mut text = String::new();
    for unit in units(table) {
        let series: Vec<Series> = (1..table.columns.len())
            .filter(|&c| unit_of(&table.columns[c]) == unit)
            .filter_map(|c| Some((table.columns[c].as_str(), numbers(table, c)?)))
            .collect();
        if series.is_empty() {
            continue;
        }
        text += &match &xs {
            Some(xs) => lines(&table.columns[0], xs, &series),
            None if rows <= BARS_MAX => bars(table, &series),
            None => String::new(),
        };
    }
    text
}

type Series<'a> = (&'a str, Vec<Option<f64>>);

/// A column as numbers; `None` if there is a name in it, or no number at all.
fn numbers(table: &Table, column: usize) -> Option<Vec<Option<f64>>> {
    let mut values = Vec::new();
    for row in &table.rows {
        values.push(match &row[column] {
            Cell::Count(count) => Some(number(*count)),
            Cell::Figure(value) => Some(*value).filter(|value| value.is_finite()),
            Cell::Empty => None,
            Cell::Text(_) => return None,
        });
    }
    values.iter().any(Option::is_some).then_some(values)
}

fn unit_of(name: &str) -> &str {
    let inner = name
        .rsplit_once('(')
        .and_then(|(_, rest)| rest.split_once(')'));
    inner.map_or(name, |(unit, _)| unit)
}

fn units(table: &Table) -> Vec<&str> {
    let mut units = Vec::new();
    for name in table.columns.iter().skip(1) {
        if !units.contains(&unit_of(name)) {
            units.push(unit_of(name));
        }
    }
    units
}

/// Values to places on the paper.
struct Axis {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let high = values.clone().fold(f64::MIN, f64::max);
        let low = values.fold(f64::MAX, f64::min);
        let log = low > 0.0 && high / low >= 1000.0;
        let low = if log { low } else { low.min(0.0) };
        let high = if high > low { high } else { low + 1.0 };
        Self {
            low,
            high,
            log,
            from,
            to,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let part = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Round values to draw marks at.
    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let decades = (-12i32..=18).map(|n| 10f64.powi(n));
            let inside = |v: &f64| *v >= self.low * 0.999 && *v <= self.high * 1.001;
            return decades.filter(inside).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let unit = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|n| n * unit);
        let step = steps.into_iter().find(|s| *s >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil();
        (0..12)
            .map(|n| (first + f64::from(n)) * step)
            .take_while(|v| *v <= self.high * (1.0 + 1e-9))
            .collect()
    }
}

fn open(series: &[Series], y: &Axis) -> String {
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><rect width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" class=\"paper\"/>\n"
    );
    for tick in y.ticks() {
        let at = y.at(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" class=\"grid\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            short(tick),
        );
    }
    let mut left = LEFT;
    for (n, (name, _)) in series.iter().enumerate() {
        let color = COLORS[n % COLORS.len()];
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{color}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            HEIGHT - 14.0,
            left + 14.0,
            HEIGHT - 5.0,
            super::html::escaped(name),
        );
        left += 28.0 + 7.0 * number(name.chars().count() as u64);
    }
    svg
}

fn values(series: &[Series]) -> Vec<f64> {
    let all = series
        .iter()
        .flat_map(|(_, values)| values.iter().flatten());
    all.copied().collect()
}

fn lines(x_name: &str, xs: &[Option<f64>], series: &[Series]) -> String {
    let y = Axis::new(values(series).into_iter(), HEIGHT - BOTTOM, TOP);
    let x = Axis::new(xs.iter().flatten().copied(), LEFT, WIDTH - RIGHT);
    let mut svg = open(series, &y);
    for tick in x.ticks() {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x.at(tick),
            HEIGHT - BOTTOM + 14.0,
            short(tick),
        );
    }
    for (n, (_, values)) in series.iter().enumerate() {
        let color = COLORS[n % COLORS.len()];
        let mut points: Vec<(f64, f64)> = xs
            .iter()
            .zip(values)
            .filter_map(|(x, y)| Some(((*x)?, (*y)?)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let places: Vec<String> = points
            .iter()
            .map(|(px, py)| format!("{:.1},{:.1}", x.at(*px), y.at(*py)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.6\"/>",
            places.join(" ")
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text></svg>",
        WIDTH - RIGHT,
        HEIGHT - BOTTOM + 28.0,
        super::html::escaped(x_name),
    );
    svg
}

fn bars(table: &Table, series: &[Series]) -> String {
    let y = Axis::new(values(series).into_iter(), HEIGHT - BOTTOM, TOP);
    let mut svg = open(series, &y);
    let rows = number(table.rows.len() as u64);
    let slot = (WIDTH - LEFT - RIGHT) / rows;
    let width = slot * 0.8 / number(series.len() as u64);
    for (r, row) in table.rows.iter().enumerate() {
        let from = LEFT + slot * (number(r as u64) + 0.1);
        for (n, (_, values)) in series.iter().enumerate() {
            let Some(value) = values[r] else { continue };
            let (top, zero) = (y.at(value), y.at(y.low.max(0.0)));
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                from + width * number(n as u64),
                top.min(zero),
                width.max(0.5),
                (zero - top).abs(),
                COLORS[n % COLORS.len()],
            );
        }
        let name = super::cell(&row[0]);
        let room = slot / 6.5;
        let shown: String = name
            .chars()
            .enumerate()
            .take_while(|(n, _)| number(*n as u64) < room)
            .map(|(_, c)| c)
            .collect();
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            from + slot * 0.4,
            HEIGHT - BOTTOM + 14.0,
            super::html::escaped(&shown),
        );
    }
    svg + "</svg>\n"
}

/// A number on an axis.
fn short(value: f64) -> String {
    for (unit, letter) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value.abs() >= unit {
            return format!("{}{letter}", trimmed(value / unit));
        }
    }
    trimmed(value)
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}
