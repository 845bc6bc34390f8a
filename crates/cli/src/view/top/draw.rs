//! Draws the table of `pagetide top` as text, for people to read.

use std::collections::BTreeMap;

use daemon::options::{Bytes, Millis};
use host::report::Saving;

use crate::terminal::Style;
use crate::view::memory::per_cent;
use crate::view::sheet::Sheet;
use crate::view::text::{columns, cut_front, plain, short_size};
use crate::view::{clock, count};

use super::{By, Row, Table};

/// Number of lines above the first row.
const HEAD: usize = 4;
/// Width of a user's name in columns.
const USER: usize = 8;

/// Returns the table with the requested number of rows, or as many as fit. `users`: names by user
/// id.
pub(crate) fn human(
    table: &Table,
    by: By,
    rows: Option<usize>,
    users: &BTreeMap<u32, String>,
    style: Style,
) -> String {
    let mut sheet = Sheet::new(style);
    head(table, by, &mut sheet);
    // One line stays free for the cursor, and one for the number of omitted rows.
    let fit = style.height.saturating_sub(HEAD + 2).max(1);
    let most = rows.unwrap_or(usize::MAX).min(fit);
    let shown = &table.rows[..table.rows.len().min(most)];
    match by {
        By::Process => processes(table, shown, users, &mut sheet),
        By::Cgroup | By::Tenant => groups(table, shown, &mut sheet),
    }
    if let Some(more @ 1..) = table.rows.len().checked_sub(shown.len()) {
        sheet.dim(&format!("and {} more", count(more as u64)));
    }
    sheet.finish()
}

fn head(table: &Table, by: By, sheet: &mut Sheet) {
    let totals = &table.totals;
    let old = [
        (totals.older_than_10s_bytes, 10_000),
        (totals.older_than_1m_bytes, 60_000),
        (totals.older_than_10m_bytes, 600_000),
    ];
    let known = old.into_iter().filter(|(_, ms)| *ms <= table.wall_ms);
    let shares = known.map(|(bytes, ms)| {
        let percent = per_cent(bytes, totals.resident_bytes);
        format!("{percent} >{}", Millis(ms))
    });
    let saving = Saving {
        net_bytes: totals.net_saved_bytes.filter(|_| totals.swapped_bytes > 0),
        ..Saving::default()
    };
    let net = saving
        .net()
        .map_or_else(String::new, |net| format!(" (net {net})"));
    let sizes = format!(
        "{} processes, {} resident, {} swapped{net}",
        count(totals.processes),
        Bytes(totals.resident_bytes),
        Bytes(totals.swapped_bytes),
    );
    let parts: Vec<_> = std::iter::once(sizes).chain(shares).collect();
    sheet.line(&parts.join(", "));
    let each = Millis(table.interval_ms);
    let (watched, source) = (clock(table.wall_ms), table.source);
    // The cost is omitted: `serve` watches the tenants, and reports the cost elsewhere.
    if by == By::Tenant {
        sheet.dim(&format!("each {each}, for {watched}; ages from {source}"));
        sheet.blank();
        return;
    }
    let cost = table.overhead.cpu_ms.saturating_mul(1000);
    let cost = cost.checked_div(table.wall_ms).unwrap_or(0);
    sheet.dim(&format!(
        "each {each}, for {watched}; costs {}.{}% of a CPU; ages from {source}",
        cost / 10,
        cost % 10,
    ));
    sheet.blank();
}

/// Formats the seven figures of a row.
fn figures(table: &Table, row: &Row) -> String {
    // No age can be longer than the time watched.
    let old = |bytes: u64, ms: u64| match bytes {
        0 if table.wall_ms < ms => "-".to_owned(),
        bytes => short_size(bytes),
    };
    format!(
        "{:>8} {:>7} {:>5} {:>5} {:>5} {:>5} {:>7}",
        short_size(row.resident_bytes),
        short_size(row.swapped_bytes),
        short_size(row.young_bytes),
        old(row.older_than_10s_bytes, 10_000),
        old(row.older_than_1m_bytes, 60_000),
        old(row.older_than_10m_bytes, 600_000),
        short_size(row.unknown_age_bytes),
    )
}

/// Headings of the columns of [`figures`].
const FIGURES: &str = "RESIDENT SWAPPED YOUNG  >10s   >1m  >10m UNKNOWN";

fn processes(table: &Table, rows: &[Row], users: &BTreeMap<u32, String>, sheet: &mut Sheet) {
    let style = sheet.style();
    let user = |row: &Row| {
        let uid = row.uid.unwrap_or_default();
        let name = users.get(&uid).cloned().unwrap_or_else(|| uid.to_string());
        cut_name(&name, style.unicode)
    };
    let pid = |row: &Row| row.pid.unwrap_or_default().to_string();
    let pids = rows
        .iter()
        .map(|row| pid(row).len())
        .max()
        .unwrap_or(0)
        .max(5);
    let names = rows
        .iter()
        .map(|row| columns(&user(row)))
        .max()
        .unwrap_or(0)
        .max(4);
    let title = format!("{:>pids$} {:<names$} {FIGURES}  COMMAND", "PID", "USER");
    sheet.dim(&title);
    for row in rows {
        let name = user(row);
        // Padded by columns, not by characters, as a name may contain wide characters.
        let pad = " ".repeat(names.saturating_sub(columns(&name)));
        sheet.line(&format!(
            "{:>pids$} {name}{pad} {}  {}",
            pid(row),
            figures(table, row),
            row.command.as_deref().unwrap_or_default(),
        ));
    }
}

fn groups(table: &Table, rows: &[Row], sheet: &mut Sheet) {
    let style = sheet.style();
    let room = style.width.saturating_sub(6 + FIGURES.len() + 2);
    sheet.dim(&format!("PROCS {FIGURES}  GROUP"));
    for row in rows {
        let name = match row.cgroup.as_deref() {
            None | Some("") => "(unknown)",
            Some(name) => name,
        };
        sheet.line(&format!(
            "{:>5} {}  {}",
            count(row.processes),
            figures(table, row),
            cut_front(name, room, style.unicode),
        ));
    }
}

/// Cuts a name like `ps`: a plus stands for the part that was cut off.
fn cut_name(name: &str, unicode: bool) -> String {
    let mut name = plain(name, unicode);
    if columns(&name) > USER {
        while columns(&name) >= USER {
            name.pop();
        }
        name.push('+');
    }
    name
}
