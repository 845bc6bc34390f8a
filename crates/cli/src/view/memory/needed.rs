//! The first line of a report: how much memory the program needs.
//!
//! Invariant: the number never stands without its cost, its confidence, and what that is from.

use daemon::options::Bytes;
use host::report::{Needed, Report};

use crate::view::sheet::Sheet;

/// The line, if the number is known.
pub(super) fn needed(report: &Report, sheet: &mut Sheet) {
    if let Some(needed) = &report.needed {
        sheet.hanging("", &line(needed));
    }
}

/// `48M`, as systemd and control-group files take sizes.
pub(crate) fn setting(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let unit = UNITS
        .iter()
        .find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or(bytes.to_string(), |(unit, name)| {
        format!("{}{name}", bytes / unit)
    })
}

/// `0.02%`; what is less than a hundredth is told as that.
pub(crate) fn percent(percent: f64) -> String {
    match percent {
        p if p > 0.0 && p < 0.005 => "less than 0.01%".to_owned(),
        p => format!("{p:.2}%"),
    }
}

/// `needs 34 MiB now (of 229 MiB resident); suggest MemoryHigh=48M MemoryMax=72M; would cost 0.02% of its time; medium confidence: watched 5m`.
pub(crate) fn line(needed: &Needed) -> String {
    format!(
        "needs {} now (of {} resident); suggest MemoryHigh={} MemoryMax={}; would cost {} of its time; {} confidence: {}",
        Bytes(needed.bytes),
        Bytes(needed.now_bytes),
        setting(needed.suggest.memory_high_bytes),
        setting(needed.suggest.memory_max_bytes),
        percent(needed.cost_percent),
        needed.confidence.name(),
        needed.why.join(", "),
    )
}

/// The number of the tests' program.
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

    #[test]
    fn the_line_says_what_to_set_and_why() {
        assert_eq!(
            line(&sample()),
            "needs 34 MiB now (of 229 MiB resident); suggest MemoryHigh=48M MemoryMax=72M; \
             would cost 0.02% of its time; medium confidence: watched 5m"
        );
        assert_eq!(
            (setting(3 << 30), setting(5000)),
            ("3G".to_owned(), "5000".to_owned())
        );
        assert_eq!(percent(0.0001), "less than 0.01%");
        assert_eq!(percent(0.0), "0.00%");
    }
}
