//! Both runs side by side.

use std::io::{self, Write};

use pager::options::Bytes;
use pager::report::Report;
use serde::Serialize;

use super::alone::Alone;
use super::{Managed, Outcome};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::{clock, count};

/// The result of the demo; also its JSON.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    ok: bool,
    same_checksum: bool,
    limit_held: bool,
    peak_alone_bytes: Bytes,
    limit_bytes: Bytes,
    resident_peak_bytes: Bytes,
    /// The most that was out at a time.
    stored_bytes: Bytes,
    store_used_bytes: Bytes,
    compression_ratio: Option<f64>,
    /// Operations a second, managed to alone.
    speed_ratio: f64,
    alone: Outcome,
    managed: Outcome,
    exit: i32,
    report: Report,
}

impl Verdict {
    pub(super) fn new(alone: &Alone, managed: Managed, limit: Bytes) -> Verdict {
        let peak = managed.report.resident_peak_bytes;
        // The limit holds within a twentieth; a peak of nothing was not measured.
        let limit_held = peak > 0 && peak <= limit.0.saturating_add(limit.0 / 20);
        let same_checksum = alone.outcome.checksum == managed.outcome.checksum;
        Verdict {
            ok: limit_held && same_checksum,
            same_checksum,
            limit_held,
            peak_alone_bytes: alone.peak,
            limit_bytes: limit,
            resident_peak_bytes: Bytes(peak),
            stored_bytes: Bytes(managed.fullest.stored_bytes),
            store_used_bytes: Bytes(managed.fullest.store_used_bytes),
            compression_ratio: managed.fullest.compression_ratio(),
            speed_ratio: crate::view::share(managed.outcome.ops_per_s(), alone.outcome.ops_per_s()),
            alone: alone.outcome.clone(),
            managed: managed.outcome,
            exit: managed.code,
            report: managed.report,
        }
    }

    pub(super) fn print(&self, json: bool, style: Style) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if json {
            let text = serde_json::to_string_pretty(self).unwrap_or_default();
            return writeln!(out, "{text}");
        }
        write!(out, "{}", self.text(style))
    }

    fn text(&self, style: Style) -> String {
        let answer = if self.same_checksum {
            style.green(&format!("   same answer, checksum {}", self.alone.checksum))
        } else {
            let both = format!("{} and {}", self.alone.checksum, self.managed.checksum);
            style.red(&format!("   ANOTHER ANSWER: checksums {both}"))
        };
        let row = |name: &str, alone: String, managed: String, note: String| {
            let line = format!("   {name:<15} {alone:>12} {managed:>12}  {note}");
            line.trim_end().to_owned()
        };
        let ratio = self.compression_ratio.map(|r| format!(", {r:.1} to 1"));
        let lines = [
            answer,
            String::new(),
            style.dim(&row("", "alone".into(), "managed".into(), String::new())),
            row(
                "resident peak",
                self.peak_alone_bytes.to_string(),
                self.resident_peak_bytes.to_string(),
                format!("limit {}", self.limit_bytes),
            ),
            row(
                "in the store",
                "-".into(),
                self.stored_bytes.to_string(),
                format!("in {}{}", self.store_used_bytes, ratio.unwrap_or_default()),
            ),
            row(
                "operations/s",
                count(self.alone.ops_per_s()),
                count(self.managed.ops_per_s()),
                format!("{:.0}% of the speed", self.speed_ratio * 100.0),
            ),
            row(
                "all in all",
                clock(self.alone.total_ms()),
                clock(self.managed.total_ms()),
                "filled, touched, every byte read".into(),
            ),
            row(
                "pages back",
                "-".into(),
                count(self.report.refaulted_pages),
                format!(
                    "median {} us, 99% within {} us",
                    count(self.report.faults.p50_us),
                    count(self.report.faults.p99_us)
                ),
            ),
            String::new(),
            "Next: pagetide run --memory-max 512M -- YOUR PROGRAM".to_owned(),
        ];
        lines.join("\n") + "\n"
    }

    /// A demo that did not show what it should is a failure.
    pub(super) fn complain(&self) -> Result<(), Failure> {
        let hint = "this is a defect of pagetide: please report the output of \
                    `pagetide demo --json` and `pagetide doctor --json`";
        if !self.same_checksum {
            return Err(Failure::new(
                "the managed run gave another checksum: bytes were lost",
                hint,
            ));
        }
        if !self.limit_held {
            let what = format!(
                "the limit did not hold: {} resident at its peak, {} allowed",
                self.resident_peak_bytes, self.limit_bytes
            );
            return Err(Failure::new(what, hint));
        }
        Ok(())
    }
}
