//! Tests of output for people, compared exactly if it is plain text.

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
    fn a_bar_is_as_wide_as_requested(fraction in -1.0f64..3.0, width in 1usize..200, unicode: bool) {
        let drawn = bar(fraction, width, unicode);
        prop_assert_eq!(drawn.chars().count(), width);
        let full = bar(1.0, width, unicode);
        let empty = bar(0.0, width, unicode);
        prop_assert!(fraction <= 0.0 || drawn != empty);
        prop_assert!(width == 1 && !unicode || fraction >= 1.0 || drawn != full);
    }
}

/// Collects the names of all fields, at any depth.
pub(crate) fn names(value: &serde_json::Value) -> std::collections::BTreeSet<String> {
    use serde_json::Value;
    match value {
        Value::Object(map) => {
            let inner = map.values().flat_map(names);
            map.keys().cloned().chain(inner).collect()
        }
        Value::Array(all) => all.iter().flat_map(names).collect(),
        _ => Default::default(),
    }
}

/// The status of a zram with a disk behind it and zswap in front of it.
fn swap_status() -> host::swap::Status {
    use host::swap::{Area, Backing, Compressed, Maker, Status, Zswap};
    let path = std::path::PathBuf::from("/dev/zram1");
    let compressed = Compressed {
        algorithm: None,
        recompress: None,
        original_bytes: 0,
        compressed_bytes: 0,
        memory_bytes: 0,
        ratio: None,
        backing: Some(Backing {
            path: path.clone(),
            held_bytes: 0,
            written_bytes: 0,
            read_bytes: 0,
        }),
    };
    let area = Area {
        path,
        kind: host::system::swap::SwapKind::Zram,
        ours: true,
        name: None,
        by: Some(Maker { uid: 0, at_s: 0 }),
        size_bytes: 0,
        used_bytes: 0,
        priority: 0,
        compressed: Some(compressed),
    };
    Status {
        areas: vec![area],
        page_cluster: None,
        left: Vec::new(),
        left_names: Vec::new(),
        zswap: Some(Zswap {
            enabled: true,
            algorithm: None,
            original_bytes: None,
            memory_bytes: None,
        }),
        invented: None,
    }
}

/// The JSON of each of the four subcommands of `swap`, with all fields that it may have.
fn swap_json() -> [serde_json::Result<serde_json::Value>; 4] {
    use host::swap::{Made, Recompressed, Removed};
    use host::system::swap::SwapKind;
    let (path, kind) = (std::path::PathBuf::from("/dev/zram1"), SwapKind::Zram);
    [
        serde_json::to_value(swap_status()),
        serde_json::to_value(Made {
            path: path.clone(),
            kind,
            size_bytes: 0,
            algorithm: None,
            recompress: None,
            priority: 0,
            page_cluster: None,
            removed: None,
            backing: None,
            name: None,
            already_on: false,
            differs: Vec::new(),
            by: None,
        }),
        serde_json::to_value(Recompressed {
            path: path.clone(),
            algorithm: String::new(),
            original_bytes: 0,
            memory_before_bytes: 0,
            memory_bytes: 0,
            won_bytes: 0,
            stopped: None,
        }),
        serde_json::to_value(Removed {
            path,
            kind,
            size_bytes: 0,
            brought_back_bytes: 0,
            was_on: true,
        }),
    ]
}

/// Regression: the fields of `reclaim`, `top` and `swap` were documented on no page, although
/// docs/interfaces.md promises them.
#[test]
fn every_json_field_is_documented() {
    use daemon::control::Done;
    let report = memory::samples::everything(2, 1);
    let table = top::Table::of(&report, top::By::Process, top::Sort::Resident);
    let done = Done {
        refused: Some(String::new()),
        ..Done::default()
    };
    let others = [
        serde_json::to_value(table),
        serde_json::to_value(&report),
        serde_json::to_value(done),
        serde_json::to_value(recommend::tests::sample("redis.service")),
        Ok(findings::tests::health().json()),
    ];
    let mut all = std::collections::BTreeSet::new();
    for value in swap_json().into_iter().chain(others) {
        all.extend(names(&value.expect("it is JSON")));
    }
    let page = include_str!("../../../../docs/usage.md");
    let lacks: Vec<_> = all
        .iter()
        .filter(|name| !page.contains(&format!("`{name}`")))
        .collect();
    assert!(lacks.is_empty(), "docs/usage.md does not have {lacks:?}");
}
