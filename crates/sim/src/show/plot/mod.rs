//! A picture as inline SVG in a figure: no script, no network. Title, legend and labels are text of the
//! page, so that they wrap; colors are the page's, light or dark.
//!
//! Invariant: nothing that a picture names is left out or cut off; a series of the document's looks
//! different from ours in shape, not in color alone.

mod axis;
mod bars;
mod curve;
mod distribution;
mod paper;
mod words;

use crate::outcome::{By, Kind, Picture};
use pictures::escaped;

/// Colors that the page has.
const COLORS: usize = 6;

/// The figure; nothing if there is nothing to draw.
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

/// What each mark means. Strips have their names with them.
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

/// The classes of series `n`: its color, and whose it is. The document's n-th has the color of our n-th.
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

/// What is shown where the pointer rests.
fn tip(name: &str, value: &str) -> String {
    format!("<title>{}: {value}</title>", escaped(name))
}
