//! The ratios as a table, split into parts if the terminal is too narrow.
//!
//! Invariant: no part is wider than the terminal, or than [`TABLE_WIDTH_MIN`] if the terminal is
//! narrower, unless a single column is.

use std::fmt::Write;

use daemon::options::Pages;
use sim::mrc::{CurvePolicy, Curves};

use crate::terminal::Style;
use crate::view::count;

use super::part_of_all;

/// Minimum width that the table may use, in columns: enough for four or five policies side by side.
const TABLE_WIDTH_MIN: usize = 100;
/// Width of the columns for size, bytes and share, together.
const SIZES: usize = 31;

type Curve = (CurvePolicy, Vec<f64>);

/// Returns all parts of the table, one below the other.
pub(super) fn table(result: &Curves, style: Style) -> String {
    let parts = parts(&result.curves, style.width.max(TABLE_WIDTH_MIN));
    let parts = parts.into_iter().map(|part| lines(result, part, style));
    parts.collect::<Vec<_>>().join("\n")
}

/// Returns the width of a policy's column, with the gap before it.
fn width(policy: CurvePolicy) -> usize {
    2 + policy.name().len().max(6)
}

/// Splits the curves into groups that fit side by side.
fn parts(curves: &[Curve], columns: usize) -> Vec<&[Curve]> {
    let (mut parts, mut from, mut used) = (Vec::new(), 0, SIZES);
    for (n, (policy, _)) in curves.iter().enumerate() {
        if used + width(*policy) > columns && n > from {
            parts.push(&curves[from..n]);
            (from, used) = (n, SIZES);
        }
        used += width(*policy);
    }
    parts.push(&curves[from..]);
    parts
}

fn lines(result: &Curves, curves: &[Curve], style: Style) -> String {
    let mut heading = format!("{:>12} {:>10} {:>7}", "pages", "bytes", "of all");
    for (policy, _) in curves {
        let _ = write!(heading, "{:>width$}", policy.name(), width = width(*policy));
    }
    let mut text = format!("{}\n", style.dim(&heading));
    for (n, &size) in result.sizes.iter().enumerate() {
        let of_all = part_of_all(size, result.pages);
        let bytes = Pages(size).bytes().to_string();
        let _ = write!(text, "{:>12} {bytes:>10} {of_all:>7}", count(size));
        for (policy, ratios) in curves {
            let _ = write!(text, "{:>width$.4}", ratios[n], width = width(*policy));
        }
        text.push('\n');
    }
    text
}
