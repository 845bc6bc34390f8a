//! What is shown, to the character where it is plain.

use std::collections::BTreeMap;

use pager::options::Limits;
use pager::report::{AgeBin, Decision, DryRun, Faults, NodeAge, Overhead, Unevictable};
use proptest::prelude::*;

use super::*;
use crate::terminal::Style;

const MIB: u64 = 1 << 20;

fn sample() -> Report {
    let bin = |older_than_ms, anon: u64, file: u64| AgeBin {
        older_than_ms,
        anon_bytes: anon * MIB,
        file_bytes: file * MIB,
    };
    Report {
        pid: 1234,
        command: vec!["redis-server".to_owned(), "*:6379".to_owned()],
        wall_ms: 131_000,
        resident_bytes: 96 * MIB,
        resident_peak_bytes: 98 * MIB,
        stored_bytes: 100 * MIB,
        store_used_bytes: 40 * MIB,
        evicted_pages: 25_600,
        refaulted_pages: 1_234,
        limbo_returns: 88_000,
        zero_pages: 12,
        faults: Faults {
            count: 90_000,
            p50_us: 12,
            p99_us: 48,
        },
        page_age: vec![NodeAge {
            node: 0,
            bins: vec![
                bin(0, 60, 4),
                bin(1_000, 20, 0),
                bin(10_000, 0, 0),
                bin(40_000, 1, 0),
            ],
        }],
        limits: Limits {
            max: Limit::Bytes(Bytes(96 * MIB)),
            low: Limit::Bytes(Bytes(MIB)),
            ..Limits::default()
        },
        overhead: Overhead {
            cpu_ms: 1_300,
            ..Overhead::default()
        },
        store: "mem".to_owned(),
        unevictable_pages: BTreeMap::from([(Unevictable::Stack, 100), (Unevictable::Mlocked, 0)]),
        ..Report::default()
    }
}

