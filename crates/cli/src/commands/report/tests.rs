//! Tests of series of reports, in every format.

use super::*;
use crate::commands::scans::tests::{endless, go, plan, short};
use crate::view::memory::samples::cooling;
use crate::watching::{WatchRequest, Watching};

const PLAIN: fn() -> Style = || Style::PLAIN;
const TERMINAL: fn() -> Style = || Style {
    live: true,
    height: 24,
    ..Style::PLAIN
};

fn written(plan: &Plan, form: Form, style: fn() -> Style) -> String {
    let mut out = Vec::new();
    let mut writer = Writer::new(plan, form, style, None, &mut out);
    follow(plan, short, &go(), &mut writer).expect("no failure");
    writer.end().expect("written");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn without_watching_there_is_one_report_at_the_end() {
    let text = written(&plan(Some(10), None), Form::Human, PLAIN);
    assert_eq!(text.matches("watched for").count(), 1);
    assert!(text.contains("watched for 2.0s"), "{text}");
    let text = written(&plan(Some(10), None), Form::Json, PLAIN);
    let value: Report = serde_json::from_str(&text).expect("one object");
    assert_eq!(value.wall_ms, 2000);
    assert!(text.lines().count() > 10, "for people too");
}

#[test]
fn watching_writes_one_report_after_the_other() {
    let text = written(&plan(None, Some(1)), Form::Human, PLAIN);
    assert_eq!(text.matches("watched for").count(), 3, "{text}");
    assert!(!text.contains('\x1b'));
    let text = written(&plan(None, Some(1)), Form::Json, PLAIN);
    assert_eq!(text.lines().count(), 3, "one object a line");
    let text = written(&plan(None, Some(1)), Form::Csv, PLAIN);
    assert_eq!(text.lines().count(), 4, "under one header");
    assert!(text.starts_with("pid,command,"));
}

#[test]
fn the_last_report_is_always_written_and_never_twice() {
    // The first report is written at 0 s. The report at 2 s is before its time, but it is the last.
    let text = written(&plan(None, Some(10)), Form::Csv, PLAIN);
    let times: Vec<&str> = text
        .lines()
        .skip(1)
        .filter_map(|l| l.split(',').nth(2))
        .collect();
    assert_eq!(times, ["0", "2000"]);
    let text = written(&plan(None, Some(2)), Form::Csv, PLAIN);
    assert_eq!(text.lines().count(), 3, "{text}");
}

/// Regression: after a restart of the manager no line was written until the new manager had run for
/// as long as the old one.
#[test]
fn a_manager_that_is_replaced_ends_no_history() {
    let (plan, mut out) = (plan(None, Some(1)), Vec::new());
    let mut writer = Writer::new(&plan, Form::Csv, PLAIN, None, &mut out);
    for second in [100, 1, 2] {
        writer.report(cooling(second)).expect("written");
    }
    writer.end().expect("written");
    let text = String::from_utf8(out).expect("UTF-8");
    let times = text.lines().filter_map(|line| line.split(',').nth(2));
    let times: Vec<&str> = times.collect();
    assert_eq!(times, ["wall_ms", "100000", "1000", "2000"]);
}

#[test]
fn a_terminal_is_redrawn_and_shows_the_whole_report_at_the_end() {
    let text = written(&plan(None, Some(1)), Form::Human, TERMINAL);
    let frames = text.matches("\x1b[?2026h").count();
    assert_eq!(frames, 3);
    let (_, last) = text.rsplit_once("\x1b[H\x1b[J").expect("cleared");
    assert!(
        last.contains("watched for 2.0s") && !last.contains('\x1b'),
        "{last}"
    );
    // Output for programs is not redrawn.
    assert!(!written(&plan(None, Some(1)), Form::Json, TERMINAL).contains('\x1b'));
}

#[test]
fn stopping_before_the_first_scan_is_a_failure() {
    let plan = plan(None, None);
    let writer = Writer::new(&plan, Form::Json, PLAIN, None, Vec::new());
    let stop = go();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut writer = writer;
    follow(&plan, endless, &stop, &mut writer).expect("no failure");
    let reported = writer.end().expect_err("nothing to show");
    assert!(
        format!("{reported:?}").contains("stopped before the first scan"),
        "{reported:?}"
    );
}

#[test]
fn if_all_processes_ended_the_last_scan_is_the_result() {
    fn ends(_: &WatchRequest) -> Result<Box<dyn Watching>, Failure> {
        struct Ends(u64);
        impl Watching for Ends {
            fn next(&mut self) -> Result<Report, Failure> {
                self.0 += 1;
                let gone = Report {
                    wall_ms: 2000,
                    exit: Some(3),
                    ..Report::default()
                };
                Ok(if self.finished() {
                    gone
                } else {
                    cooling(self.0)
                })
            }
            fn finished(&self) -> bool {
                self.0 == 3
            }
        }
        Ok(Box::new(Ends(0)))
    }
    let after = |each, form| {
        let (plan, mut out) = (plan(None, each), Vec::new());
        let mut writer = Writer::new(&plan, form, PLAIN, None, &mut out);
        follow(&plan, ends, &go(), &mut writer).expect("no failure");
        writer.end().expect("written");
        String::from_utf8(out).expect("UTF-8")
    };
    let text = after(None, Form::Human);
    assert!(
        text.contains("ended with 3") && text.contains("Page age"),
        "{text}"
    );
    assert!(text.contains("have ended; sizes"), "{text}");
    // The history shows the state at the end: no memory.
    let lines = after(Some(1), Form::Csv);
    assert!(
        lines
            .lines()
            .last()
            .is_some_and(|line| line.contains(",2000,3,0,")),
        "{lines}"
    );
}

#[test]
fn the_page_follows_the_reports() {
    let path = std::env::temp_dir().join(format!("pagetide-report-{}.html", std::process::id()));
    let plan = plan(None, Some(1));
    let page = Page::open(&path).expect("writable");
    let mut writer = Writer::new(&plan, Form::Csv, PLAIN, Some(page), io::sink());
    follow(&plan, short, &go(), &mut writer).expect("no failure");
    writer.end().expect("written");
    let text = std::fs::read_to_string(&path).expect("written");
    assert!(
        text.contains("watched for 2.0s") && text.contains("Over time"),
        "{text}"
    );
    std::fs::remove_file(path).expect("ours");
}
