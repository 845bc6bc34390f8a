//! Formats an outcome as one self-contained HTML page with text, tables and pictures; the page
//! fetches nothing.

use pictures::escaped;

use super::plot::figure;
use super::style::STYLE;
use super::text::is_text;
use super::{Heading, cell, tables};
use crate::outcome::{Outcome, Table};

/// A table with more rows than this is folded.
const ROWS_OPEN: usize = 24;

/// Returns the HTML page.
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
    let tables = tables(outcome, timings);
    let (claims, results) = tables.split_at(usize::from(!outcome.claims.is_empty()));
    page += &(sections(claims) + &figures(outcome, timings) + &sections(results));
    for note in &outcome.notes {
        page += &format!("<p>{}</p>\n", escaped(note));
    }
    page + "</body></html>\n"
}

/// Returns the pictures. Those that depend on the machine's speed are included only with `timings`.
fn figures(outcome: &Outcome, timings: bool) -> String {
    let shown = outcome.pictures.iter().filter(|p| timings || !p.timed);
    shown.map(figure).collect()
}

fn sections(tables: &[Table]) -> String {
    let section = |table: &Table| format!("<h2>{}</h2>\n{}", escaped(&table.title), markup(table));
    tables.iter().map(section).collect()
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
    let names = line("th", table.columns.clone());
    let mut text = format!("<div class=\"scroll\"><table><tr>{names}</tr>\n");
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(cell).collect();
        let failed = cells.last().is_some_and(|last| last == "NO");
        let class = if failed { " class=\"no\"" } else { "" };
        text += &format!("<tr{class}>{}</tr>\n", line("td", cells));
    }
    text += "</table></div>\n";
    if table.rows.len() <= ROWS_OPEN {
        return text;
    }
    let rows = table.rows.len();
    format!("<details><summary>{rows} rows</summary>\n{text}</details>\n")
}
