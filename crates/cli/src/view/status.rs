//! One line about a target while it runs.

use pager::options::Bytes;
use pager::report::Report;

use crate::terminal::Style;

use super::{bar, clock, count, effective_limit, share};

/// Columns of the bar in a status line.
const BAR: usize = 20;

/// Resident bytes against a limit, as a bar in brackets.
pub(crate) fn resident_bar(resident: u64, limit: Bytes, style: Style) -> String {
    let drawn = bar(share(resident, limit.0), BAR, style.unicode);
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
                let shown = resident_bar(report.resident_bytes, limit, style);
                add(&"x".repeat(BAR + 2), shown);
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
