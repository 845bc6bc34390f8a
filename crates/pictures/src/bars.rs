//! Horizontal bars: sizes beside each other on one scale, each divided into parts.
//!
//! Invariant: parts lie in their bar one after the other and never outside; something never looks like nothing. Each part has its
//! bytes as they are (`data-bytes`), so that a picture can be held against its figures.

use std::fmt::Write;

use engine::Bytes;

use crate::axis::{WHOLE, place};
use crate::figure::{legend, percent};
use crate::text::escaped;

/// Of no part less is drawn.
const LEAST: u64 = 3;

/// A part of a bar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its classes: what it looks like.
    pub class: String,
    /// What it is, for who points at it.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// One bar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bar {
    /// What stands at its left.
    pub name: String,
    /// From left to right.
    pub parts: Vec<Part>,
}

impl Bar {
    /// All of it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let parts = self.parts.iter();
        parts.fold(0, |sum, part| sum.saturating_add(part.bytes))
    }
}

/// Bars with their names and sizes, the longest as wide as there is room; below them the colours of `colours` (class, name).
/// Nothing without bars.
#[must_use]
pub fn bars(title: &str, all: &[Bar], colours: &[(String, String)]) -> String {
    let Some(most) = all.iter().map(Bar::bytes).max() else {
        return String::new();
    };
    let title = escaped(title);
    // A table, so that it can be read aloud, too.
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

/// Parts of a bar that is `whole` long.
pub(crate) fn drawn<'a>(parts: impl Iterator<Item = &'a Part>, whole: u64) -> String {
    let mut svg = "<svg class=\"agebar\" aria-hidden=\"true\">".to_owned();
    let parts: Vec<&Part> = parts.filter(|part| part.bytes > 0).collect();
    let (mut before, mut last) = (0u64, 0);
    for (at, Part { class, name, bytes }) in parts.iter().enumerate() {
        let after = before.saturating_add(*bytes);
        // Room for each one behind it.
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
        // (Two little parts and a large one began at the same place, and the last one hid the others.)
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
