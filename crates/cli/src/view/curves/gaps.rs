//! How many more misses the multi-gen LRU has than each other policy: as text, as JSON, and as a
//! table of the HTML page.
//!
//! Invariant: signs are those of [`sim::mrc::Gap`]: above zero means more misses, which is worse.

use std::fmt::Write;

use serde_json::{Value, json};
use sim::mrc::{Curves, Gap};

use crate::terminal::Style;
use crate::view::count;

use super::OURS;

/// Formats a heading and one line for each policy; empty if there is only one policy, or no
/// multi-gen LRU.
pub(super) fn human(result: &Curves, style: Style) -> String {
    let gaps = result.gaps(OURS);
    if gaps.is_empty() {
        return String::new();
    }
    let mut text =
        "\nMisses of lru-gen, more (+) or fewer (-) than of each other policy:\n".to_owned();
    let heading = format!(
        "{:>17}{:>10}  {:>24}  {:>24}",
        "", "mean", "at best (pages)", "at worst (pages)"
    );
    let _ = writeln!(text, "{}", style.dim(&heading));
    for gap in &gaps {
        let mean = gap.mean().map_or("-".to_owned(), percent);
        let _ = writeln!(
            text,
            "{:>17}{mean:>10}  {:>24}  {:>24}",
            gap.to.name(),
            extreme(result, gap.least()),
            extreme(result, gap.most()),
        );
    }
    text
}

/// Formats a share as `+1.2%`; a share that rounds to zero has no sign.
fn percent(share: f64) -> String {
    let text = format!("{:+.1}%", 100.0 * share);
    match text.as_str() {
        "+0.0%" | "-0.0%" => "0.0%".to_owned(),
        _ => text,
    }
}

fn extreme(result: &Curves, at: Option<(usize, f64)>) -> String {
    at.map_or("-".to_owned(), |(n, share)| {
        format!("{} ({})", percent(share), count(result.sizes[n]))
    })
}

/// Returns the gaps at one size, by policy.
pub(super) fn at_size(gaps: &[Gap], n: usize) -> Value {
    object(gaps, |gap| gap.more[n])
}

/// Returns the mean gaps over all sizes, by policy.
pub(super) fn means(gaps: &[Gap]) -> Value {
    object(gaps, Gap::mean)
}

fn object(gaps: &[Gap], figure: impl Fn(&Gap) -> Option<f64>) -> Value {
    let entries = gaps
        .iter()
        .map(|gap| (gap.to.name().to_owned(), json!(figure(gap))));
    Value::Object(entries.collect())
}

/// Formats a table for the HTML page: a row for each size, a column for each policy.
pub(super) fn html(result: &Curves) -> String {
    let gaps = result.gaps(OURS);
    if gaps.is_empty() {
        return String::new();
    }
    let mut text = "<h2>Misses of lru-gen, more (+) or fewer (-) than of each other policy</h2>\n\
                    <div class=\"wide\"><table><tr><th>pages</th>"
        .to_owned();
    for gap in &gaps {
        let _ = write!(text, "<th>{}</th>", gap.to.name());
    }
    text += "</tr>\n";
    let cells = |figure: &dyn Fn(&Gap) -> Option<f64>| {
        let cell = |gap| figure(gap).map_or("-".to_owned(), percent);
        let cells = gaps.iter().map(|gap| format!("<td>{}</td>", cell(gap)));
        cells.collect::<String>()
    };
    for (n, &size) in result.sizes.iter().enumerate() {
        let row = cells(&|gap| gap.more[n]);
        let _ = writeln!(text, "<tr><td>{}</td>{row}</tr>", count(size));
    }
    let _ = writeln!(
        text,
        "<tr class=\"sum\"><td>mean</td>{}</tr>",
        cells(&Gap::mean)
    );
    text + "</table></div>\n"
}
