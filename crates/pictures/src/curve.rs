//! What less memory would cost: how many pages would come back in a minute, over the memory.
//!
//! Invariant: the line lies inside, and its points as far along and as high as their figures are; a rate of nothing lies on the
//! ground, and nothing else does.

use std::fmt::Write;

use engine::Bytes;

use crate::axis::{Mark, WHOLE, place, sizes_between};
use crate::decades::{Decades, short_rate};
use crate::figure::{Figure, legend};

/// Of the height, for rates between nothing and the lowest decade: tenths of a percent.
const GROUND: u64 = 80;
/// A mark for each decade takes more room than there is from so many on.
const DECADES: usize = 5;

/// A size, and what would come back with so much memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CurveAt {
    /// Memory.
    pub bytes: u64,
    /// Pages that would come back in a minute.
    pub per_minute: f64,
}

/// The curve.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Curve {
    /// By ascending size.
    pub points: Vec<CurveAt>,
    /// Sizes to choose: classes, what they are, where they are.
    pub chosen: Vec<(&'static str, String, CurveAt)>,
}

/// What the axes span.
struct Frame {
    from: u64,
    span: u64,
    decades: Option<Decades>,
}

impl Frame {
    fn x(&self, bytes: u64) -> u64 {
        place(bytes.saturating_sub(self.from), self.span)
    }

    /// From the top.
    fn y(&self, rate: f64) -> u64 {
        let height = self.decades.and_then(|decades| decades.height(rate));
        WHOLE - height.map_or(0, |height| GROUND + tenths(height, WHOLE - GROUND))
    }

    /// Nothing, and powers of ten: as many as there is room for, the highest among them.
    fn marks(&self) -> Vec<Mark> {
        let powers = self.decades.into_iter().flat_map(Decades::powers);
        let mut powers: Vec<f64> = powers.collect();
        powers.reverse();
        let step = powers.len().div_ceil(DECADES).max(1);
        let mark = |rate: f64| (self.y(rate), short_rate(rate));
        let powers = powers.into_iter().step_by(step).map(mark);
        std::iter::once((WHOLE, "0".to_owned()))
            .chain(powers)
            .collect()
    }
}

/// A part (0 to 1) of a length.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of at most a thousand"
)]
fn tenths(part: f64, whole: u64) -> u64 {
    (part.clamp(0.0, 1.0) * whole as f64).round() as u64
}

/// The picture; nothing of less than two points.
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

fn words(at: &CurveAt) -> String {
    let digits = usize::from(at.per_minute < 99.95);
    format!(
        "{}: {:.digits$} pages a minute",
        Bytes(at.bytes),
        at.per_minute
    )
}

/// Each point's figures, for who points at it: from halfway to the one before to halfway to the next.
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
        // Three decades on what the ground leaves; nothing on the ground.
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
        fn whatever_the_numbers_the_line_lies_inside(
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
