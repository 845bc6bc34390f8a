//! Tests of series of tables.

use super::*;
use crate::commands::scans::tests::{go, plan, short};
use crate::view::top::{By, Sort};

fn written(args: &Top, plan: &Plan, style: fn() -> Style) -> String {
    let mut out = Vec::new();
    let mut tables = Tables::new(args, plan, style, &mut out);
    follow(plan, short, &go(), &mut tables).expect("no failure");
    tables.end().expect("written");
    String::from_utf8(out).expect("UTF-8")
}

fn args(json: bool) -> Top {
    Top {
        by: By::Process,
        every: daemon::options::Millis(1000),
        tree: crate::args::Tree {
            root: "pagetide".into(),
        },
        sort: Sort::Resident,
        rows: None,
        time: None,
        once: false,
        json,
    }
}

#[test]
fn tables_follow_each_other_where_nothing_is_redrawn() {
    let text = written(&args(false), &plan(None, Some(1)), || Style::PLAIN);
    assert_eq!(text.matches("COMMAND").count(), 3, "{text}");
    assert_eq!(
        text.matches("\n\n3 processes,").count(),
        2,
        "a blank line between"
    );
    assert!(!text.contains('\x1b'));
}

#[test]
fn once_is_the_last_one() {
    let text = written(&args(false), &plan(Some(2), None), || Style::PLAIN);
    assert_eq!(text.matches("COMMAND").count(), 1, "{text}");
    assert!(text.contains("for 2.0s"), "{text}");
}

#[test]
fn a_terminal_is_drawn_over() {
    let style = || Style {
        live: true,
        height: 24,
        ..Style::PLAIN
    };
    let text = written(&args(false), &plan(None, Some(1)), style);
    assert_eq!(text.matches("\x1b[H").count(), 3, "{text:?}");
}

#[test]
fn json_is_one_object_a_line() {
    let mut args = args(true);
    args.rows = Some(2);
    let text = written(&args, &plan(None, Some(1)), || Style::PLAIN);
    assert_eq!(text.lines().count(), 3);
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(value["rows"].as_array().map(Vec::len), Some(2));
        assert_eq!(value["totals"]["processes"], 3);
    }
}
