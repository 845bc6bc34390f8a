//! Horizontal bars: memory by kind, each divided by age, and what was touched again.

use std::fmt::Write;

use daemon::options::Bytes;
use host::report::{AgeBin, Report};

use crate::view::{count, share};

use super::super::bins::{fold, fold_reaccessed};
use super::super::reaccess::{self, PAGE, meaning};
use super::{AGES, EDGES_MS, age_name, legend_of};

const WIDTH: f64 = 760.0;
/// Where bars begin and end; figures stand at the right.
const LEFT: f64 = 90.0;
const RIGHT: f64 = 670.0;
/// Rows.
const STEP: u32 = 30;
const THICK: u32 = 20;

/// A bar: its name, and its parts as class, name and bytes.
struct Bar {
    name: &'static str,
    parts: Vec<(String, String, u64)>,
}

impl Bar {
    fn total(&self) -> u64 {
        self.parts
            .iter()
            .fold(0, |sum, part| sum.saturating_add(part.2))
    }
}

/// Anonymous, file, unknown, swapped: on one scale.
pub(super) fn bars(report: &Report) -> String {
    let rows = fold(report, EDGES_MS.into_iter());
    let by_age = |name, bytes: fn(&AgeBin) -> u64| {
        let parts = rows.iter().enumerate();
        let parts = parts.map(|(n, row)| (format!("a{n}"), age_name(n), bytes(row)));
        Bar {
            name,
            parts: parts.collect(),
        }
    };
    let plain = |name: &'static str, class: &str, bytes| Bar {
        name,
        parts: vec![(class.to_owned(), name.to_owned(), bytes)],
    };
    let all = [
        by_age("anonymous", |row| row.anon_bytes),
        by_age("file", |row| row.file_bytes),
        plain("age unknown", "un", report.unknown_age_bytes),
        plain("swapped", "out", report.swapped_bytes),
    ];
    let shown: Vec<Bar> = all.into_iter().filter(|bar| bar.total() > 0).collect();
    if shown.is_empty() {
        return String::new();
    }
    let mut used = [false; AGES];
    for (used, row) in used.iter_mut().zip(&rows) {
        *used = row.anon_bytes > 0 || row.file_bytes > 0;
    }
    draw(&shown) + &legend_of(used, &[])
}

fn draw(bars: &[Bar]) -> String {
    let most = bars.iter().map(Bar::total).max().unwrap_or(0);
    let height = STEP * u32::try_from(bars.len()).unwrap_or(1) + 8;
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n");
    for (bar, top) in bars.iter().zip((4u32..).step_by(STEP as usize)) {
        let middle = top + 15;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            bar.name
        );
        let mut before = 0u64;
        for (class, name, bytes) in bar.parts.iter().filter(|part| part.2 > 0) {
            let after = before.saturating_add(*bytes);
            let (x, end) = (place(before, most), place(after, most));
            let _ = writeln!(
                svg,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{top}\" width=\"{:.1}\" \
                 height=\"{THICK}\"><title>{}, {name}: {}</title></rect>",
                (end - x).max(0.5),
                bar.name,
                Bytes(*bytes),
            );
            before = after;
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{middle}\">{}</text>",
            place(before, most) + 6.0,
            Bytes(bar.total()),
        );
    }
    svg + "</svg>\n"
}

fn place(bytes: u64, most: u64) -> f64 {
    LEFT + share(bytes, most).clamp(0.0, 1.0) * (RIGHT - LEFT)
}

/// Pages touched again, by the age they had: what could not have left for good.
pub(super) fn again(report: &Report) -> String {
    let edges = reaccess::EDGES_MS;
    let rows = fold_reaccessed(report, &edges);
    // The youngest row is memory in use.
    let last = rows.iter().rposition(|&pages| pages > 0).unwrap_or(0);
    if last == 0 {
        return String::new();
    }
    let rows = &rows[1..=last];
    let most = rows.iter().copied().max().unwrap_or(0);
    let height = STEP * u32::try_from(rows.len()).unwrap_or(1) + 8;
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n");
    for ((n, &pages), top) in rows.iter().enumerate().zip((4u32..).step_by(STEP as usize)) {
        let name = age_name(n + 1);
        let end = place(pages, most);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{name}</text>\
             <rect class=\"a{class}\" x=\"{LEFT}\" y=\"{top}\" width=\"{:.1}\" height=\"{THICK}\">\
             <title>after {name}: {} pages</title></rect>\
             <text x=\"{:.1}\" y=\"{middle}\">{}</text>",
            LEFT - 8.0,
            end - LEFT,
            count(pages),
            end + 6.0,
            Bytes(pages.saturating_mul(PAGE)),
            middle = top + 15,
            class = n + 1,
        );
    }
    let meaning = meaning(report).unwrap_or_default();
    format!("{svg}</svg>\n<p>{meaning}</p>\n")
}
