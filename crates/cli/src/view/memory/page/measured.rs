//! The part of the HTML page that says how its figures were measured.

use daemon::options::Bytes;
use host::report::Report;

use crate::view::text::escaped;
use crate::view::{clock, count};

use super::super::foot::{cost, scans};
use super::super::words::waited;
use super::super::{charged, source};

/// Returns the figures about the measurement, each with its name.
pub(super) fn measured(report: &Report) -> String {
    let says = report.kernel_says;
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| Bytes(bytes).to_string());
    let pressure = says.pressure_some_avg10.zip(says.pressure_of);
    let pressure = pressure.map(|(hundredths, of)| waited(hundredths, of));
    let price = report.needed.as_ref().map(|needed| needed.price.words());
    let ended = report.ended;
    let ended = (ended.processes > 0).then(|| {
        format!(
            "{}, {} of them between two scans; the largest had {}",
            count(ended.processes),
            count(ended.unseen),
            Bytes(ended.peak_resident_bytes)
        )
    });
    let rows = [
        ("ages from", Some(source(report).to_owned())),
        ("scans", Some(scans(report))),
        ("watched for", Some(clock(report.wall_ms))),
        ("cost", Some(cost(report))),
        (
            "hugetlb, not in resident",
            bytes(Some(report.hugetlb_bytes).filter(|bytes| *bytes > 0)),
        ),
        (
            "secret, not in resident",
            bytes(Some(report.secret_bytes).filter(|bytes| *bytes > 0)),
        ),
        (
            "mapped devices and rings, not in resident",
            bytes(Some(report.device_bytes).filter(|bytes| *bytes > 0)),
        ),
        (
            "mapped addresses of devices",
            bytes(Some(report.pfn_bytes).filter(|bytes| *bytes > 0)),
        ),
        (
            "memory of our own",
            bytes(Some(report.overhead.memory_bytes)),
        ),
        ("the kernel's Pss", bytes(says.pss_bytes)),
        ("the kernel's SwapPss", bytes(says.swap_pss_bytes)),
        ("saved by swap", report.saving.words()),
        ("charged to the group", charged(report)),
        ("pressure", pressure),
        ("price", price),
        ("processes that ended", ended),
    ];
    let row = |(name, value): (&str, Option<String>)| {
        let value = escaped(&value?);
        Some(format!("<dt>{name}</dt><dd>{value}</dd>\n"))
    };
    let rows: String = rows.into_iter().filter_map(row).collect();
    format!(
        "<p>An age is the time since a scan last saw that a page had been used; it is at most as \
         long as the watching was. What cannot be known is called unknown, never old.</p>\n\
         <dl>\n{rows}</dl>\n"
    )
}

/// Returns the notes for the user.
pub(super) fn notes(report: &Report) -> String {
    if report.notes.is_empty() {
        return String::new();
    }
    let items = report.notes.iter();
    let items: String = items
        .map(|note| format!("<li>{}</li>\n", escaped(note)))
        .collect();
    format!("<ul>\n{items}</ul>\n")
}
