//! Bars of the HTML page: resident memory by kind and age, by age, and pages that were accessed
//! again.

use daemon::options::Pages;
use host::report::{AgeBin, Report};
use pictures::{
    BINS, Bar, CLASS_EDGES_MS, EDGES_MS, Part, class_of, class_sums, name_of_bin, name_of_class,
};

use crate::view::count;

use super::super::bins::{fold, fold_reaccessed};
use super::super::reaccess::meaning;

/// Selects the bytes of one kind of memory from a bin.
type Kind = fn(&AgeBin) -> u64;

/// Draws one bar each for anonymous, file, unknown and swapped-out memory, to the same scale.
pub(super) fn by_kind(report: &Report) -> String {
    let rows = fold(report, EDGES_MS.into_iter());
    let by_age = |name: &str, bytes: Kind| Bar {
        name: name.to_owned(),
        parts: sums(&rows, bytes)
            .into_iter()
            .enumerate()
            .map(|(class, bytes)| Part {
                class: format!("a{class}"),
                name: format!("{name}, {}", name_of_class(class)),
                bytes,
            })
            .collect(),
    };
    let plain = |name: &str, class: &str, bytes| Bar {
        name: name.to_owned(),
        parts: vec![Part {
            class: class.to_owned(),
            name: name.to_owned(),
            bytes,
        }],
    };
    let all = [
        by_age("anonymous", |row| row.anon_bytes),
        by_age("file", |row| row.file_bytes),
        plain("age unknown", "un", report.unknown_age_bytes),
        plain("in swap", "out", report.swapped_bytes),
    ];
    let shown: Vec<Bar> = all.into_iter().filter(|bar| bar.bytes() > 0).collect();
    let used = sums(&rows, AgeBin::bytes).map(|bytes| bytes > 0);
    let last = used
        .iter()
        .rposition(|used| *used)
        .map_or(0, |last| last + 1);
    let colours: Vec<_> = (0..last)
        .map(|class| (format!("a{class}"), name_of_class(class)))
        .collect();
    pictures::bars("By kind", &shown, &colours)
}

fn sums(rows: &[AgeBin], bytes: Kind) -> [u64; pictures::CLASSES] {
    let mut ages = [0; BINS];
    for (age, row) in ages.iter_mut().zip(rows) {
        *age = bytes(row);
    }
    class_sums(&ages)
}

/// Draws the page-age histogram: a bar for each age, up to the oldest age that any page has.
pub(super) fn by_age(report: &Report) -> String {
    let rows = fold(report, EDGES_MS.into_iter());
    let last = rows.iter().rposition(|row| row.bytes() > 0);
    let rows = rows.iter().take(last.map_or(0, |last| last + 1));
    let bars = rows.enumerate().map(|(bin, row)| {
        let part = |kind: &str, more: &str, bytes| Part {
            class: format!("a{}{more}", class_of(bin)),
            name: format!("{kind}, {}", name_of_bin(bin)),
            bytes,
        };
        Bar {
            name: name_of_bin(bin),
            parts: vec![
                part("anonymous", "", row.anon_bytes),
                part("file", " file", row.file_bytes),
            ],
        }
    });
    let bars: Vec<Bar> = bars.collect();
    let kinds = [("kind", "anonymous"), ("kind file", "file")];
    let kinds = kinds.map(|(class, name)| (class.to_owned(), name.to_owned()));
    pictures::bars("By age", &bars, &kinds)
}

/// Draws pages that were accessed again, by the age that they had. Had they been paged out, they
/// would have been refaulted.
pub(super) fn again(report: &Report) -> String {
    let rows = fold_reaccessed(report, &CLASS_EDGES_MS);
    // The first row is memory in use, which does not count.
    let last = rows.iter().rposition(|&pages| pages > 0).unwrap_or(0);
    if last == 0 {
        return String::new();
    }
    let bars = rows.iter().enumerate().take(last + 1).skip(1);
    let bars = bars.map(|(class, &pages)| {
        let name = name_of_class(class);
        Bar {
            parts: vec![Part {
                class: format!("a{class}"),
                name: format!("after {name}, {} pages", count(pages)),
                bytes: Pages(pages).bytes().0,
            }],
            name,
        }
    });
    let bars: Vec<Bar> = bars.collect();
    let meaning = meaning(report).unwrap_or_default();
    let drawn = pictures::bars("By the age that it had", &bars, &[]);
    format!("{drawn}<p>{meaning}</p>\n")
}
