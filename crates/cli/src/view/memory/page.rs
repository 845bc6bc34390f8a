//! A report as one HTML page: pictures as inline SVG above tables, drawn like those of the
//! dashboard (`pictures`). The page loads nothing and runs nothing, so users can keep and send it.
//!
//! Invariant: every text from outside passes through `escaped`. In addition, the page forbids the
//! browser to load or run anything, so that an unescaped text would do no harm. Whatever pictures
//! show only under the pointer is also in a table.

mod bars;
mod measured;
mod over_time;
mod style;
mod tables;

use daemon::options::Bytes;
use host::report::Report;

use crate::view::text::{cut, escaped};

use super::{History, cold, curve, managed, per_cent, words};

/// Width of the heading in columns. A longer command line is cut there, and shown in full under the
/// pointer.
const HEADING: usize = 200;

/// Content security policy: the browser may show the page with its own colours, and load nothing.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Returns the whole page. `history`: all reports so far, including this one.
pub(crate) fn html(report: &Report, history: &History) -> String {
    let whole = escaped(&words::target_name(report));
    let about = escaped(&cut(&words::target_name(report), HEADING, true));
    let facts = escaped(&words::facts(report));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Memory of {about}</title>\n<style>{}{}</style></head><body><main>\n\
         <h1 title=\"{whole}\">{about}</h1>\n<p class=\"sub\">{facts}</p>\n",
        pictures::STYLE,
        style::CSS
    );
    page += &cards(report);
    let now = bars::by_kind(report) + &bars::by_age(report);
    page += &section("How old the memory is", &now);
    if let Some(track) = history.track() {
        page += &section(
            "Over time",
            &over_time::over_time(&track, report.kernel_says.pressure_of),
        );
    }
    page += &section("Touched again", &bars::again(report));
    page += &section("How it is managed", &managed::on_page(report));
    if let Some(found) = &report.curve {
        let cost = curve::cost(report, found);
        page += &section("What less memory would cost", &cost.html());
    }
    page += &section("Ages", &tables::ages(report));
    page += &section("Age unknown", &tables::unknown(report));
    page += &section("Processes", &tables::processes(report));
    page += &section("How it was measured", &measured::measured(report));
    page += &section("Notes", &measured::notes(report));
    page + "</main></body></html>\n"
}

/// Puts a table into a box that scrolls if the table is too wide; keys can scroll it, too.
fn boxed(name: &str, table: &str) -> String {
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\">{table}</div>"
    )
}

/// Returns a section with its heading; empty if there is no content.
fn section(title: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!("<h2>{title}</h2>\n{content}\n")
}

/// Returns the most important figures, one in each card.
fn cards(report: &Report) -> String {
    let card = |name: &str, figure: &str, below: &str| {
        let (figure, below) = (escaped(figure), escaped(below));
        format!("<div><b>{figure}</b><span>{name}</span><small>{below}</small></div>\n")
    };
    let kernel = match report.kernel_says.pss_bytes {
        Some(pss) => format!("the kernel says {}", Bytes(pss)),
        None => format!("peak {}", Bytes(report.resident_peak_bytes)),
    };
    let mut text = card(
        "resident",
        &Bytes(report.resident_bytes).to_string(),
        &kernel,
    );
    // Splits `62% (1.2 GiB) not touched for 10s, 40% for 1m` into the figure and the text below it.
    if let Some(cold) = cold(report) {
        let (figure, below) = cold.split_once(' ').unwrap_or((&cold, ""));
        text += &card("cold", figure, &below.replace(['(', ')'], ""));
    }
    let refaulted = format!(
        "{} pages came back",
        super::super::count(report.refaulted_pages)
    );
    text += &card(
        "swapped",
        &Bytes(report.swapped_bytes).to_string(),
        &refaulted,
    );
    if let Some((net, taken)) = report.saving.net().zip(report.saving.compressed_bytes)
        && report.swapped_bytes > 0
    {
        let taken = format!("net of {} compressed", Bytes(taken));
        text += &card("saved by swap", &net, &taken);
    }
    if let Some(charged) = report.charged_bytes {
        text += &card("charged to the group", &Bytes(charged).to_string(), "");
    }
    let percent = per_cent(report.unknown_age_bytes, report.resident_bytes);
    let bytes = Bytes(report.unknown_age_bytes).to_string();
    text += &card("age unknown", &percent, &bytes);
    format!("<div class=\"cards\">\n{text}</div>\n")
}
