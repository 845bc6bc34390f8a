//! The page: a plot as inline SVG over a table. It loads nothing, so it can be kept and sent.
//!
//! Invariant: text from outside (the file's name) is escaped.

use std::fmt::Write;

use daemon::options::Bytes;
use sim::mrc::Curves;

use crate::view::text::escaped;
use crate::view::{count, share};

use super::{PAGE, part_of_all, summary};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 340.0;
/// Room for the axes: left, top, right, bottom.
const MARGIN: [f64; 4] = [56.0, 16.0, 16.0, 44.0];
const COLORS: [&str; 5] = ["#2f6fb2", "#d1622b", "#58616b", "#3c8d53", "#8a5aa8"];
const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;max-width:820px;margin:2em auto;padding:0 1em;\
color:#1d2329;background:#fcfcfb}\
h1{font-size:1.4em;margin-bottom:.2em;overflow-wrap:anywhere}p{color:#58616b;margin-top:0}\
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}\
th,td{padding:.2em .8em;border-bottom:1px solid #dfe2e5;text-align:right}\
th{color:#58616b;font-weight:600}svg{width:100%;height:auto;margin:.6em 0}\
svg text{font:11px system-ui,sans-serif;fill:#58616b}svg .paper{fill:#fff}\
svg .grid{stroke:#e6e8ea}svg polyline{fill:none;stroke-width:2}";

/// The whole page.
pub(crate) fn html(name: &str, result: &Curves) -> String {
    let (name, about) = (escaped(name), escaped(&summary(name, result)));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Miss ratios of {name}</title>\n<style>{STYLE}</style></head><body>\n\
         <h1>Miss ratios of {name}</h1>\n<p>{about}</p>\n{}{}</body></html>\n",
        svg(result),
        table(result),
    )
}

/// Where a size and a ratio stand.
fn point(size: u64, most: u64, ratio: f64) -> (f64, f64) {
    let [left, top, right, bottom] = MARGIN;
    let x = left + share(size, most) * (WIDTH - left - right);
    let y = top + (1.0 - ratio) * (HEIGHT - top - bottom);
    (x, y)
}

fn svg(result: &Curves) -> String {
    let most = result.sizes.last().copied().unwrap_or(1);
    let [left, top, right, bottom] = MARGIN;
    let mut text = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"miss ratio by size\">\n\
         <rect class=\"paper\" x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\"/>\n",
        WIDTH - left - right,
        HEIGHT - top - bottom,
    );
    for tenth in [0u32, 2, 4, 6, 8, 10] {
        let ratio = f64::from(tenth) / 10.0;
        let (_, y) = point(0, most, ratio);
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
        let size = u64::try_from(u128::from(most) * quarter / 4).unwrap_or(most);
        let (x, _) = point(size, most, 0.0);
        let _ = writeln!(
            text,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - bottom + 16.0,
            Bytes(size.saturating_mul(PAGE)),
        );
    }
    for (n, ((policy, ratios), color)) in result.curves.iter().zip(COLORS).enumerate() {
        let points = result.sizes.iter().zip(ratios);
        let points = points.map(|(&size, &ratio)| {
            let (x, y) = point(size, most, ratio);
            format!("{x:.1},{y:.1}")
        });
        let points = points.collect::<Vec<_>>().join(" ");
        let x = left + 110.0 * f64::from(u32::try_from(n).unwrap_or(0));
        let _ = writeln!(
            text,
            "<polyline stroke=\"{color}\" points=\"{points}\"/>\
             <text x=\"{x:.0}\" y=\"{:.0}\" style=\"fill:{color}\">\u{25cf} {}</text>",
            HEIGHT - 8.0,
            policy.name(),
        );
    }
    text + "</svg>\n"
}

fn table(result: &Curves) -> String {
    let mut text = "<table><tr><th>pages</th><th>bytes</th><th>of all</th>".to_owned();
    for (policy, _) in &result.curves {
        let _ = write!(text, "<th>{}</th>", policy.name());
    }
    text += "</tr>\n";
    for (n, &size) in result.sizes.iter().enumerate() {
        let bytes = Bytes(size.saturating_mul(PAGE));
        let of_all = part_of_all(size, result.pages);
        let _ = write!(
            text,
            "<tr><td>{}</td><td>{bytes}</td><td>{of_all}</td>",
            count(size)
        );
        for (_, ratios) in &result.curves {
            let _ = write!(text, "<td>{:.4}</td>", ratios[n]);
        }
        text += "</tr>\n";
    }
    text + "</table>\n"
}
