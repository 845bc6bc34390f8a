//! Miss-ratio curves as text with a plot, as JSON, as CSV and as an HTML page.
//!
//! Invariant: the output depends only on the result, so the same trace produces the same bytes. The
//! trace's name is not trusted: it is shown as text, without control characters.

mod chart;
mod gaps;
mod plot;
mod table;

mod page;

pub(crate) use page::html;

use std::fmt::Write;

use daemon::options::{PAGE_SIZE, Pages};
use serde_json::json;
use sim::mrc::{CurvePolicy, Curves};

use crate::terminal::Style;

use super::text::{json_lines, plain};
use super::{count, share};

/// Describes a trace in one line.
fn summary(name: &str, result: &Curves) -> String {
    let about = if result.sampled_pages.is_some() && result.curves.len() == 1 {
        "about "
    } else {
        ""
    };
    let mut text = format!(
        "{name} ({}): {} references to {about}{} pages, {}",
        result.format.name(),
        count(result.references),
        count(result.pages),
        Pages(result.pages).bytes(),
    );
    if let Some(sampled) = result.sampled_pages {
        let _ = write!(text, "; sampled {} of them", count(sampled));
    }
    if result.left_out > 0 {
        let _ = write!(
            text,
            "; {} records are no references",
            count(result.left_out)
        );
    }
    if let Some(note) = &result.note {
        let _ = write!(text, "; {note}");
    }
    text
}

/// Formats a size as a part of all pages. For a larger memory the text is `> 100%`, as more memory
/// makes no difference.
fn part_of_all(size: u64, pages: u64) -> String {
    match size > pages {
        true => "> 100%".to_owned(),
        false => format!("{:.1}%", 100.0 * share(size, pages)),
    }
}

/// The policy that is compared with each other policy.
const OURS: CurvePolicy = CurvePolicy::LruGen;

/// Formats the result for people.
pub(crate) fn human(name: &str, result: &Curves, style: Style) -> String {
    let mut text = plain(&summary(name, result), style.unicode) + "\n\n";
    text += &plot::plot(result, style);
    text += &table::table(result, style);
    text += &gaps::human(result, style);
    text
}

/// Formats the result as one JSON object.
pub(crate) fn json(name: &str, result: &Curves) -> String {
    let gaps = result.gaps(OURS);
    let sizes = result.sizes.iter().enumerate();
    let sizes = sizes.map(|(n, &pages)| {
        let ratios = result
            .curves
            .iter()
            .map(|(policy, ratios)| (policy.name().to_owned(), json!(ratios[n])));
        let ratios: serde_json::Map<_, _> = ratios.collect();
        let mut size = json!({
            "pages": pages, "bytes": Pages(pages).bytes().0, "miss_ratio": ratios
        });
        if !gaps.is_empty() {
            size["lru_gen_more_misses"] = gaps::at_size(&gaps, n);
        }
        size
    });
    let mut value = json!({
        "file": name,
        "format": result.format.name(),
        "references": result.references,
        "pages": result.pages,
        "sampled_pages": result.sampled_pages,
        "left_out": result.left_out,
        "note": result.note,
        "page_bytes": PAGE_SIZE,
        "sizes": sizes.collect::<Vec<_>>(),
    });
    if !gaps.is_empty() {
        value["lru_gen_more_misses_mean"] = gaps::means(&gaps);
    }
    json_lines(&value) + "\n"
}

/// Formats the result as CSV: a line of names, then one line for each size.
pub(crate) fn csv(result: &Curves) -> String {
    let names = result.curves.iter().map(|(policy, _)| policy.name());
    let names: Vec<_> = ["pages", "bytes"].into_iter().chain(names).collect();
    let mut text = names.join(",") + "\n";
    for (n, &pages) in result.sizes.iter().enumerate() {
        let _ = write!(text, "{pages},{}", Pages(pages).bytes().0);
        for (_, ratios) in &result.curves {
            let _ = write!(text, ",{}", ratios[n]);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
