//! The picture of what less memory would cost: refaults per minute, by size of the memory.
//!
//! Invariant: the line lies inside the picture. Each point is at its exact coordinates. Only a rate
//! of zero is drawn on the zero line.

use std::fmt::Write;

use engine::Bytes;

use crate::axis::{Mark, WHOLE, place, sizes_between};
use crate::decades::{Decades, short_rate};
use crate::figure::{Figure, legend};

/// Height of the lowest power of ten above the zero line, tenths of a percent.
const GROUND: u64 = 80;
/// Maximum number of powers of ten that have a mark: more do not fit.
const MARKED_DECADES_MAX: usize = 5;

/// A size of the memory, and the refaults at that size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CurveAt {
    /// Size of the memory, bytes.
    pub bytes: u64,
    /// Refaults per minute, pages.
    pub per_minute: f64,
}

/// The data of a picture of refaults by size.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Curve {
    /// The points of the line, by ascending size.
    pub points: Vec<CurveAt>,
    /// Suggested sizes, which the picture marks: CSS class, name, size with its refaults.
    pub chosen: Vec<(&'static str, String, CurveAt)>,
}

/// The ranges of the axes. The x axis shows sizes of the memory, from `from` to `from + span`
/// bytes. The y axis shows rates (refaults per minute, in pages) on the logarithmic scale
/// `decades`, which is `None` if all rates are zero.
struct Frame {
    from: u64,
    span: u64,
    decades: Option<Decades>,
}

impl Frame {
    /// Returns the x coordinate of a size, in tenths of a percent from the left.
    fn x(&self, bytes: u64) -> u64 {
        place(bytes.saturating_sub(self.from), self.span)
    }

    /// Returns the y coordinate of a rate, in tenths of a percent from the top.
    fn y(&self, rate: f64) -> u64 {
        let height = self.decades.and_then(|decades| decades.height(rate));
        WHOLE - height.map_or(0, |height| GROUND + tenths(height, WHOLE - GROUND))
    }

    /// Returns the marks of the y axis: zero, the highest power of ten, and as many other powers as
    /// fit.
    fn marks(&self) -> Vec<Mark> {
        let powers = self.decades.into_iter().flat_map(Decades::powers);
        let mut powers: Vec<f64> = powers.collect();
        powers.reverse();
        let step = powers.len().div_ceil(MARKED_DECADES_MAX).max(1);
        let mark = |rate: f64| (self.y(rate), short_rate(rate));
        let powers = powers.into_iter().step_by(step).map(mark);
        std::iter::once((WHOLE, "0".to_owned()))
            .chain(powers)
            .collect()
    }
}

/// Returns `part` (0 to 1) times `whole`, rounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of at most a thousand"
)]
fn tenths(part: f64, whole: u64) -> u64 {
    (part.clamp(0.0, 1.0) * whole as f64).round() as u64
}

/// Draws the picture as HTML. Returns an empty text if there are fewer than two points.
#[must_use]
pub fn curve(curve: &Curve) -> String {
    let [first, .., last] = &curve.points[..] else {
        return String::new();
    };
    let frame = Frame {
        from: first.bytes,
        span: last.bytes.saturating_sub(first.bytes).max(1),
        decades: Decades::of(curve.points.iter().map(|point| point.per_minute)),
    };
    let mut content = String::new();
    for (class, name, at) in &curve.chosen {
        let (x, y) = (frame.x(at.bytes), frame.y(at.per_minute));
        let _ = writeln!(
            content,
            "<path class=\"upright {class}\" d=\"M{x} {WHOLE}V{y}\"/><path class=\"dot {class}\" d=\"M{x} {y}h0\">\
             <title>{name}</title></path>"
        );
    }
    let mut path = String::new();
    for (n, point) in curve.points.iter().enumerate() {
        let (x, y) = (frame.x(point.bytes), frame.y(point.per_minute));
        let _ = write!(path, "{}{x} {y}", if n == 0 { 'M' } else { 'L' });
    }
    let _ = writeln!(content, "<path class=\"curve\" d=\"{path}\"/>");
    content += &titles(curve, &frame);
    let says = format!("{} to {}", words(first), words(last));
    let colours = curve.chosen.iter();
    let colours = colours.map(|(class, name, _)| ((*class).to_owned(), name.as_str()));
    let colours = if curve.chosen.is_empty() {
        String::new()
    } else {
        legend(colours)
    };
    Figure {
        class: "missed",
        title: "Pages that would come back a minute, by memory",
        says: &says,
        ys: &frame.marks(),
        xs: &sizes_between(frame.from, frame.span),
        is_timed: false,
        field: (WHOLE, WHOLE, &content),
        legend: &colours,
    }
    .html()
}

