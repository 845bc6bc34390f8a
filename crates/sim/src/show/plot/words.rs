//! Draws the names of groups below a picture: complete, in lines that fit the width, or turned if a
//! word is too wide.
//!
//! Invariant: no letter of a name is omitted.

use crate::stats::number;
use pictures::escaped;
use std::fmt::Write;

/// Approximate width of a letter.
const LETTER: f64 = 6.4;
const LINE: f64 = 14.0;
/// Angle of turned names: sine and cosine of 40 degrees.
const LEAN: [f64; 2] = [0.643, 0.766];

/// Names, each below the middle of its slot.
pub(super) struct Names {
    lines: Vec<Vec<String>>,
    turned: bool,
}

impl Names {
    /// Fits `names` into slots of the width `slot`.
    pub(super) fn new(names: &[String], slot: f64) -> Self {
        let room = slot - LETTER;
        let fits = |name: &String| name.split_whitespace().all(|word| width(word) <= room);
        let turned = !names.iter().all(fits);
        let lines = names.iter().map(|name| match turned {
            true => vec![name.clone()],
            false => wrapped(name, room),
        });
        Self {
            lines: lines.collect(),
            turned,
        }
    }

    /// Returns the height of the names.
    pub(super) fn height(&self) -> f64 {
        let all = self.lines.iter();
        if self.turned {
            let widest = all.flatten().map(|name| width(name)).fold(0.0, f64::max);
            return widest * LEAN[0] + LINE;
        }
        number(all.map(Vec::len).max().unwrap_or(0) as u64) * LINE + 4.0
    }

    /// Returns how far the first name reaches to the left of the middle of its slot, in units of
    /// the drawing.
    pub(super) fn overhang(&self) -> f64 {
        let first = self.lines.first().and_then(|lines| lines.first());
        if self.turned {
            first.map_or(0.0, |name| width(name) * LEAN[1])
        } else {
            0.0
        }
    }

    /// Draws name `n` around `x` and below `y`.
    pub(super) fn draw(&self, svg: &mut String, n: usize, x: f64, y: f64) {
        for (line, text) in (0u32..).zip(self.lines.get(n).into_iter().flatten()) {
            let y = y + LINE * f64::from(line + 1);
            let (anchor, turn) = match self.turned {
                true => ("end", format!(" transform=\"rotate(-40 {x:.1} {y:.1})\"")),
                false => ("middle", String::new()),
            };
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{turn}>{}</text>",
                escaped(text)
            );
        }
    }
}

/// Returns the approximate width of a text on one line.
pub(super) fn width(text: &str) -> f64 {
    number(text.chars().count() as u64) * LETTER
}

fn wrapped(text: &str, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + width(word) + LETTER <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(names: &[&str], slot: f64) -> (Names, String) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let (fitted, mut svg) = (Names::new(&names, slot), String::new());
        (0..names.len()).for_each(|n| fitted.draw(&mut svg, n, 50.0, 0.0));
        (fitted, svg)
    }

    #[test]
    fn names_wrap_and_stay_whole() {
        let (names, svg) = drawn(&["hierarchy iterator", "memcg LRU"], 80.0);
        assert!(!names.turned && names.height() > 2.0 * LINE && names.overhang() == 0.0);
        for part in [">hierarchy<", ">iterator<", ">memcg LRU<"] {
            assert!(svg.contains(part), "{svg}");
        }
    }

    #[test]
    fn a_name_that_does_not_wrap_is_turned() {
        let (names, svg) = drawn(&["1-1024-0.1", "x"], 20.0);
        assert!(names.turned && names.height() > 40.0 && names.overhang() > 40.0);
        assert!(
            svg.contains("rotate(-40") && svg.contains(">1-1024-0.1<"),
            "{svg}"
        );
    }
}
