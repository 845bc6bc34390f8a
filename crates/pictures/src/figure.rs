//! The frame of a picture: its title, its axes, and the field that is stretched to whatever room there is.
//!
//! Invariant: only the field is stretched; letters stand beside it at places in percent.

use std::fmt::Write;

use crate::axis::{Mark, WHOLE};
use crate::text::escaped;

/// What a picture is made of.
pub(crate) struct Figure<'a> {
    /// Its class: how high it is.
    pub(crate) class: &'a str,
    pub(crate) title: &'a str,
    /// What it shows, for who cannot see it.
    pub(crate) says: &'a str,
    /// Marks at its left, from the top.
    pub(crate) ys: &'a [Mark],
    /// Marks below it, from the left.
    pub(crate) xs: &'a [Mark],
    /// Whether a column of it is a time: pages tell the figures of such a one under the pointer.
    pub(crate) is_timed: bool,
    /// Width and height of the field, and what is in it.
    pub(crate) field: (u64, u64, &'a str),
    /// Below it.
    pub(crate) legend: &'a str,
}

impl Figure<'_> {
    /// All of it.
    pub(crate) fn html(&self) -> String {
        let Figure { class, title, .. } = self;
        let timed = if self.is_timed { " timed" } else { "" };
        let (width, height, content) = self.field;
        let mut lines = String::new();
        for (at, _) in self.ys {
            let y = height * at / WHOLE;
            let _ = write!(lines, "<path class=\"grid\" d=\"M0 {y}h{width}\"/>");
        }
        format!(
            "<figure class=\"fig\"><figcaption>{title}</figcaption>\n<div class=\"plot {class}\">\n{}\
             <svg class=\"field{timed}\" viewBox=\"0 0 {width} {height}\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"{title}: {}\">{lines}\n{content}</svg>\n{}</div>\n{}</figure>\n",
            at_the_left(self.ys),
            escaped(self.says),
            below(self.xs),
            self.legend
        )
    }
}

fn at_the_left(marks: &[Mark]) -> String {
    let mut svg = "<svg class=\"ys\" aria-hidden=\"true\">".to_owned();
    for (at, text) in marks {
        let _ = write!(
            svg,
            "<text x=\"100%\" y=\"{}\" dx=\"-6\" dy=\"4\">{}</text>",
            percent(*at),
            escaped(text)
        );
    }
    svg + "</svg>\n"
}

fn below(marks: &[Mark]) -> String {
    let mut svg = "<svg class=\"xs\" aria-hidden=\"true\">".to_owned();
    for (n, (at, text)) in marks.iter().enumerate() {
        // Those at the ends stay inside.
        let anchor = match at {
            0..50 => "first",
            950.. => "last",
            _ => "middle",
        };
        // Where there is little room, every second one goes.
        let odd = if (marks.len() - n).is_multiple_of(2) {
            " odd"
        } else {
            ""
        };
        let (x, text) = (percent(*at), escaped(text));
        let _ = write!(
            svg,
            "<text class=\"{anchor}{odd}\" x=\"{x}\" y=\"14\">{text}</text>"
        );
    }
    svg + "</svg>\n"
}

/// Tenths of a percent, as markup has them.
pub(crate) fn percent(tenths: u64) -> String {
    format!("{}.{}%", tenths / 10, tenths % 10)
}

/// Colours and their names.
pub(crate) fn legend<'a>(items: impl Iterator<Item = (String, &'a str)>) -> String {
    let mut text = "<p class=\"legend\">".to_owned();
    for (class, name) in items {
        let _ = writeln!(
            text,
            "<span><i class=\"{class}\"></i>{}</span>",
            escaped(name)
        );
    }
    text + "</p>\n"
}
