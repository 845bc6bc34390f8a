//! The layout of a picture: its title, its axes, its legend, and the field between the axes.
//!
//! Invariant: only the field is stretched to the available space. Text is outside the field, at
//! coordinates in percent, so it is not distorted.

use std::fmt::Write;

use crate::axis::{Mark, WHOLE};
use crate::text::escaped;

/// The contents of a picture.
pub(crate) struct Figure<'a> {
    /// CSS class of the picture, which sets its height.
    pub(crate) class: &'a str,
    pub(crate) title: &'a str,
    /// Description of the picture for screen readers (`aria-label`).
    pub(crate) says: &'a str,
    /// Marks of the y axis, which is left of the field. The coordinates count from the top.
    pub(crate) ys: &'a [Mark],
    /// Marks of the x axis, which is below the field. The coordinates count from the left.
    pub(crate) xs: &'a [Mark],
    /// Whether the x axis is time. If so, a script of the page may show the figures of the column
    /// under the pointer.
    pub(crate) is_timed: bool,
    /// The field: width and height in its own units, then its content as SVG.
    pub(crate) field: (u64, u64, &'a str),
    /// The legend as HTML; it is below the picture.
    pub(crate) legend: &'a str,
}

impl Figure<'_> {
    /// Returns the HTML of the whole picture.
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
            y_axis(self.ys),
            escaped(self.says),
            x_axis(self.xs),
            self.legend
        )
    }
}

/// Returns the marks of the y axis as SVG.
fn y_axis(marks: &[Mark]) -> String {
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

/// Returns the marks of the x axis as SVG.
fn x_axis(marks: &[Mark]) -> String {
    let mut svg = "<svg class=\"xs\" aria-hidden=\"true\">".to_owned();
    for (n, (at, text)) in marks.iter().enumerate() {
        // Texts at the ends of the axis must stay inside the picture.
        let anchor = match at {
            0..50 => "first",
            950.. => "last",
            _ => "middle",
        };
        // On a narrow screen the style hides every second mark.
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

/// Formats tenths of a percent as a percentage: `12.5%`.
pub(crate) fn percent(tenths: u64) -> String {
    format!("{}.{}%", tenths / 10, tenths % 10)
}

/// Returns a legend as HTML. Each item is a CSS class, which sets the colour, and a name.
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
