//! The part of the HTML page about the whole watch: memory over time, in pictures and in numbers.

use std::fmt::Write;

use daemon::options::Bytes;
use host::report::PressureOf;
use pictures::{Hints, Track, area, heat, refaults, waited};

use crate::view::count;

use super::boxed;

/// Returns that part. `of`: the processes whose waiting the pressure measures.
pub(super) fn over_time(track: &Track, of: Option<PressureOf>) -> String {
    let mut pictures = heat(track, Hints::Titles) + &area(track) + &refaults(track);
    let waited = waited(track);
    if let Some(of) = of.filter(|_| !waited.is_empty()) {
        pictures += &waited;
        let _ = writeln!(pictures, "<p class=\"sub\">Waited: {}.</p>", of.name());
    }
    format!(
        "{pictures}<details><summary>The same in numbers</summary>{}</details>\n",
        table(track)
    )
}

fn table(track: &Track) -> String {
    let mut text =
        "<table><tr><th class=\"name\">when</th><th>in memory</th><th>in swap</th><th>&gt;10s</th>\
        <th>&gt;1m</th><th>&gt;10m</th><th>unknown</th><th>back a minute</th></tr>\n"
            .to_owned();
    for (n, moment) in track.columns.iter().enumerate() {
        let Some(moment) = moment else { continue };
        let _ = write!(text, "<tr><td class=\"name\">{}</td>", track.time_of(n));
        let sizes = [
            moment.resident(),
            moment.swapped,
            moment.older_than(10_000),
            moment.older_than(60_000),
            moment.older_than(600_000),
            moment.unknown,
        ];
        for bytes in sizes {
            let _ = write!(text, "<td>{}</td>", Bytes(bytes));
        }
        let back = moment.back.map_or_else(String::new, count);
        let _ = writeln!(text, "<td>{back}</td></tr>");
    }
    boxed("over time, in numbers", &(text + "</table>"))
}
