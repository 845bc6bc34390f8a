//! Reports on processes that already have a manager, and how reporting and managing commands end.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use e2e::aged::number;
use e2e::guard::{Outcome, Run};
use e2e::idle_program::IdleProgram;
use e2e::zram::serial_with_swap;
use e2e::{pagetide, proc, programs, wait};
use rustix::process::Signal;
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);

/// The program's manager answers `report` at once, as it knows the ages of all pages.
///
/// Regression: `report` of a program under `run` scanned the program itself. Ten seconds later it
/// reported that another pagetide cleared the program's accessed bits, and knew no age.
#[test]
fn the_manager_reports_for_its_program() {
    let _turn = serial_with_swap();
    let options = ["--evict-older-than", "1h", "--age-every", "500ms"];
    let program = Run::new([&programs::c("hotset"), "48", "16", "600", "--rate", "1000"]);
    // `run` starts a shell, which starts the program: `report` must find it by its own pid.
    let script = format!("{}; exit", program.argv().join(" "));
    let running = pagetide::run(&options, &Run::new(["sh", "-c", &script])).start();
    let managed = || pagetide::on("stat", running.pid()).status.success();
    wait::until("it is managed", SOON, managed);
    wait::until("it has run for ten looks", SOON, || {
        number(&pagetide::report(running.pid()), "walks") > 10
    });
    // On a busy machine bits are sometimes cleared late; pages used meanwhile have unknown ages
    // until the next scan.
    let mut report = Value::Null;
    wait::until("it knows ages", SOON, || {
        // A report that scans the program itself takes ten seconds each time.
        let is_quick = |_: u32| {
            let begin = Instant::now();
            report = pagetide::report(running.pid());
            begin.elapsed() < Duration::from_secs(5)
        };
        assert!((0..3).any(is_quick), "{report}");
        number(&report, "unknown_age_bytes") < 4 << 20
    });
    assert!(number(&report, "resident_bytes") > 40 << 20, "{report}");

    let child = running.named("hotset")[0];
    let of_child = pagetide::report(child);
    assert_eq!(of_child["pid"], running.pid(), "{of_child}");
    let notes = of_child["notes"].to_string();
    assert!(notes.contains("all that it manages is reported"), "{notes}");

    let child = child.to_string();
    let watch = ["report", &child, "--watch=500ms", "--for", "2s", "--json"];
    let series = pagetide::command(watch).finish(SOON);
    assert!(series.stdout.lines().count() >= 2, "{}", series.stdout);
    // Without `--for` the series does not end; a late scan only skips one line.
    let series = pagetide::command(["report", &child, "--watch=500ms", "--json"]).start();
    let lines = || series.stdout().lines().count();
    wait::until("four lines", SOON, || lines() >= 4);
}

/// Regression: if `attach` got a signal before its manager was ready, it reported that page tables
/// cannot be read, and ended with 3. While a signal is pending, the kernel does not load a BPF
/// program.
#[test]
fn a_signal_at_the_start_is_not_reported_as_missing_page_tables() {
    let _turn = serial_with_swap();
    let idle = IdleProgram::start([], 16);
    let pid = idle.pid().to_string();
    for millis in (0..40).chain(0..40) {
        let running = pagetide::command(["attach", "--age-every=500ms", &pid]).start();
        wait::until("it hears of signals", SOON, || {
            catches_sigterm(running.pid())
        });
        std::thread::sleep(Duration::from_millis(millis));
        running.signal(Signal::TERM);
        let outcome = running.wait(SOON);
        let reported = format!("{millis} ms: {}{}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.status.code(), Some(0), "{reported}");
    }
}

fn catches_sigterm(pid: u32) -> bool {
    let status = proc::read(pid, "status").unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    caught.is_some_and(|set| set & 1 << (Signal::TERM.as_raw() - 1) != 0)
}

/// Two signals within 20 ms count as one: timeout(1) sends its signal to its command, and then to
/// the process group. A second signal that comes later ends a command that has not ended yet. (The
/// test uses SIGTERM, as SIGINT may be ignored since the tests were started.)
///
/// Regression: where both signals arrived, `attach` and `report` ended without their report.
#[test]
fn two_signals_at_once_count_as_one() {
    let _turn = serial_with_swap();
    let idle = IdleProgram::start([], 16);
    for words in [["attach", "--age-every=500ms"], ["report", "--for=10m"]] {
        for gap in [0, 1, 5, 20] {
            let words = words.iter().copied();
            let words: Vec<String> = words
                .map(str::to_owned)
                .chain([idle.pid().to_string()])
                .collect();
            let outcome = ended_by_two(&words, Duration::from_millis(gap));
            let text = format!("{words:?}, {gap} ms: {}{}", outcome.stdout, outcome.stderr);
            assert_eq!(outcome.status.code(), Some(0), "{text}");
            assert!(outcome.stdout.contains("Page age"), "{text}");
        }
    }
}

/// Runs a command, sends it two SIGTERMs, `gap` apart, after its first scan, and returns its
/// outcome. The time of the first scan is not known, so the command is repeated with twice the time
/// if it reports that the signal came before.
fn ended_by_two(words: &[String], gap: Duration) -> Outcome {
    let mut time = Duration::from_millis(600);
    loop {
        let running = pagetide::command(words.to_vec()).start();
        wait::until("it hears of signals", SOON, || {
            catches_sigterm(running.pid())
        });
        std::thread::sleep(time);
        running.signal(Signal::TERM);
        std::thread::sleep(gap);
        running.signal(Signal::TERM);
        let outcome = running.wait(SOON);
        let is_early = outcome.stderr.contains("stopped before the first scan");
        if !is_early || time > Duration::from_secs(10) {
            return outcome;
        }
        time *= 2;
    }
}
