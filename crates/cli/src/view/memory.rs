//! Reports about the memory of processes (`host::report`): as text for people, as CSV, as an HTML
//! page.
//!
//! Invariant: the output depends only on the reports, so the same reports produce the same bytes.
//! For any numbers and names in a report, nothing overflows, and the output contains no control
//! characters of theirs.

mod bins;
mod curve;
mod foot;
mod managed;
pub(crate) mod needed;
mod processes;
pub(crate) mod words;

mod ages;
pub(crate) mod csv;
mod history;
mod reaccess;

mod page;

use bins::older_than;
pub(crate) use history::History;
pub(crate) use page::html;
pub(crate) use pictures::per_cent;
use words::cold;
pub(crate) use words::{source, source_of};

use daemon::options::{Bytes, Millis};
use host::report::Report;

use crate::terminal::Style;

use super::count;
use super::sheet::Sheet;

/// Formats a report for people, with a newline at the end.
pub(crate) fn human(report: &Report, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    needed::needed(report, &mut sheet);
    sheet.title(&words::target_name(report), &words::facts(report));
    sheet.blank();
    sizes(report, &mut sheet);
    managed::managed(report, &mut sheet);
    ages::ages(report, &mut sheet);
    ages::unknown(report, &mut sheet);
    reaccess::reaccess(report, &mut sheet);
    curve::curve(report, &mut sheet);
    processes::processes(report, &mut sheet);
    foot::costs(report, &mut sheet);
    foot::notes(report, &mut sheet);
    sheet.finish()
}

/// Returns how old the kernel's figure is, as text; empty if it is fresh. (For a program that
/// grows, an old figure looks like an error of ours.)
fn ago(ms: u64) -> String {
    match ms {
        0..1000 => String::new(),
        ms => format!(", {} ago", Millis(ms)),
    }
}

/// Writes how much memory the processes have, each with the kernel's own figure in parentheses.
fn sizes(report: &Report, sheet: &mut Sheet) {
    let says = report.kernel_says;
    let resident = Bytes(report.resident_bytes);
    let mut text = resident.to_string();
    // A control group's peak includes page cache, so it cannot be compared with resident memory.
    if report.charged_bytes.is_none() {
        text += &format!(", peak {}", Bytes(report.resident_peak_bytes));
    }
    if let Some(pss) = says.pss_bytes {
        text += &format!(
            " (kernel: {}, by Pss{})",
            Bytes(pss),
            ago(says.asked_ms_ago)
        );
    }
    sheet.row("resident", &text);
    if let Some(text) = cold(report) {
        sheet.row("cold", &text);
    }
    let mut text = Bytes(report.swapped_bytes).to_string();
    if let Some(pss) = says.swap_pss_bytes {
        text += &format!(" (kernel: {}{})", Bytes(pss), ago(says.asked_ms_ago));
    }
    text += &format!(
        "; {} pages out, {} back",
        count(report.evicted_pages),
        count(report.refaulted_pages)
    );
    sheet.row("swapped", &text);
    if let Some(text) = report.saving.words() {
        sheet.row("saved", &text);
    }
    if let Some(text) = charged(report) {
        sheet.row("charged", &text);
    }
    for (name, bytes, what) in apart(report) {
        let text = format!("{}{what}, not in resident, no ages", Bytes(bytes));
        sheet.row(name, &text);
    }
    if let Some((hundredths, of)) = says.pressure_some_avg10.zip(says.pressure_of) {
        sheet.row("pressure", &words::waited(hundredths, of));
    }
    if let Some(quantile) = &report.quantile {
        sheet.row("accessed", &words::accessed(quantile));
    }
    if let Some(needed) = &report.needed {
        sheet.row("price", &needed.price.words());
    }
    ended(report, sheet);
}

/// Returns the memory that is not part of the resident memory: names, bytes, and what it is.
fn apart(report: &Report) -> impl Iterator<Item = (&'static str, u64, &'static str)> {
    let all = [
        ("hugetlb", report.hugetlb_bytes, ""),
        ("secret", report.secret_bytes, " (memfd_secret)"),
        (
            "devices",
            report.device_bytes,
            " of mapped devices and rings",
        ),
        ("device map", report.pfn_bytes, " of addresses of devices"),
    ];
    all.into_iter().filter(|(_, bytes, _)| *bytes > 0)
}

/// Returns the text about the control group's charge, and how much of it is unmapped page cache and
/// kernel memory; `None` without a control group.
fn charged(report: &Report) -> Option<String> {
    let now = report.charged_bytes?;
    let peak = report.charged_peak_bytes;
    let peak = Bytes(peak.unwrap_or(report.resident_peak_bytes));
    let mut text = format!("{}, peak {peak}", Bytes(now));
    let parts = [
        ("unmapped page cache", report.unmapped_cache_bytes),
        ("kernel memory", report.kernel_bytes),
    ];
    let parts = parts.into_iter().filter_map(|(name, bytes)| {
        let bytes = Bytes(bytes?);
        Some(format!("{bytes} of {name}"))
    });
    let parts: Vec<_> = parts.collect();
    if !parts.is_empty() {
        text += &format!(", with {}", parts.join(" and "));
    }
    // A hundredth of the charge is less than the kernel's counters are off by.
    let rest = report.charged_rest_bytes.unwrap_or(0);
    if rest.unsigned_abs() > now / 100 {
        let bytes = Bytes(rest.unsigned_abs());
        text += &match rest {
            ..0 => format!("; other groups are charged for {bytes} of its resident memory"),
            _ => format!("; {bytes} is none of these and not resident here (swap cache, files)"),
        };
    }
    Some(text)
}

fn ended(report: &Report, sheet: &mut Sheet) {
    let ended = report.ended;
    if ended.processes == 0 {
        return;
    }
    let mut text = words::processes(ended.processes);
    if ended.unseen > 0 {
        text += &format!(" ({} lived between two scans)", count(ended.unseen));
    }
    if ended.peak_resident_bytes > 0 {
        text += &format!(", the largest had {}", Bytes(ended.peak_resident_bytes));
    }
    if !ended.counted_by_events {
        text += "; short-lived ones may be missing";
    }
    sheet.row("ended", &text);
}

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
