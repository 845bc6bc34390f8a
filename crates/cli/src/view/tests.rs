//! What is shown, to the character where it is plain.

use daemon::options::{Bytes, Limits, Size};
use host::report::Report;
use proptest::prelude::*;

use super::*;
use crate::terminal::Style;

const MIB: u64 = 1 << 20;

fn sample() -> Report {
    Report {
        pid: Some(1234),
        wall_ms: 131_000,
        resident_bytes: 96 * MIB,
        swapped_bytes: 100 * MIB,
        evicted_pages: 25_600,
        refaulted_pages: 1_234,
        ..Report::default()
    }
}

fn limits() -> Limits {
    Limits {
        max: Size::Bytes(Bytes(96 * MIB)),
        ..Limits::default()
    }
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
        let line = status(&sample(), limits(), style);
        assert!(line.chars().count() < width.max(8), "{width}: {line}");
    }
    let plain = status(&sample(), limits(), Style::PLAIN);
    assert_eq!(
        plain,
        "2m 11s  resident 96 MiB of 96 MiB  swapped 100 MiB  out 25,600  back 1,234"
    );
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
}
