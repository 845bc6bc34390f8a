//! An outcome as one self-contained page: text, tables and pictures; nothing is fetched.

use super::plot::plots;
use super::text::is_text;
use super::{Heading, cell, tables};
use crate::outcome::{Outcome, Table};

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;max-width:860px;margin:2em auto;padding:0 1em;\
color:#1d2329;background:#fcfcfb}\
h1{font-size:1.5em;margin-bottom:.1em}h2{font-size:1.1em;margin-top:2em}\
p.sub{color:#58616b;margin-top:0}\
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}\
th,td{padding:.2em .7em;border-bottom:1px solid #dfe2e5;text-align:right;vertical-align:top}\
th.name,td.name{text-align:left}th{color:#58616b;font-weight:600}\
tr.no td{background:#fbe4dd}details>summary{cursor:pointer;color:#58616b}\
svg{width:100%;height:auto;margin:.6em 0}svg text{font:11px system-ui,sans-serif;fill:#58616b}\
svg .paper{fill:#fff}svg .grid{stroke:#e6e8ea}";
/// Longer tables are folded away under their picture.
const ROWS_OPEN: usize = 24;

/// The page.
#[must_use]
pub fn html(heading: &Heading, outcome: &Outcome, timings: bool) -> String {
    let name = escaped(&heading.name);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>pagetide sim {name}</title>\n<style>{STYLE}</style></head><body>\n\
         <h1>{name}</h1>\n<p class=\"sub\">{}</p>\n",
        escaped(&heading.line())
    );
    for table in tables(outcome, timings) {
        page += &format!("<h2>{}</h2>\n{}", escaped(&table.title), plots(&table));
        page += &markup(&table);
    }
    for note in &outcome.notes {
        page += &format!("<p>{}</p>\n", escaped(note));
    }
    page + "</body></html>\n"
}

fn markup(table: &Table) -> String {
    let class = |column: usize| match is_text(table, column) {
        true => " class=\"name\"",
        false => "",
    };
    let line = |tag: &str, cells: Vec<String>| -> String {
        let cells = cells.iter().enumerate();
        cells
            .map(|(c, cell)| format!("<{tag}{}>{}</{tag}>", class(c), escaped(cell)))
            .collect()
    };
    let mut text = format!("<table><tr>{}</tr>\n", line("th", table.columns.clone()));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(cell).collect();
        let failed = cells.last().is_some_and(|last| last == "NO");
        let class = if failed { " class=\"no\"" } else { "" };
        text += &format!("<tr{class}>{}</tr>\n", line("td", cells));
    }
    text += "</table>\n";
    if table.rows.len() <= ROWS_OPEN {
        return text;
    }
    let rows = table.rows.len();
    format!("<details><summary>{rows} rows</summary>\n{text}</details>\n")
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
