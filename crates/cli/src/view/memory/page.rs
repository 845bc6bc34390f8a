//! A report as one page: pictures as inline SVG over tables. It loads nothing and runs nothing, so
//! it can be kept and sent.
//!
//! Invariant: every word from outside goes through `escaped`; numbers in pictures are finite and
//! inside the picture, whatever the report says.

mod area;
mod bars;
mod curve;
mod measured;
mod style;
mod tables;

use daemon::options::Bytes;
use host::report::Report;

use crate::view::text::escaped;

use super::history::{AGES, EDGES_MS};
use super::{History, cold, per_cent, words};

/// The whole page. `history` holds what was seen until now, this report included.
pub(crate) fn html(report: &Report, history: &History) -> String {
    let about = escaped(&words::about(report));
    let facts = escaped(&words::facts(report));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Memory of {about}</title>\n<style>{}</style></head><body>\n\
         <h1>{about}</h1>\n<p class=\"sub\">{facts}</p>\n",
        style::CSS
    );
    page += &cards(report);
    page += &section("How old the memory is", &bars::bars(report));
    let points = history.points();
    if points.len() > 2 {
        page += &section("Over time", &area::area(&points));
    }
    page += &section("Touched again", &bars::again(report));
    page += &section("What less memory would cost", &curve::curve(report));
    page += &section("Ages", &tables::ages(report));
    page += &section("Age unknown", &tables::unknown(report));
    page += &section("Processes", &tables::processes(report));
    page += &section("How it was measured", &measured::measured(report));
    page += &section("Notes", &measured::notes(report));
    page + "</body></html>\n"
}

/// A part with its heading; nothing without content.
fn section(title: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!("<h2>{title}</h2>\n{content}\n")
}

/// The figures that one looks for first.
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
    // `62% (1.2 GiB) not touched for 10s, 40% for 1m`: the figure, and the rest below it.
    if let Some(cold) = cold(report) {
        let (figure, below) = cold.split_once(' ').unwrap_or((&cold, ""));
        text += &card("cold", figure, &below.replace(['(', ')'], ""));
    }
    let back = format!(
        "{} pages came back",
        super::super::count(report.refaulted_pages)
    );
    text += &card("swapped", &Bytes(report.swapped_bytes).to_string(), &back);
    if let Some(charged) = report.charged_bytes {
        text += &card("charged to the group", &Bytes(charged).to_string(), "");
    }
    let percent = per_cent(report.unknown_age_bytes, report.resident_bytes);
    let bytes = Bytes(report.unknown_age_bytes).to_string();
    text += &card("age unknown", &percent, &bytes);
    format!("<div class=\"cards\">\n{text}</div>\n")
}

/// What an age is called in a picture.
fn age_name(n: usize) -> String {
    use crate::view::bars::age;
    age(EDGES_MS[n], EDGES_MS.get(n + 1).copied())
}

/// The colours of the ages that are there, with their names.
fn legend(shown: &[(String, String)]) -> String {
    let item = |(class, name): &(String, String)| {
        format!("<span><i class=\"{class}\"></i>{}</span>\n", escaped(name))
    };
    let items: String = shown.iter().map(item).collect();
    format!("<p class=\"legend\">{items}</p>\n")
}

/// Class and name of each age up to the oldest of `used`, then of those others that are there.
fn legend_of(used: [bool; AGES], others: &[(&str, &str, bool)]) -> String {
    let last = used
        .iter()
        .rposition(|used| *used)
        .map_or(0, |last| last + 1);
    let mut shown: Vec<_> = (0..last).map(|n| (format!("a{n}"), age_name(n))).collect();
    for (class, name, there) in others {
        if *there {
            shown.push(((*class).to_owned(), (*name).to_owned()));
        }
    }
    legend(&shown)
}
