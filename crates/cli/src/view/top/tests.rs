//! Tests of the table with invented reports.

use std::collections::BTreeMap;

use host::report::Report;
use proptest::prelude::*;

use super::*;
use crate::terminal::Style;
use crate::view::memory::samples::{any_report, everything, hostile, huge, server};
use crate::view::text::{columns, json_line};

fn users() -> BTreeMap<u32, String> {
    [(0, "root"), (1, "somebody-with-a-name")]
        .map(|(uid, name)| (uid, name.to_owned()))
        .into()
}

fn shown(report: &Report, by: By, style: Style) -> String {
    human(
        &Table::of(report, by, Sort::Resident),
        by,
        None,
        &users(),
        style,
    )
}

#[test]
fn processes_with_their_users() {
    let want = include_str!("tests/processes.txt");
    let text = shown(&server(), By::Process, Style::PLAIN);
    assert_eq!(text, want, "{text}");
}

#[test]
fn a_group_is_the_sum_of_its_processes() {
    let report = everything(10, 400);
    let table = Table::of(&report, By::Cgroup, Sort::Resident);
    assert_eq!(table.rows.len(), 4);
    let sum: u64 = table.rows.iter().map(|row| row.resident_bytes).sum();
    assert_eq!(
        sum,
        report
            .processes
            .iter()
            .map(|p| p.resident_bytes)
            .sum::<u64>()
    );
    assert_eq!(sum, table.totals.resident_bytes);
    assert_eq!(table.rows.iter().map(|row| row.processes).sum::<u64>(), 10);
    let text = shown(&report, By::Cgroup, Style::PLAIN);
    assert!(text.contains("PROCS RESIDENT"), "{text}");
    assert!(text.contains("service-0.service"), "{text}");
    let line = json_line(&table);
    let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert!(value["rows"][0]["pid"].is_null() && value["totals"]["cgroup"].is_null());
    assert_eq!(value["age_source"], "page-tables");
}

#[test]
fn the_largest_comes_first_by_any_key() {
    let mut report = everything(5, 400);
    report.processes[3].swapped_bytes = u64::MAX;
    report.processes[4].older_than_10s_bytes = u64::MAX;
    let first = |sort| Table::of(&report, By::Process, sort).rows[0].pid;
    assert_eq!(first(Sort::Resident), Some(100));
    assert_eq!(first(Sort::Swapped), Some(103));
    assert_eq!(first(Sort::Cold), Some(104));
}

#[test]
fn ages_that_are_not_known_yet_are_dashes() {
    let mut report = everything(1, 2);
    report.processes[0].older_than_10s_bytes = 0;
    report.processes[0].older_than_1m_bytes = 0;
    let text = shown(&report, By::Process, Style::PLAIN);
    assert!(text.contains("     -     -     -       0"), "{text}");
    report.wall_ms = 700_000;
    let text = shown(&report, By::Process, Style::PLAIN);
    assert!(text.contains("     0     0     0       0"), "{text}");
}

#[test]
fn rows_are_limited_by_the_terminal_and_by_request() {
    let report = everything(1000, 9);
    let table = Table::of(&report, By::Process, Sort::Resident);
    let style = Style {
        height: 24,
        ..Style::PLAIN
    };
    let text = human(&table, By::Process, None, &users(), style);
    assert_eq!(text.lines().count(), 23, "{text}");
    assert!(text.ends_with("and 982 more\n"), "{text}");
    let text = human(&table, By::Process, Some(3), &users(), style);
    assert!(
        text.ends_with("and 997 more\n") && text.lines().count() == 8,
        "{text}"
    );
    let text = human(&table, By::Process, None, &users(), Style::PLAIN);
    assert_eq!(text.lines().count(), 1004);
}

#[test]
fn nothing_at_all_is_a_table_too() {
    let text = shown(&Report::default(), By::Process, Style::PLAIN);
    assert!(text.starts_with("0 processes, 0 B resident"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_table_fits(report in prop_oneof![any_report(), Just(huge()), Just(hostile())], width in 20usize..130, height in 4usize..60, unicode: bool) {
        let style = Style { width, height, unicode, ..Style::PLAIN };
        for by in [By::Process, By::Cgroup] {
            let text = shown(&report, by, style);
            prop_assert!(text.lines().count() <= height.max(6), "{text}");
            for line in text.lines() {
                prop_assert!(columns(line) <= width, "{line:?}");
                prop_assert!(!line.contains(char::is_control));
            }
        }
    }
}
