//! One line about a target while it runs.

use daemon::options::{Bytes, Limits, Size};
use host::report::Report;

use crate::terminal::Style;

use super::{bar, clock, count, share};

/// Width of a bar, columns.
const BAR: usize = 20;
/// Width of a bar in columns on a narrow terminal, where figures are more useful.
const SHORT_BAR: usize = 8;

/// Returns the limit to draw in bytes: `max`, or `high` if there is no `max`; `None` without both.
fn effective_limit(report: &Report, limits: Limits) -> Option<Bytes> {
    let whole = Bytes(report.resident_bytes.saturating_add(report.swapped_bytes));
    let bytes = |size: Size| match size {
        Size::Max => None,
        Size::Bytes(bytes) => Some(bytes),
        Size::Share(share) => Some(share.of(whole)),
    };
    bytes(limits.max).or_else(|| bytes(limits.high))
}

fn bar_of(resident: u64, limit: Bytes, columns: usize, style: Style) -> String {
    let drawn = bar(share(resident, limit.0), columns, style.unicode);
    let (open, close) = if style.unicode {
        ("▕", "▏")
    } else {
        ("[", "]")
    };
    let over = resident > limit.0.saturating_add(limit.0 / 20);
    let drawn = if over {
        style.red(&drawn)
    } else {
        style.green(&drawn)
    };
    format!("{open}{drawn}{close}")
}

/// Returns one line, no wider than the terminal, with the least needed figures last.
///
/// For example: `12s  resident 96 MiB of 96 MiB [####] swapped 100 MiB  out 12,345  back 1,234`.
/// What does not fit is omitted from the end.
pub(crate) fn status(report: &Report, limits: Limits, style: Style) -> String {
    let resident = Bytes(report.resident_bytes);
    let mut parts = vec![clock(report.wall_ms)];
    let mut width = parts[0].len();
    let mut add = |plain: &str, shown: String| {
        width += 2 + plain.chars().count();
        if width <= style.width.saturating_sub(1) || !style.live {
            parts.push(shown);
        }
    };
    match effective_limit(report, limits) {
        Some(limit) => {
            let text = format!("resident {resident} of {limit}");
            add(&text, text.clone());
            if style.live {
                let columns = if style.width < 100 { SHORT_BAR } else { BAR };
                let shown = bar_of(report.resident_bytes, limit, columns, style);
                add(&"x".repeat(columns + 2), shown);
            }
        }
        None => {
            let text = format!("resident {resident}");
            add(&text, text.clone());
        }
    }
    let swapped = format!("swapped {}", Bytes(report.swapped_bytes));
    add(&swapped, swapped.clone());
    let moved = [
        ("out", report.evicted_pages),
        ("back", report.refaulted_pages),
    ];
    for (name, pages) in moved {
        let text = format!("{name} {}", count(pages));
        add(&text, text.clone());
    }
    parts.join("  ")
}
