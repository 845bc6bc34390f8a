//! The limits that a manager enforces for the target, and its actions: as text, and for the HTML
//! page.
//!
//! Invariant: for a target without a manager, nothing is written, not even a heading.

use std::fmt::Write;

use daemon::options::{Bytes, Millis};
use host::report::{PolicyReport, Report};

use crate::view::sheet::Sheet;
use crate::view::text::escaped;
use crate::view::{clock, count};

/// Maximum number of latest actions shown as text; the HTML page and the JSON contain all.
const ACTIONS_MAX: usize = 3;

/// Returns facts about the manager: name, then text.
fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let limits = report.limits;
    let all = [
        ("memory-min", limits.min_bytes),
        ("memory-low", limits.low_bytes),
        ("memory-high", limits.high_bytes),
        ("memory-max", limits.max_bytes),
        ("swap-max", limits.swap_max_bytes),
    ];
    let all = all.into_iter();
    let mut facts: Vec<(&'static str, String)> = all
        .filter_map(|(name, bytes)| Some((name, Bytes(bytes?).to_string())))
        .collect();
    facts.extend(report.policy.as_ref().map(|one| ("policy", policy(one))));
    if let Some(written) = &report.write_back {
        let pages = format!(
            "{} pages were written back to disk",
            count(written.written_pages)
        );
        facts.push(("disk", pages));
    }
    facts
}

fn policy(one: &PolicyReport) -> String {
    let mut text = one.name.clone();
    if one.dry_run {
        text += ", which only reports what it would do";
    }
    if let Some(age) = one.threshold_ms {
        let _ = write!(text, ": what was not accessed for {}", Millis(age));
    }
    if let Some(limit) = one.limit_bytes {
        let _ = write!(text, ": what is above {}", Bytes(limit));
    }
    let _ = write!(
        text,
        "; {} pages paged out, {} refaulted",
        count(one.evicted_pages),
        count(one.came_back_pages)
    );
    text
}

/// Writes the facts and the latest actions as text.
pub(super) fn managed(report: &Report, sheet: &mut Sheet) {
    let facts = facts(report);
    if facts.is_empty() {
        return;
    }
    sheet.heading("Managed");
    for (name, text) in facts {
        sheet.row(name, &text);
    }
    let first = report.actions.len().saturating_sub(ACTIONS_MAX);
    for action in &report.actions[first..] {
        sheet.row("did", action);
    }
}

/// Returns the facts as HTML for the page, and all actions; those of the policy with their times.
pub(super) fn on_page(report: &Report) -> String {
    let facts = facts(report);
    if facts.is_empty() {
        return String::new();
    }
    let row =
        |(name, text): &(&str, String)| format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(text));
    let rows: String = facts.iter().map(row).collect();
    let mut text = format!("<dl>\n{rows}</dl>\n");
    let ordered = report
        .policy
        .iter()
        .flat_map(|one| one.actions.iter().rev());
    let ordered = ordered.map(|action| {
        let what = if action.is_dry {
            "would be paged out"
        } else {
            "paged out"
        };
        let why = escaped(&action.why);
        format!(
            "<li>{}: {} pages {what}: {why}</li>\n",
            clock(action.at_ms),
            count(action.pages)
        )
    });
    let ordered: String = ordered.collect();
    let done = report.actions.iter().rev();
    let done: String = done
        .map(|what| format!("<li>{}</li>\n", escaped(what)))
        .collect();
    for (heading, items) in [
        ("The policy, the latest first", ordered),
        ("What was done, the latest first", done),
    ] {
        if !items.is_empty() {
            let _ = write!(text, "<h3>{heading}</h3>\n<ul>\n{items}</ul>\n");
        }
    }
    text
}