#[test]
fn a_report_in_a_pipe() {
    let want = "\
redis-server *:6379  pid 1234, managed for 2m 11s

  resident   96 MiB of 96 MiB (max)  [####################]  peak 98 MiB
  stored     100 MiB in 40 MiB of store (2.5 to 1, tiered, mem, 12 same-filled pages)
  limits     low 1 MiB
  pages      25,600 put out, 1,234 came back, 88,000 proved young in limbo
  faults     90,000, median 12 us, 99% within 48 us
  overhead   1.3s of CPU (0.9% of one)

Page age
  untouched for      anon      file
  up to 1s         60 MiB     4 MiB  ###########################################
  1s - 2s          20 MiB       0 B  #############
  2s - 5s             0 B       0 B
  5s - 10s            0 B       0 B
  10s - 20s           0 B       0 B
  20s - 40s           0 B       0 B
  40s - 1m          1 MiB       0 B  #

Cannot leave
    400 KiB  thread stacks
";
    assert_eq!(super::report(&sample(), Style::PLAIN), want);
}

#[test]
fn a_dry_run_explains_itself() {
    let mut report = sample();
    let mut dry = DryRun::default();
    for pages in 1..=10 {
        dry.push(Decision {
            start: 0x7f00_0000_0000,
            pages,
            age_ms: 61_000,
            reason: "older than 1m".to_owned(),
            ..Decision::default()
        });
    }
    report.dry_run = Some(dry);
    let text = super::report(&report, Style::PLAIN);
    assert!(
        text.contains("Dry run: 55 pages (220 KiB) would have left"),
        "{text}"
    );
    assert!(text.contains("0x7f0000000000     10 pages, untouched for 1m 01s: older than 1m"));
    assert!(text.contains("and 2 earlier decisions"));
}

#[test]
fn a_status_line_fits_the_terminal() {
    for width in [20, 40, 60, 80, 120] {
        let style = Style {
            live: true,
            color: false,
            unicode: true,
            width,
            ..Style::PLAIN
        };
        let line = status(&sample(), style);
        assert!(line.chars().count() < width.max(8), "{width}: {line}");
    }
    let plain = status(&sample(), Style::PLAIN);
    assert_eq!(
        plain,
        "2m 11s  resident 96 MiB of 96 MiB  stored 100 MiB in 40 MiB  refaults 1,234"
    );
}

#[test]
fn csv_lines_match_their_header() {
    let mut report = sample();
    let fields = |line: &str| line.split(',').count();
    let names = csv::header();
    let line = csv::row(&report);
    assert_eq!(fields(&names), fields(&line));
    let value = |name: &str| {
        let at = names.split(',').position(|n| n == name).expect(name);
        line.split(',').nth(at).expect(name).to_owned()
    };
    assert_eq!(value("anon_older_than_1s_bytes"), (21 * MIB).to_string());
    assert_eq!(value("anon_older_than_10s_bytes"), MIB.to_string());
    assert_eq!(value("file_older_than_1s_bytes"), "0");
    report.page_age[0].bins.remove(1);
    assert_eq!(
        fields(&names),
        fields(&csv::row(&report)),
        "a bin went away"
    );
    report.command = vec!["a,b".to_owned(), "\"c\"".to_owned()];
    assert!(csv::row(&report).starts_with("1234,\"a,b \"\"c\"\"\",131000,,"));
    assert!(names.starts_with("pid,command,wall_ms,exit,resident_bytes"));
    assert!(names.ends_with("anon_older_than_3600s_bytes,file_older_than_3600s_bytes"));
}

#[test]
fn counts_and_clocks() {
    assert_eq!((count(0), count(999)), ("0".to_owned(), "999".to_owned()));
    assert_eq!(count(1_234_567), "1,234,567");
    for (ms, want) in [
        (430, "0.4s"),
        (12_900, "12s"),
        (185_000, "3m 05s"),
        (7_620_000, "2h 07m"),
        (273_600_000, "3d 04h"),
    ] {
        assert_eq!(clock(ms), want);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_bar_is_as_wide_as_asked(fraction in -1.0f64..3.0, width in 1usize..200, unicode: bool) {
        let drawn = bar(fraction, width, unicode);
        prop_assert_eq!(drawn.chars().count(), width);
        let full = bar(1.0, width, unicode);
        let empty = bar(0.0, width, unicode);
        prop_assert!(fraction <= 0.0 || drawn != empty);
        prop_assert!(width == 1 && !unicode || fraction >= 1.0 || drawn != full);
    }

    #[test]
    fn rows_of_the_histogram_fit(width in 60usize..300, anon: u32, file: u32, unicode: bool) {
        let mut report = sample();
        report.page_age[0].bins[0].anon_bytes = anon.into();
        report.page_age[0].bins[0].file_bytes = file.into();
        let style = Style { width, unicode, ..Style::PLAIN };
        for row in age_rows(&report, style) {
            prop_assert!(row.chars().count() <= width, "{}", row);
        }
    }

    /// What another version, or another manager altogether, sends as a report: whatever reads as
    /// one can be shown.
    #[test]
    fn any_report_that_reads_can_be_shown(
        numbers in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 0..12),
        bytes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        width in 20usize..200,
    ) {
        let text = serde_json::to_string(&sample()).expect("plain data");
        let parts: Vec<&str> = text.split_inclusive([':', ',', '[', '{']).collect();
        let mut parts: Vec<String> = parts.into_iter().map(str::to_owned).collect();
        for (at, number) in numbers {
            let part = &mut parts[at.index(text.matches([':', ',', '[', '{']).count())];
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            if digits > 0 {
                part.replace_range(..digits, &number.to_string());
            }
        }
        let mut text = parts.concat().into_bytes();
        for (at, byte) in bytes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        if let Ok(read) = serde_json::from_slice::<Report>(&text) {
            let style = Style { width, ..Style::PLAIN };
            let _ = (report(&read, style), status(&read, style), age_rows(&read, style));
            let columns = |line: &str| line.matches(',').count();
            prop_assert!(columns(&csv::row(&read)) >= columns(&csv::header()));
        }
    }
}
