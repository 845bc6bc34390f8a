//! The HTML page: a plot as inline SVG, above a table. It loads nothing else, so users can keep and
//! send it.
//!
//! Invariant: text from outside (the trace's name) is escaped.

use std::fmt::Write;

use daemon::options::Pages;
use sim::mrc::Curves;

use crate::view::count;
use crate::view::text::escaped;

use super::{chart, gaps, part_of_all, summary};

/// The page's style sheet, without the chart's colours.
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2329;--dim:#58616b;--line:#dfe2e5;--back:#fcfcfb}\
@media(prefers-color-scheme:dark){:root{--ink:#e4e7ea;--dim:#a3abb5;--line:#3a4149;--back:#16191d}}\
body{font:15px/1.45 system-ui,sans-serif;max-width:940px;margin:2em auto;padding:0 1em;\
color:var(--ink);background:var(--back)}\
h1{font-size:1.4em;margin-bottom:.2em;overflow-wrap:anywhere}h2{font-size:1.1em;margin-top:1.6em}\
p{color:var(--dim);margin-top:0}.wide{overflow-x:auto}\
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}\
th,td{padding:.2em .6em;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}\
th{color:var(--dim);font-weight:600}.sum td{font-weight:600}";

/// Returns the whole page.
pub(crate) fn html(name: &str, result: &Curves) -> String {
    let (name, about) = (escaped(name), escaped(&summary(name, result)));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Miss ratios of {name}</title>\n<style>{STYLE}{}</style></head><body>\n\
         <h1>Miss ratios of {name}</h1>\n<p>{about}</p>\n{}{}{}</body></html>\n",
        chart::style(),
        chart::svg(result),
        table(result),
        gaps::html(result),
    )
}

fn table(result: &Curves) -> String {
    let mut text =
        "<div class=\"wide\"><table><tr><th>pages</th><th>bytes</th><th>of all</th>".to_owned();
    for (policy, _) in &result.curves {
        let _ = write!(text, "<th>{}</th>", policy.name());
    }
    text += "</tr>\n";
    for (n, &size) in result.sizes.iter().enumerate() {
        let bytes = Pages(size).bytes();
        let of_all = part_of_all(size, result.pages);
        let _ = write!(
            text,
            "<tr><td>{}</td><td>{bytes}</td><td>{of_all}</td>",
            count(size)
        );
        for (_, ratios) in &result.curves {
            let _ = write!(text, "<td>{:.4}</td>", ratios[n]);
        }
        text += "</tr>\n";
    }
    text + "</table></div>\n"
}
