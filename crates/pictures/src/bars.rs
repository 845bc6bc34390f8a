//! Horizontal bars on a common scale, each divided into parts.
//!
//! Invariant: the parts of a bar lie next to each other inside the bar, and a part with at least
//! one byte is always visible. Each part has its exact bytes in the attribute `data-bytes`, so that
//! tests can compare a picture with its figures.

use std::fmt::Write;

use engine::Bytes;

use crate::axis::{WHOLE, place};
use crate::figure::{legend, percent};
use crate::text::escaped;

/// Minimum length of a drawn part, in tenths of a percent of the picture's width.
const LEAST: u64 = 3;

/// A part of a bar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// CSS classes of the part.
    pub class: String,
    /// Name of the part. The browser shows it under the pointer, with the size.
    pub name: String,
    /// Size of the part, bytes.
    pub bytes: u64,
}

/// One bar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bar {
    /// Name of the bar, which is shown to its left.
    pub name: String,
    /// Parts of the bar, from left to right.
    pub parts: Vec<Part>,
}

impl Bar {
    /// Returns the size of the bar in bytes: the sum of its parts.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let parts = self.parts.iter();
        parts.fold(0, |sum, part| sum.saturating_add(part.bytes))
    }
}

/// Draws bars with their names and sizes, and below them a legend of `colours` (CSS class, name).
/// The longest bar has the full width. Returns an empty text if there are no bars.
#[must_use]
pub fn bars(title: &str, all: &[Bar], colours: &[(String, String)]) -> String {
    let Some(most) = all.iter().map(Bar::bytes).max() else {
        return String::new();
    };
    let title = escaped(title);
    // The bars are rows of a table, so that a screen reader can read them.
    let mut text = format!(
        "<figure class=\"fig\"><figcaption>{title}</figcaption>\n<table class=\"bars\" aria-label=\"{title}\">\n"
    );
    for bar in all {
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>",
            escaped(&bar.name),
            drawn(bar.parts.iter(), most),
            Bytes(bar.bytes())
        );
    }
    text += "</table>\n";
    if !colours.is_empty() {
        let items = colours.iter();
        text += &legend(items.map(|(class, name)| (class.clone(), name.as_str())));
    }
    text + "</figure>\n"
}

/// Draws the parts of a bar as SVG. The full width stands for `whole` bytes.
pub(crate) fn drawn<'a>(parts: impl Iterator<Item = &'a Part>, whole: u64) -> String {
    let mut svg = "<svg class=\"agebar\" aria-hidden=\"true\">".to_owned();
    let parts: Vec<&Part> = parts.filter(|part| part.bytes > 0).collect();
    let (mut before, mut last) = (0u64, 0);
    for (at, Part { class, name, bytes }) in parts.iter().enumerate() {
        let after = before.saturating_add(*bytes);
        // The parts that follow need at least the minimum length each.
        let most = WHOLE.saturating_sub(LEAST * (parts.len() - 1 - at) as u64);
        let x = place(before, whole)
            .max(last)
            .min(most.saturating_sub(LEAST));
        let end = place(after, whole).max(x + LEAST).min(most);
        last = end;
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{}\" y=\"0\" width=\"{}\" height=\"100%\" data-bytes=\"{bytes}\">\
             <title>{}: {}</title></rect>",
            percent(x),
            percent(end - x),
            escaped(name),
            Bytes(*bytes)
        );
        before = after;
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, parts: &[(&str, u64)]) -> Bar {
        let part = |(class, bytes): &(&str, u64)| Part {
            class: (*class).to_owned(),
            name: format!("<{class}>"),
            bytes: *bytes,
        };
        Bar {
            name: name.to_owned(),
            parts: parts.iter().map(part).collect(),
        }
    }

    #[test]
    fn bars_are_on_one_scale_and_names_are_text() {
        let all = [
            bar("a&b", &[("a0", 100), ("a6", 300)]),
            bar("c", &[("un", 1), ("out", 0)]),
        ];
        let text = bars("By <kind>", &all, &[("a0".to_owned(), "young".to_owned())]);
        for part in [
            "<figcaption>By &lt;kind&gt;</figcaption>",
            "<th scope=\"row\">a&amp;b</th>",
            "<rect class=\"a0\" x=\"0.0%\" y=\"0\" width=\"25.0%\" height=\"100%\" data-bytes=\"100\"><title>&lt;a0&gt;: 100 B<",
            "<rect class=\"a6\" x=\"25.0%\" y=\"0\" width=\"75.0%\" height=\"100%\" data-bytes=\"300\">",
            "<td>400 B</td>",
            "<rect class=\"un\" x=\"0.0%\" y=\"0\" width=\"0.3%\"",
            "<i class=\"a0\"></i>young",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Regression: two small parts and a large part began at the same coordinate, so the last
        // one hid the others.
        let little = bar("d", &[("a0", 1), ("a1", 1), ("a6", 1 << 30), ("un", 1)]);
        let text = bars("d", &[little], &[]);
        for part in [
            ("a0", "0.0%", "0.3%"),
            ("a1", "0.3%", "0.3%"),
            ("a6", "0.6%", "99.1%"),
            ("un", "99.7%", "0.3%"),
        ] {
            let (class, x, width) = part;
            let rect = format!("<rect class=\"{class}\" x=\"{x}\" y=\"0\" width=\"{width}\"");
            assert!(text.contains(&rect), "{rect}: {text}");
        }
        let text = bars("By <kind>", &all, &[]);
        assert!(!text.contains("class=\"out\""), "nothing is not drawn");
        assert_eq!(bars("none", &[], &[]), "");
    }
}
