//! Small pictures for a row of a table: a heat map of ages over time without axes, and the current
//! ages as a bar.

use crate::ages::{CLASSES, name_of_class};
use crate::bars::{Part, drawn};
use crate::heat::{cells, shade};

/// Draws a heat map without axes, as SVG. Each column has the bytes of each age class at one time;
/// `None` if nothing was watched then.
#[must_use]
pub fn strip(columns: &[Option<[u64; CLASSES]>]) -> String {
    let most = columns
        .iter()
        .flatten()
        .flatten()
        .copied()
        .max()
        .unwrap_or(0);
    let content = cells(CLASSES, columns.len(), |column, row| {
        columns[column]
            .as_ref()
            .map_or(0, |ages| shade(ages[row], most))
    });
    let width = columns.len().max(1);
    format!(
        "<svg class=\"strip\" viewBox=\"0 0 {width} {CLASSES}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\n{content}</svg>"
    )
}

/// Draws a bar as SVG. Its parts are the bytes of each age class, then `unknown`, the bytes of
/// unknown age. The full width stands for `whole` bytes.
#[must_use]
pub fn age_bar(ages: &[u64; CLASSES], unknown: u64, whole: u64) -> String {
    let aged = ages.iter().enumerate().map(|(class, bytes)| Part {
        class: format!("a{class}"),
        name: name_of_class(class),
        bytes: *bytes,
    });
    let unknown = Part {
        class: "un".to_owned(),
        name: "age unknown".to_owned(),
        bytes: unknown,
    };
    let parts: Vec<Part> = aged.chain([unknown]).collect();
    drawn(parts.iter(), whole)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_strip_has_its_youngest_at_the_bottom() {
        let svg = strip(&[Some([8, 0, 0, 0, 0, 0, 1]), None]);
        assert!(
            svg.contains("<path class=\"h8\" d=\"M0 6h1v1h-1z\"/>"),
            "{svg}"
        );
        assert!(
            svg.contains("<path class=\"h5\" d=\"M0 0h1v1h-1z\"/>"),
            "{svg}"
        );
        assert!(strip(&[]).contains("viewBox=\"0 0 1 7\""));
    }

    proptest! {
        #[test]
        fn parts_lie_inside(ages in prop::array::uniform7(any::<u64>()), unknown in any::<u64>(), whole in any::<u64>()) {
            let svg = age_bar(&ages, unknown, whole);
            let number = |part: &str, name: &str| {
                let text = part.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('%').next());
                text.and_then(|text| text.parse::<f64>().ok()).expect("a share")
            };
            for part in svg.split("<rect").skip(1) {
                let (x, width) = (number(part, "x"), number(part, "width"));
                prop_assert!(width > 0.0 && x + width <= 100.01, "{part}");
            }
        }
    }
}
