//! A report for people.
//!
//! Invariant: at most `style.width` columns but for figures that are wider alone; a line whose
//! figure is nothing is left out, unless nothing is the news.

use pager::options::{Bytes, Limit};
use pager::report::{DryRun, Report};

use crate::terminal::Style;

use super::{age_rows, clock, count, cut, effective_limit, resident_bar};

/// The whole report, newline at the end.
pub(crate) fn report(report: &Report, style: Style) -> String {
    let mut lines = vec![title(report, style), String::new()];
    lines.extend(memory(report, style));
    lines.extend(activity(report));
    lines.extend(costs(report));
    let ages = age_rows(report, style);
    if !ages.is_empty() {
        lines.push(String::new());
        lines.push(style.bold("Page age"));
        lines.extend(ages);
    }
    lines.extend(unevictable(report, style));
    if let Some(dry) = &report.dry_run {
        lines.extend(dry_run(dry, style));
    }
    lines.join("\n") + "\n"
}

/// The command at the left, pid and time at the right.
fn title(report: &Report, style: Style) -> String {
    let facts = format!("pid {}, managed for {}", report.pid, clock(report.wall_ms));
    let ended = match report.exit {
        Some(code) => format!(", ended with {code}"),
        None => String::new(),
    };
    let right = facts + &ended;
    let room = style.width.saturating_sub(right.len() + 2).max(12);
    let command = cut(&report.command.join(" "), room, style.unicode);
    format!("{}  {}", style.bold(&command), style.dim(&right))
}

fn row(name: &str, value: impl std::fmt::Display) -> String {
    format!("  {name:<10} {value}")
}

fn memory(report: &Report, style: Style) -> Vec<String> {
    let resident = Bytes(report.resident_bytes);
    let peak = Bytes(report.resident_peak_bytes);
    let mut lines = vec![match effective_limit(report) {
        Some((name, limit)) => row(
            "resident",
            format!(
                "{resident} of {limit} ({name})  {}  peak {peak}",
                resident_bar(report.resident_bytes, limit, style)
            ),
        ),
        None => row("resident", format!("{resident}, no limit, peak {peak}")),
    }];
    lines.push(row("stored", stored(report)));
    let others = [
        ("min", report.limits.min),
        ("low", report.limits.low),
        ("swap max", report.limits.swap_max),
    ];
    let set: Vec<_> = others
        .into_iter()
        .filter(|(_, limit)| *limit != Limit::Max && *limit != Limit::Bytes(Bytes(0)))
        .map(|(name, limit)| format!("{name} {limit}"))
        .collect();
    if !set.is_empty() {
        lines.push(row("limits", set.join(", ")));
    }
    lines
}

/// `100 MiB in 31 MiB of store (3.2 to 1, lz4, mem)`.
pub(super) fn stored(report: &Report) -> String {
    let mut text = format!(
        "{} in {} of store",
        Bytes(report.stored_bytes),
        Bytes(report.store_used_bytes)
    );
    let ratio = report.compression_ratio().map(|r| format!("{r:.1} to 1"));
    let facts = [
        ratio,
        Some(report.compress.name().to_owned()),
        (!report.store.is_empty()).then(|| report.store.clone()),
        (report.zero_pages > 0).then(|| format!("{} same-filled pages", count(report.zero_pages))),
    ];
    let facts: Vec<_> = facts.into_iter().flatten().collect();
    text += &format!(" ({})", facts.join(", "));
    text
}

fn activity(report: &Report) -> Vec<String> {
    let faults = report.faults;
    vec![
        row(
            "pages",
            format!(
                "{} put out, {} came back, {} proved young in limbo",
                count(report.evicted_pages),
                count(report.refaulted_pages),
                count(report.limbo_returns),
            ),
        ),
        row(
            "faults",
            match faults.count {
                0 => "none".to_owned(),
                n => format!(
                    "{}, median {} us, 99% within {} us",
                    count(n),
                    count(faults.p50_us),
                    count(faults.p99_us)
                ),
            },
        ),
    ]
}

fn costs(report: &Report) -> Vec<String> {
    let cost = report.overhead;
    let mut text = format!("{} of CPU", clock(cost.cpu_ms));
    if let Some(per_mille) = cost.cpu_ms.saturating_mul(1000).checked_div(report.wall_ms) {
        text += &format!(" ({}.{}% of one)", per_mille / 10, per_mille % 10);
    }
    if cost.memory_bytes > 0 {
        text += &format!(", {} of memory beside the store", Bytes(cost.memory_bytes));
    }
    let mut lines = vec![row("overhead", text)];
    if !report.children.is_empty() {
        let pids: Vec<_> = report.children.iter().map(u32::to_string).collect();
        let text = format!("{}: {}", pids.len(), pids.join(" "));
        lines.push(row("children", cut(&text, 60, false)));
    }
    if report.max_events > 0 {
        let text = format!("over max {} times, brought back", count(report.max_events));
        lines.push(row("events", text));
    }
    if report.keepers_replaced > 0 {
        let text = format!("{} keepers died and were replaced", report.keepers_replaced);
        lines.push(row("events", text));
    }
    lines
}

fn unevictable(report: &Report, style: Style) -> Vec<String> {
    let mut reasons: Vec<_> = report.unevictable_pages.iter().collect();
    reasons.retain(|(_, pages)| **pages > 0);
    if reasons.is_empty() {
        return Vec::new();
    }
    reasons.sort_by_key(|(_, pages)| std::cmp::Reverse(**pages));
    let rows = reasons.into_iter().map(|(reason, pages)| {
        let bytes = Bytes(pages.saturating_mul(4096));
        format!("  {:>9}  {}", bytes.to_string(), reason.words())
    });
    let heading = [String::new(), style.bold("Cannot leave")];
    heading.into_iter().chain(rows).collect()
}

/// The last decisions: enough to see the pattern; all of them are in the JSON.
fn dry_run(dry: &DryRun, style: Style) -> Vec<String> {
    const SHOWN: usize = 8;
    let pages = dry.would_evict_pages;
    let bytes = Bytes(pages.saturating_mul(4096));
    let mut lines = vec![
        String::new(),
        format!(
            "{}: {} pages ({bytes}) would have left",
            style.bold("Dry run"),
            count(pages)
        ),
    ];
    for decision in dry.decisions.iter().rev().take(SHOWN) {
        let text = format!(
            "  {:#014x} {:>6} pages, untouched for {}: {}",
            decision.start,
            count(decision.pages),
            clock(decision.age_ms),
            decision.reason,
        );
        lines.push(cut(&text, style.width, style.unicode));
    }
    let shown = dry.decisions.len().min(SHOWN);
    let more = dry
        .left_out
        .saturating_add(u64::try_from(dry.decisions.len() - shown).unwrap_or(0));
    if more > 0 {
        lines.push(style.dim(&format!("  and {} earlier decisions", count(more))));
    }
    lines
}