/// Returns the figures of a point as text: `60 MiB: 10.0 pages a minute`.
fn words(at: &CurveAt) -> String {
    let digits = usize::from(at.per_minute < 99.95);
    format!(
        "{}: {:.digits$} pages a minute",
        Bytes(at.bytes),
        at.per_minute
    )
}

/// Returns an invisible area around each point, as SVG. The browser shows the point's figures while
/// the pointer is in the area. An area ends halfway to the next point.
fn titles(curve: &Curve, frame: &Frame) -> String {
    let mut text = "<g class=\"hits\">".to_owned();
    let mut begin = 0;
    for (n, point) in curve.points.iter().enumerate() {
        let next = curve.points.get(n + 1);
        let halfway = |next: &CurveAt| u64::midpoint(frame.x(point.bytes), frame.x(next.bytes));
        let end = next.map_or(WHOLE, halfway).max(begin);
        let _ = writeln!(
            text,
            "<rect x=\"{begin}\" y=\"0\" width=\"{}\" height=\"{WHOLE}\"><title>{}</title></rect>",
            end - begin,
            words(point)
        );
        begin = end;
    }
    text + "</g>\n"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(bytes: u64, per_minute: f64) -> CurveAt {
        CurveAt { bytes, per_minute }
    }

    #[test]
    fn points_lie_where_their_figures_are() {
        let limit = at(75 << 20, 1.0);
        let all = Curve {
            points: vec![
                at(50 << 20, 1000.0),
                at(60 << 20, 10.0),
                at(75 << 20, 1.0),
                at(100 << 20, 0.0),
            ],
            chosen: vec![("limit", "limit 75.4 MiB".to_owned(), limit)],
        };
        let html = curve(&all);
        // The y axis is logarithmic: three powers of ten between the zero line and the top. A rate
        // of zero is drawn on the zero line.
        assert!(
            html.contains("<path class=\"curve\" d=\"M0 0L200 613L500 920L1000 1000\"/>"),
            "{html}"
        );
        assert!(
            html.contains("<path class=\"dot limit\" d=\"M500 920h0\">"),
            "{html}"
        );
        assert!(
            html.contains("<i class=\"limit\"></i>limit 75.4 MiB"),
            "{html}"
        );
        assert!(
            html.contains("<title>60 MiB: 10.0 pages a minute</title>"),
            "{html}"
        );
        for mark in ["0", "1", "10", "100", "1k"] {
            assert!(html.contains(&format!("dy=\"4\">{mark}</text>")), "{mark}");
        }
        assert!(
            html.contains("64 MiB") && !html.contains(" timed"),
            "{html}"
        );
        assert_eq!(html.matches("<title>").count(), 5);
        let point = Curve {
            points: all.points[..1].to_vec(),
            ..Curve::default()
        };
        assert_eq!(curve(&point), "", "a point is no curve");
    }

    proptest! {
        #[test]
        fn for_any_numbers_the_line_lies_inside(
            points in prop::collection::vec((any::<u64>(), any::<f64>()), 2..9), chosen in any::<(u64, f64)>()
        ) {
            let all = Curve {
                points: points.into_iter().map(|(bytes, rate)| at(bytes, rate)).collect(),
                chosen: vec![("limit", "limit".to_owned(), at(chosen.0, chosen.1))],
            };
            let html = curve(&all);
            let paths = html.split(" d=\"").skip(1).filter_map(|rest| rest.split('"').next());
            for number in paths.flat_map(|path| path.split(|c: char| !c.is_ascii_digit() && c != '-')) {
                prop_assert!(number.is_empty() || number.parse::<u64>().is_ok_and(|number| number <= WHOLE), "{number}");
            }
            for width in html.split(" width=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                prop_assert!(width.parse::<u64>().is_ok_and(|width| width <= WHOLE), "{width}");
            }
        }
    }
}
