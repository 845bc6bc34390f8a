//! The dashboard's list of tenants: one row each, with its ages now and over time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use pictures::{CLASSES, age_bar, class_sums, escaped, strip};

use super::super::history::cut;
use super::super::history::{Recent, Strip};
use super::super::snapshot::name_of;
use super::numbers::{count, percent, share, size};
use super::query::{Query, Sort};
use super::{ROWS_MAX, View};
use crate::tenants::page::detail::ages_of;

/// Number of points in time that a row's small picture shows.
const PLACES: usize = 60;
/// Age in milliseconds from which the list calls pages cold.
const COLD_MS: u64 = 60_000;

/// One tenant's row.
struct Row {
    name: String,
    ages: [u64; CLASSES],
    unknown: u64,
    resident: u64,
    swapped: u64,
    cold: u64,
    recent: Recent,
}

/// Columns: title, CSS class, and the order that a click on the title selects (`None`: no order).
const COLUMNS: [(&str, &str, Option<Sort>); 8] = [
    ("tenant", "name", Some(Sort::Name)),
    ("ages now", "now", None),
    ("ages over time", "then", None),
    ("in memory", "num", Some(Sort::Resident)),
    ("in swap", "num", Some(Sort::Swapped)),
    ("cold > 1m", "num more", Some(Sort::Cold)),
    ("back / min", "num more", Some(Sort::Back)),
    ("waited", "num more", Some(Sort::Waited)),
];

/// Returns the HTML of the list.
pub(super) fn list(view: &View) -> String {
    let (rows, hidden) = rows(view);
    let strips = view.history.strips(view.query.range, PLACES, view.now_ms);
    let whole = rows.iter().map(|row| row.resident).max().unwrap_or(0);
    let mut text = format!(
        "<section class=\"list\" aria-label=\"tenants\">\n{}<div class=\"scroll\"><table>\n<thead><tr>",
        form(view)
    );
    for (name, class, sort) in COLUMNS {
        let name = match sort {
            None => name.to_owned(),
            Some(sort) => {
                let current = if sort == view.query.sort {
                    " aria-current=\"true\""
                } else {
                    ""
                };
                let link = Query {
                    sort,
                    ..view.query.clone()
                }
                .link();
                format!("<a href=\"{}\"{current}>{name}</a>", escaped(&link))
            }
        };
        let _ = write!(text, "<th class=\"{class}\" scope=\"col\">{name}</th>");
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in &rows {
        line(view, row, &strips, whole, &mut text);
    }
    text += "</tbody></table></div>\n";
    if hidden > 0 {
        let _ = writeln!(
            text,
            "<p class=\"note\">and {hidden} more: find them by name</p>"
        );
    }
    text + "</section>\n"
}

/// Returns the rows to show, in order, and the number of matching tenants that are not shown.
fn rows(view: &View) -> (Vec<Row>, usize) {
    let recent = view.history.recent(view.now_ms);
    let mut rows: Vec<Row> = Vec::new();
    for figures in &view.snapshot.figures.tenants {
        let name = name_of(&figures.path);
        if !name.contains(&view.query.find) {
            continue;
        }
        let moment = ages_of(figures);
        rows.push(Row {
            ages: class_sums(&moment.ages),
            unknown: moment.unknown,
            resident: moment.resident(),
            swapped: figures.swapped,
            cold: moment.older_than(COLD_MS),
            recent: recent.get(cut(&name).as_str()).copied().unwrap_or_default(),
            name,
        });
    }
    match view.query.sort {
        Sort::Name => {}
        Sort::Resident => rows.sort_by_key(|row| Reverse(row.resident)),
        Sort::Swapped => rows.sort_by_key(|row| Reverse(row.swapped)),
        Sort::Cold => rows.sort_by_key(|row| Reverse(row.cold)),
        Sort::Back => rows.sort_by_key(|row| Reverse(row.recent.back)),
        Sort::Waited => rows.sort_by_key(|row| Reverse(row.recent.waited)),
    }
    let hidden = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    (rows, hidden)
}

/// Returns the HTML of the form to search for a name; the script searches while the user types.
fn form(view: &View) -> String {
    let hidden = view.query.hidden().map(|(name, value)| {
        format!(
            "<input type=\"hidden\" name=\"{name}\" value=\"{}\">",
            escaped(value)
        )
    });
    let find = escaped(&view.query.find);
    format!(
        "<form action=\"/\" role=\"search\">{}<label>find <input type=\"search\" name=\"find\" value=\"{find}\" \
         autocomplete=\"off\" spellcheck=\"false\"></label></form>\n",
        hidden.concat()
    )
}

fn line(view: &View, row: &Row, strips: &BTreeMap<&str, Strip>, whole: u64, text: &mut String) {
    let query = Query {
        tenant: row.name.clone(),
        ..view.query.clone()
    };
    let link = escaped(&query.link());
    let is_chosen = row.name == view.query.tenant;
    let (class, current) = match is_chosen {
        true => (" class=\"chosen\"", " aria-current=\"true\""),
        false => ("", ""),
    };
    // Sorted by name the list is a tree, where the last part of a path is enough.
    let depth = match (view.query.sort, row.name.as_str()) {
        (Sort::Name, "/") => 0,
        (Sort::Name, name) => name.matches('/').count().min(6),
        _ => 0,
    };
    let shown = match (depth, row.name.rsplit_once('/')) {
        (2.., Some((_, last))) if !last.is_empty() => last,
        _ => &row.name,
    };
    let empty = Strip::new();
    let history = strips.get(cut(&row.name).as_str()).unwrap_or(&empty);
    let _ = writeln!(
        text,
        "<tr{class}><th class=\"name d{depth}\" scope=\"row\"><a href=\"{link}\" title=\"{}\"{current}>{}</a></th>\
         <td class=\"now\">{}</td><td class=\"then\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>\
         <td class=\"num more\">{}</td><td class=\"num more\">{}</td><td class=\"num more\">{}</td></tr>",
        escaped(&row.name),
        escaped(shown),
        age_bar(&row.ages, row.unknown, whole),
        strip(history),
        size(row.resident),
        size(row.swapped),
        percent(row.cold, row.resident),
        count(row.recent.back),
        share(row.recent.waited),
    );
}
