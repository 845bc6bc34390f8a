//! Draws a picture as inline SVG in an HTML figure, without scripts or network. Title, legend and
//! labels are text of the page, so they wrap; the colors are those of the page, light or dark.
//!
//! Invariant: no name of a picture is omitted or cut off. A series of the document differs from the
//! simulator's in shape, not only in color.

mod axis;
mod words;

mod paper;

mod bars;
mod curve;
mod distribution;

use crate::outcome::{By, Kind, Picture};
use pictures::escaped;

/// Number of colors that the page defines.
const COLORS: usize = 6;

/// Returns the figure; an empty text if there is nothing to draw.
pub(super) fn figure(picture: &Picture) -> String {
    if picture.series.iter().all(|series| series.points.is_empty()) {
        return String::new();
    }
    let drawing = match &picture.kind {
        Kind::Bars(groups) => bars::draw(picture, groups),
        Kind::Curve => curve::draw(picture),
        Kind::Distribution => distribution::draw(picture),
    };
    format!(
        "<figure>\n<h2>{}</h2>\n{}<p class=\"up\">{}</p>\n<div>{drawing}</div>\n\
         <p class=\"along\">{}</p>\n</figure>\n",
        escaped(&picture.title),
        legend(picture),
        escaped(&picture.y),
        escaped(&picture.x),
    )
}

/// Returns the legend. For a distribution it has only the bounds, because the strips have names of
/// their own.
fn legend(picture: &Picture) -> String {
    let needed = |by| picture.kind != Kind::Distribution || by == By::Rule;
    let series = picture.series.iter().enumerate();
    let keys: Vec<String> = series
        .filter(|(_, series)| needed(series.by))
        .map(|(n, series)| {
            let (class, name) = (class(picture, n), escaped(&series.name));
            format!("<span><i class=\"key {class}\"></i>{name}</span>")
        })
        .collect();
    if keys.is_empty() {
        return String::new();
    }
    let joined = if picture.kind == Kind::Curve {
        " joined"
    } else {
        ""
    };
    format!("<p class=\"legend{joined}\">{}</p>\n", keys.join("\n"))
}

/// Returns the CSS classes of series `n`: its color and its source. The n-th series of the document
/// has the color of the simulator's n-th.
fn class(picture: &Picture, n: usize) -> String {
    let by = picture.series[n].by;
    let before = picture.series[..n].iter().filter(|series| series.by == by);
    let color = before.count() % COLORS;
    match by {
        By::Us => format!("c{color}"),
        By::Document => format!("c{color} document"),
        By::Rule => "rule".to_owned(),
    }
}

/// Returns a tooltip.
fn tip(name: &str, value: &str) -> String {
    format!("<title>{}: {value}</title>", escaped(name))
}
