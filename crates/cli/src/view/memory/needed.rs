//! The first line of a report: how much memory the program needs.
//!
//! Invariant: the needed size is never shown without its cost, its confidence, and the reasons for
//! that confidence.

use daemon::options::Bytes;
use host::report::{Needed, Report};

use crate::view::sheet::Sheet;

/// Writes the line with the needed size. If the size is unknown because most ages are unknown, the
/// line says so.
pub(super) fn needed(report: &Report, sheet: &mut Sheet) {
    match &report.needed {
        Some(needed) => sheet.hanging("", &line(needed)),
        None => {
            if let Some(line) = unknown(report) {
                sheet.hanging("", &line);
            }
        }
    }
}

/// Returns `needs at most 641 MiB, all that is resident: most ages are not known (...)`, if at
/// least two scans have found most ages unknown; otherwise `None`.
fn unknown(report: &Report) -> Option<String> {
    let is_unknown = report.unknown_age_bytes > report.resident_bytes / 2 && report.walks > 1;
    let why = &report
        .unknown_because
        .first()
        .filter(|_| is_unknown)?
        .reason;
    let all = Bytes(report.resident_bytes);
    Some(format!(
        "needs at most {all}, all that is resident: most ages are not known ({why})"
    ))
}

/// Formats a size in the form that systemd and control-group files accept: `48M`.
pub(crate) fn setting(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let unit = UNITS
        .iter()
        .find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or(bytes.to_string(), |(unit, name)| {
        format!("{}{name}", bytes / unit)
    })
}

/// Formats a percentage as `0.02%`; if it is above 0 and below 0.005, as `less than 0.01%`.
pub(crate) fn percent(percent: f64) -> String {
    match percent {
        p if p > 0.0 && p < 0.005 => "less than 0.01%".to_owned(),
        p => format!("{p:.2}%"),
    }
}

/// Formats the needed size as `34 MiB`, or, if the upper bound is larger by more than a tenth, as
/// `34 MiB, at most 38 MiB`. `now`: text that follows the size.
pub(crate) fn number(needed: &Needed, now: &str) -> String {
    let bytes = Bytes(needed.bytes);
    match needed.high_bytes > needed.bytes + needed.bytes / 10 {
        true => format!("{bytes}{now}, at most {}", Bytes(needed.high_bytes)),
        false => format!("{bytes}{now}"),
    }
}

/// Formats the line for people, for example:
///
/// ```text
/// needs 34 MiB now (of 229 MiB resident); suggest MemoryHigh=48M MemoryMax=72M; would cost ...
/// ```
pub(crate) fn line(needed: &Needed) -> String {
    format!(
        "needs {} (of {} resident); suggest MemoryHigh={} MemoryMax={}; would cost {} of its time; {} confidence: {}",
        number(needed, " now"),
        Bytes(needed.now_bytes),
        setting(needed.suggest.memory_high_bytes),
        setting(needed.suggest.memory_max_bytes),
        percent(needed.cost_percent),
        needed.confidence.name(),
        needed.why.join(", "),
    )
}

/// Returns the needed size of an invented program, for tests.
#[cfg(test)]
pub(crate) fn sample() -> Needed {
    use host::report::{Confidence, Suggestion};

    Needed {
        bytes: 34 << 20,
        now_bytes: 229 << 20,
        cost_percent: 0.02,
        confidence: Confidence::Medium,
        why: vec!["watched 5m".to_owned()],
        suggest: Suggestion {
            memory_high_bytes: 48 << 20,
            memory_max_bytes: 72 << 20,
            kernel_bytes: 1 << 20,
            ..Suggestion::default()
        },
        ..Needed::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For a program whose accessed bits cannot be cleared because it is too large, no needed size
    /// is ever known.
    #[test]
    fn without_ages_the_line_says_why_there_is_no_number() {
        let mut report = Report {
            resident_bytes: 641 << 20,
            unknown_age_bytes: 600 << 20,
            walks: 5,
            unknown_because: vec![host::report::Unknown {
                reason: "it is large".to_owned(),
                bytes: 600 << 20,
            }],
            ..Report::default()
        };
        let reported =
            "needs at most 641 MiB, all that is resident: most ages are not known (it is large)";
        assert_eq!(unknown(&report).as_deref(), Some(reported));
        report.unknown_age_bytes = 10 << 20;
        assert_eq!(unknown(&report), None, "it is known soon");
        (report.unknown_age_bytes, report.walks) = (600 << 20, 1);
        assert_eq!(unknown(&report), None, "the first scan knows no age");
    }

    #[test]
    fn the_line_says_what_to_set_and_why() {
        assert_eq!(
            line(&sample()),
            "needs 34 MiB now (of 229 MiB resident); suggest MemoryHigh=48M MemoryMax=72M; \
             would cost 0.02% of its time; medium confidence: watched 5m"
        );
        let uncertain = Needed {
            high_bytes: 38 << 20,
            ..sample()
        };
        let reported = line(&uncertain);
        assert!(
            reported.starts_with("needs 34 MiB now, at most 38 MiB (of 229 MiB"),
            "{reported}"
        );
        let sure = Needed {
            high_bytes: 37 << 20,
            ..sample()
        };
        assert!(!line(&sure).contains("at most"), "no more than a tenth");
        assert_eq!(
            (setting(3 << 30), setting(5000)),
            ("3G".to_owned(), "5000".to_owned())
        );
        assert_eq!(percent(0.0001), "less than 0.01%");
        assert_eq!(percent(0.0), "0.00%");
    }
}
