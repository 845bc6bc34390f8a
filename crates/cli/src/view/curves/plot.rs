//! The plot for a terminal: miss ratio over memory size, with a character for each policy.
//!
//! Invariant: without the axes, the plot has exactly [`ROWS`] rows and the requested number of
//! columns. Where two curves meet, the later one is visible, and the multi-gen LRU's before any
//! other.

use std::fmt::Write;

use sim::mrc::{CurvePolicy, Curves};

use crate::terminal::Style;
use crate::view::share;

use super::OURS;

const ROWS: usize = 14;
/// Character of each policy's curve, in the order of the curves.
const MARKS: [char; CurvePolicy::ALL.len()] = ['*', 'o', '+', 'x', '#', 'a', 's', 'v', 'l', 'w'];
const AXIS: usize = 7;

/// Returns the plot and its legend; empty if there is only one size.
pub(super) fn plot(result: &Curves, style: Style) -> String {
    let most = result.sizes.last().copied().unwrap_or(0);
    if result.sizes.len() < 2 {
        return String::new();
    }
    let columns = style.width.saturating_sub(AXIS + 2).clamp(16, 72);
    let mut cells = vec![vec![' '; columns]; ROWS];
    let mut curves: Vec<_> = result.curves.iter().zip(MARKS).collect();
    curves.sort_by_key(|((policy, _), _)| *policy == OURS);
    for ((_, ratios), mark) in curves {
        let points = (0..columns).map(|column| {
            let size = share_of(column, columns) * share(most, 1);
            (column, at(result, ratios, size))
        });
        for (column, ratio) in points.filter_map(|(column, ratio)| Some((column, ratio?))) {
            cells[row(ratio)][column] = mark;
        }
    }
    let mut text = String::new();
    for (n, line) in cells.iter().enumerate() {
        let label = match n {
            0 => "1.0",
            n if n == ROWS / 2 => "0.5",
            n if n == ROWS - 1 => "0.0",
            _ => "",
        };
        let line: String = line.iter().collect();
        let _ = writeln!(text, "{label:>5} |{}", line.trim_end());
    }
    let _ = writeln!(text, "{:>5} +{}", "", "-".repeat(columns));
    let all = crate::view::count(most);
    let right = columns.saturating_sub(1);
    let _ = writeln!(text, "{:>7}{all:>right$}", "0");
    text + &legend(result, style.width) + "\n"
}

/// Returns which character stands for which policy, in lines that fit.
fn legend(result: &Curves, width: usize) -> String {
    let mut lines = vec!["  miss ratio by pages:".to_owned()];
    for ((policy, _), mark) in result.curves.iter().zip(MARKS) {
        let entry = format!("  {mark} {}", policy.name());
        match lines.last_mut() {
            Some(line) if line.len() + entry.len() <= width => line.push_str(&entry),
            _ => lines.push(format!("{:22}{entry}", "")),
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the middle of a column as a share of the plot's width, 0 to 1.
fn share_of(column: usize, columns: usize) -> f64 {
    share(2 * column as u64 + 1, 2 * columns as u64)
}

/// Interpolates the ratio at `size` between the known sizes; `None` below the first of them.
fn at(result: &Curves, ratios: &[f64], size: f64) -> Option<f64> {
    let sizes: Vec<f64> = result.sizes.iter().map(|&size| share(size, 1)).collect();
    let right = sizes.iter().position(|&known| known >= size)?;
    let left = right.checked_sub(1)?;
    let span = sizes[right] - sizes[left];
    let part = (size - sizes[left]) / span;
    Some(ratios[left] + part * (ratios[right] - ratios[left]))
}

fn row(ratio: f64) -> usize {
    let steps = f64::from(u32::try_from(ROWS - 1).unwrap_or(1));
    let down = ((1.0 - ratio.clamp(0.0, 1.0)) * steps).round();
    (0..ROWS)
        .rev()
        .find(|&n| share(n as u64, 1) <= down)
        .unwrap_or(0)
}
