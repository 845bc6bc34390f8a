//! The chart of the HTML page: all curves over the sizes, as inline SVG, for light and dark
//! screens.
//!
//! Invariant: a policy has the same colour and dashes in every chart, and the legend shows its full
//! name.

use std::fmt::Write;

use daemon::options::Pages;
use sim::mrc::{CurvePolicy, Curves};

use crate::view::share;

use super::OURS;

const WIDTH: f64 = 760.0;
/// Height of the axes with their labels; the legend is below them.
const HEIGHT: f64 = 340.0;
/// Space for the axes: left, top, right, bottom.
const MARGIN: [f64; 4] = [56.0, 16.0, 16.0, 30.0];
/// Number of names in a row of the legend.
const LEGEND_COLUMNS: usize = 5;
const NAME_WIDTH: f64 = 138.0;
const ROW: f64 = 18.0;

/// Styles of policies, in the order of [`CurvePolicy::ALL`]: colour on light, colour on dark, and
/// dashes for readers who cannot distinguish the colours.
const STYLES: [(&str, &str, &str); CurvePolicy::ALL.len()] = [
    ("#2f6fb2", "#6aa9e9", ""),
    ("#d1622b", "#f0935f", "7 3"),
    ("#1d2329", "#eceff2", "2 2"),
    ("#c2185b", "#ff6fa5", ""),
    ("#8a5aa8", "#c19be0", "5 2 1 2"),
    ("#3c8d53", "#6fcb8b", ""),
    ("#a87400", "#e2ba52", "7 3"),
    ("#0f8b8d", "#51cdcf", "2 2"),
    ("#7a4b2b", "#cf9f7e", "5 2 1 2"),
    ("#6b7280", "#a9b1bb", ""),
];

fn style_of(policy: CurvePolicy) -> usize {
    let at = CurvePolicy::ALL.iter().position(|known| *known == policy);
    at.unwrap_or(0)
}

/// Returns the chart's rules for the page's style sheet.
pub(super) fn style() -> String {
    let mut text = "svg{width:100%;height:auto;margin:.6em 0}\
                    svg text{font:11px system-ui,sans-serif;fill:var(--dim)}\
                    svg .paper{fill:none;stroke:var(--line)}svg .grid{stroke:var(--line)}\
                    svg .curve{fill:none;stroke-width:1.6}svg .ours{stroke-width:3}"
        .to_owned();
    let rules = |color: fn(&(&'static str, &'static str, &'static str)) -> &'static str| {
        let rule = |(n, style)| format!(".c{n}{{stroke:{}}}", color(style));
        STYLES.iter().enumerate().map(rule).collect::<String>()
    };
    text += &rules(|style| style.0);
    let _ = write!(
        text,
        "@media(prefers-color-scheme:dark){{{}}}",
        rules(|style| style.1)
    );
    text
}

/// Returns the attributes of a policy's lines.
fn attributes(policy: CurvePolicy) -> String {
    let style = style_of(policy);
    let ours = if policy == OURS { " ours" } else { "" };
    let dashes = match STYLES[style].2 {
        "" => String::new(),
        dashes => format!(" stroke-dasharray=\"{dashes}\""),
    };
    format!("class=\"curve c{style}{ours}\"{dashes}")
}

/// Ends of the axes: the largest size, and the smallest number of fifths that no miss ratio
/// exceeds, so that close curves can be distinguished.
#[derive(Clone, Copy)]
struct Reach {
    size: u64,
    fifths: u32,
}

impl Reach {
    fn of(result: &Curves) -> Self {
        let ratios = result.curves.iter().flat_map(|(_, ratios)| ratios);
        let most = ratios.copied().fold(0.0, f64::max);
        let fifths = (1..5).find(|&fifths| most <= f64::from(fifths) / 5.0);
        Self {
            size: result.sizes.last().copied().unwrap_or(1),
            fifths: fifths.unwrap_or(5),
        }
    }

    /// Returns the coordinates of a size and a ratio.
    fn point(self, size: u64, ratio: f64) -> (f64, f64) {
        let [left, top, right, bottom] = MARGIN;
        let x = left + share(size, self.size) * (WIDTH - left - right);
        let part = ratio * 5.0 / f64::from(self.fifths);
        let y = top + (1.0 - part) * (HEIGHT - top - bottom);
        (x, y)
    }
}

/// Draws the whole chart.
pub(super) fn svg(result: &Curves) -> String {
    let reach = Reach::of(result);
    let rows = result.curves.len().div_ceil(LEGEND_COLUMNS);
    let height = HEIGHT + ROW * share(rows as u64, 1);
    let mut text = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"miss ratio by size\">\n"
    );
    text += &axes(reach);
    // The multi-gen LRU's curve is drawn last, so that no other curve hides it.
    let mut curves: Vec<_> = result.curves.iter().collect();
    curves.sort_by_key(|(policy, _)| *policy == OURS);
    for (policy, ratios) in curves {
        let points = result.sizes.iter().zip(ratios);
        let points = points.map(|(&size, &ratio)| {
            let (x, y) = reach.point(size, ratio);
            format!("{x:.1},{y:.1}")
        });
        let points = points.collect::<Vec<_>>().join(" ");
        let _ = writeln!(
            text,
            "<polyline {} points=\"{points}\"/>",
            attributes(*policy)
        );
    }
    text += &legend(result);
    text + "</svg>\n"
}

fn axes(reach: Reach) -> String {
    let [left, top, right, bottom] = MARGIN;
    let mut text = format!(
        "<rect class=\"paper\" x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\"/>\n",
        WIDTH - left - right,
        HEIGHT - top - bottom,
    );
    for tenth in 0..=2 * reach.fifths {
        let ratio = f64::from(tenth) / 10.0;
        // With more than three fifths, only every second tenth has a grid line.
        if tenth % 2 == 1 && reach.fifths > 3 {
            continue;
        }
        let (_, y) = reach.point(0, ratio);
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{ratio:.1}</text>",
            WIDTH - right,
            left - 6.0,
            y + 4.0,
        );
    }
    for quarter in 0..=4 {
        let size = u64::try_from(u128::from(reach.size) * quarter / 4).unwrap_or(reach.size);
        let (x, _) = reach.point(size, 0.0);
        // The last label ends at the end of the axis; a centred label would be cut off.
        let anchor = if quarter == 4 { "end" } else { "middle" };
        let _ = writeln!(
            text,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            HEIGHT - bottom + 16.0,
            Pages(size).bytes(),
        );
    }
    text
}

fn legend(result: &Curves) -> String {
    let mut text = String::new();
    for (n, (policy, _)) in result.curves.iter().enumerate() {
        let x = MARGIN[0] + NAME_WIDTH * share((n % LEGEND_COLUMNS) as u64, 1);
        let y = HEIGHT + ROW * share((n / LEGEND_COLUMNS) as u64, 1);
        let _ = writeln!(
            text,
            "<line {} x1=\"{x:.0}\" x2=\"{:.0}\" y1=\"{:.0}\" y2=\"{:.0}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
            attributes(*policy),
            x + 24.0,
            y + 2.0,
            y + 2.0,
            x + 30.0,
            y + 6.0,
            policy.name(),
        );
    }
    text
}
