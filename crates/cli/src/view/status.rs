//! One line about a target while it runs.

use daemon::options::{Bytes, Limits, Size};
use host::report::Report;

use crate::terminal::Style;

use super::{bar, clock, count, share};

/// Columns of a bar.
const BAR: usize = 20;
/// The same in a status line of a narrow terminal, where figures say more.
const SHORT_BAR: usize = 8;

/// The first of `max` and `high` that limits something, in bytes.
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

/// `12s  resident 96 MiB of 96 MiB [####] swapped 100 MiB  out 12,345  back 1,234`, no wider than
/// the terminal (what is left out is at the end, and least needed).
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
