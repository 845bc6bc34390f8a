//! The dashboard, at `/`: all tenants, and one of them over time. It is one page that loads nothing
//! else and changes nothing.
//!
//! Invariant: every text from outside goes through `escaped`. The page shows figures of the
//! snapshot and the history, for at most [`ROWS_MAX`] tenants. It is complete without its script,
//! which adds keys, times in the reader's time zone, figures under the pointer, and updates.
//!
//! Floors: `query`, `numbers`; `list`, `detail`; here.

mod numbers;
mod query;

mod detail;

mod list;

use host::report::Curve;
use pictures::escaped;

use super::history::{History, Range};
use super::snapshot::{Snapshot, name_of};
pub(super) use query::Query;

/// Most tenants in the list; the user can search for others.
const ROWS_MAX: usize = 200;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// All data that the page shows.
pub(super) struct View<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// What less memory would cost the selected tenant; `None` if unknown.
    pub(super) curve: Option<&'a Curve>,
    pub(super) history: &'a History,
    pub(super) query: Query,
    /// This host's name.
    pub(super) host: &'a str,
    /// The nonce that allows the page's own style and script (Content-Security-Policy).
    pub(super) nonce: &'a str,
    /// Current time in milliseconds since 1970.
    pub(super) now_ms: u64,
}

/// What the page may run and load, for [`crate::http::Answer::allowing`].
pub(super) fn sources(nonce: &str) -> String {
    format!(
        "script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; form-action 'self'"
    )
}

/// Whether a tenant of this name exists, or has data in the history.
pub(super) fn is_known(snapshot: &Snapshot, history: &History, name: &str) -> bool {
    let is_there = snapshot
        .figures
        .tenants
        .iter()
        .any(|one| name_of(&one.path) == name);
    is_there || history.has(name)
}

/// Returns the HTML of the whole page.
pub(super) fn html(view: &View) -> String {
    let (nonce, host, query) = (view.nonce, escaped(view.host), &view.query);
    let tenant = escaped(&query.tenant);
    let ranges = Range::ALL.map(|range| {
        let current = if range == query.range {
            " aria-current=\"true\""
        } else {
            ""
        };
        let link = Query {
            range,
            ..query.clone()
        }
        .link();
        format!(
            "<a href=\"{}\"{current}>{}</a>",
            escaped(&link),
            range.name()
        )
    });
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{tenant} on {host} - pagetide</title>\n<style nonce=\"{nonce}\">{}{STYLE}</style></head>\n\
         <body><main data-title=\"{tenant} on {host} - pagetide\">\n<header><h1>pagetide <small>{host}</small></h1>\n\
         <nav aria-label=\"how far back\">{}</nav>\n<p class=\"asof\">as of {}<span class=\"why\" role=\"status\"></span></p></header>\n\
         <div class=\"both\">\n{}{}</div>\n{KEYS}</main>\n<script nonce=\"{nonce}\">{SCRIPT}</script></body></html>\n",
        pictures::STYLE,
        ranges.join(""),
        numbers::time(view.snapshot.at_ms, view.now_ms),
        list::list(view),
        detail::detail(view),
    )
}

/// Help text with the keys.
const KEYS: &str = "<details class=\"keys\"><summary>Keys</summary><dl>\
<dt>j k</dt><dd>next, previous tenant</dd><dt>/</dt><dd>find a tenant</dd>\
<dt>1 2 3</dt><dd>hour, day, week</dd><dt>&larr; &rarr;</dt><dd>figures at another time</dd>\
<dt>Esc</dt><dd>figures of now</dd></dl></details>\n";

#[cfg(test)]
mod tests;
