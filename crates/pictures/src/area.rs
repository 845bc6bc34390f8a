//! The picture of memory over time, in layers by age. The oldest pages are at the bottom, so that
//! the amount of cold memory can be read off the axis. Swapped memory is a line.
//!
//! Invariant: layers never cross; the top of the highest layer is the resident memory.

use std::fmt::Write;

use crate::ages::{CLASSES, class_sums, name_of_class};
use crate::axis::{WHOLE, place, sizes, times};
use crate::figure::{Figure, legend};
use crate::track::{Moment, Track};

/// Draws the picture of a track, with its legend, as HTML.
#[must_use]
pub fn area(track: &Track) -> String {
    let highest = |moment: &Moment| moment.resident().max(moment.swapped);
    let most = track.moments().map(highest).max().unwrap_or(0).max(1);
    let layers = layers_of(track);
    let mut content = String::new();
    for (n, (class, name)) in layers.iter().enumerate() {
        let path = layer(track, most, &layers, n);
        let _ = writeln!(
            content,
            "<path class=\"{class}\" d=\"{path}\"><title>{name}</title></path>"
        );
    }
    let has_swapped = track.moments().any(|moment| moment.swapped > 0);
    if has_swapped {
        let _ = writeln!(
            content,
            "<path class=\"line\" d=\"{}\"/>",
            line(track, most)
        );
    }
    // The legend starts with the youngest, as lists of ages do.
    let mut items: Vec<(String, &str)> = layers
        .iter()
        .rev()
        .map(|(class, name)| (class.clone(), name.as_str()))
        .collect();
    // Unknown age comes last.
    if items.first().is_some_and(|(class, _)| class == "un") {
        items.rotate_left(1);
    }
    items.extend(has_swapped.then(|| ("out".to_owned(), "in swap (line)")));
    let figure = Figure {
        class: "area",
        title: "Memory by age",
        says: "stacked by age, the oldest at the bottom",
        ys: &sizes(most),
        xs: &times(track),
        is_timed: true,
        field: (track.width() * 2, WHOLE, &content),
        legend: &legend(items.into_iter()),
    };
    figure.html()
}

/// Returns the layers from the bottom up: CSS class, name.
fn layers_of(track: &Track) -> Vec<(String, String)> {
    let aged = (0..CLASSES).rev().filter(|class| track.has_class(*class));
    let mut layers: Vec<_> = aged
        .map(|class| (format!("a{class}"), name_of_class(class)))
        .collect();
    if track.moments().any(|moment| moment.unknown > 0) {
        layers.push(("un".to_owned(), "age unknown".to_owned()));
    }
    layers
}

/// Returns the bytes of the layer with the CSS class `class`.
fn bytes_of(moment: &Moment, class: &str) -> u64 {
    let number = class
        .strip_prefix('a')
        .and_then(|number| number.parse::<usize>().ok());
    number.map_or(moment.unknown, |number| class_sums(&moment.ages)[number])
}

/// Returns each series of neighbouring columns that have figures, as pairs: index of the column,
/// its figures.
fn stretches(track: &Track) -> Vec<Vec<(u64, &Moment)>> {
    let mut found = vec![Vec::new()];
    for (column, moment) in (0..).zip(&track.columns) {
        match (moment, found.last_mut()) {
            (Some(moment), Some(last)) => last.push((column, moment)),
            (None, Some(last)) if !last.is_empty() => found.push(Vec::new()),
            _ => {}
        }
    }
    found.retain(|stretch| !stretch.is_empty());
    found
}

/// Returns the points (x, y) of a line through the middles of a series of columns; `height` returns
/// the y coordinate of a column's figures. The line begins and ends at the outer edges of the
/// series. A column is two units wide.
fn corners(stretch: &[(u64, &Moment)], height: impl Fn(&Moment) -> u64) -> Vec<(u64, u64)> {
    let mut corners = Vec::with_capacity(stretch.len() + 2);
    for (n, (column, moment)) in stretch.iter().enumerate() {
        let y = height(moment);
        corners.extend((n == 0).then_some((column * 2, y)));
        corners.push((column * 2 + 1, y));
        corners.extend((n + 1 == stretch.len()).then_some((column * 2 + 2, y)));
    }
    corners
}

/// Returns the SVG path of a line through these points (x, y).
fn path(corners: &[(u64, u64)]) -> String {
    let mut text = String::new();
    for (n, (x, y)) in corners.iter().enumerate() {
        let _ = write!(text, "{}{x} {y}", if n == 0 { 'M' } else { 'L' });
    }
    text
}

/// Returns the SVG path of layer `n`. The full height stands for `most` bytes.
fn layer(track: &Track, most: u64, layers: &[(String, String)], n: usize) -> String {
    let below = |moment: &Moment, up_to: usize| {
        let sum = layers[..up_to].iter().fold(0u64, |sum, (class, _)| {
            sum.saturating_add(bytes_of(moment, class))
        });
        WHOLE - place(sum, most)
    };
    let mut text = String::new();
    for stretch in stretches(track) {
        let mut corners_of = corners(&stretch, |moment| below(moment, n + 1));
        let mut ground = corners(&stretch, |moment| below(moment, n));
        ground.reverse();
        corners_of.extend(ground);
        let _ = write!(text, "{}z", path(&corners_of));
    }
    text
}

/// Returns the SVG path of the line of swapped memory. The full height stands for `most` bytes.
fn line(track: &Track, most: u64) -> String {
    let of = |stretch: Vec<(u64, &Moment)>| {
        path(&corners(&stretch, |moment| {
            WHOLE - place(moment.swapped, most)
        }))
    };
    stretches(track).into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::track::Clock;

    fn track(columns: Vec<Option<Moment>>) -> Track {
        Track {
            from_ms: 0,
            step_ms: 1000,
            columns,
            clock: Clock::Passed,
        }
    }

    #[test]
    fn layers_stand_on_each_other_and_gaps_stay_open() {
        let mut moment = Moment::default();
        moment.ages[0] = 100;
        moment.ages[17] = 300;
        let html = area(&track(vec![Some(moment), None, Some(moment)]));
        let old = "<path class=\"a6\" d=\"M0 250L1 250L2 250L2 1000L1 1000L0 1000zM4 250";
        let young = "<path class=\"a0\" d=\"M0 0L1 0L2 0L2 250L1 250L0 250zM4 0";
        assert!(html.contains(old) && html.contains(young), "{html}");
        assert!(!html.contains("class=\"un\"") && !html.contains("class=\"line\""));
        let (first, second) = (html.find("<i class=\"a0\""), html.find("<i class=\"a6\""));
        assert!(
            first.is_some() && first < second,
            "the youngest is listed first"
        );
    }

    proptest! {
        #[test]
        fn for_any_numbers_corners_lie_inside(
            all in prop::collection::vec(prop::option::of((prop::array::uniform18(any::<u64>()), any::<u64>(), any::<u64>())), 0..6)
        ) {
            let moments = all.into_iter().map(|one| one.map(|(ages, unknown, swapped)| Moment {
                ages, unknown, swapped, ..Moment::default()
            }));
            let track = track(moments.collect());
            let html = area(&track);
            for path in html.split(" d=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                for corner in path.split(['M', 'L', 'z']).filter(|corner| !corner.is_empty() && !corner.contains('h')) {
                    let (x, y) = corner.split_once(' ').expect("two numbers");
                    let (x, y): (u64, u64) = (x.parse().expect("a number"), y.parse().expect("a number"));
                    prop_assert!(x <= track.width() * 2 && y <= WHOLE, "{corner}");
                }
            }
        }
    }
}
