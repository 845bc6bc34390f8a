//! One line about a target while it runs.

use pager::options::Bytes;
use pager::report::Report;

use crate::terminal::Style;

use super::{bar, clock, count, effective_limit, share};

/// Columns of a bar.
const BAR: usize = 20;
/// The same in a status line of a narrow terminal, where figures say more.
const SHORT_BAR: usize = 8;

/// Resident bytes against a limit, as a bar in brackets.
pub(crate) fn resident_bar(resident: u64, limit: Bytes, style: Style) -> String {
    bar_of(resident, limit, BAR, style)
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

/// `12s  resident 96 MiB of 96 MiB [####] stored 100 MiB in 31 MiB  refaults 1,234`, no wider than
/// the terminal (what is left out is at the end, and least needed).
pub(crate) fn status(report: &Report, style: Style) -> String {
    let resident = Bytes(report.resident_bytes);
    let mut parts = vec![clock(report.wall_ms)];
    let mut width = parts[0].len();
    let mut add = |plain: &str, shown: String| {
        width += 2 + plain.chars().count();
        if width <= style.width.saturating_sub(1) || !style.live {
            parts.push(shown);
        }
    };
    match effective_limit(report) {
        Some((_, limit)) => {
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
    let stored = format!(
        "stored {} in {}",
        Bytes(report.stored_bytes),
        Bytes(report.store_used_bytes)
    );
    add(&stored, stored.clone());
    let refaults = format!("refaults {}", count(report.refaulted_pages));
    add(&refaults, refaults.clone());
    parts.join("  ")
}
