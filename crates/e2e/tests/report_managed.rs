//! Reports of what is managed already, and the end of who reports and manages.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use e2e::aged::number;
use e2e::guard::{Outcome, Run};
use e2e::sleeper::Sleeper;
use e2e::zram::serial_with_swap;
use e2e::{pagetide, proc, programs, wait};
use rustix::process::Signal;
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);

/// `report` of a program under `run` looked for itself: ten seconds later it said that another pagetide clears its
/// accessed bits, and knew no age. Its manager knows all of them, and at once.
#[test]
fn the_manager_tells() {
    let _turn = serial_with_swap();
    let options = ["--evict-older-than", "1h", "--age-every", "500ms"];
    let program = Run::new([&programs::c("hotset"), "48", "16", "600", "--rate", "1000"]);
    // A shell between: whoever asks for the program itself is answered, too.
    let script = format!("{}; exit", program.argv().join(" "));
    let running = pagetide::run(&options, &Run::new(["sh", "-c", &script])).start();
    let managed = || pagetide::on("stat", running.pid()).status.success();
    wait::until("it is managed", SOON, managed);
    wait::until("it has run for ten looks", SOON, || {
        number(&pagetide::report(running.pid()), "walks") > 10
    });
    // A busy machine makes a clearing wait once in a while, and what was in use meanwhile is unknown until the next.
    let mut report = Value::Null;
    wait::until("it knows ages", SOON, || {
        // Who looks for itself takes ten seconds each time.
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
    // Without an end, line after line: a look that is late leaves one out.
    let series = pagetide::command(["report", &child, "--watch=500ms", "--json"]).start();
    let lines = || series.stdout().lines().count();
    wait::until("four lines", SOON, || lines() >= 4);
}

/// (The story: of a manager that was asked to end as it began `attach` said that page tables cannot be read, and ended with 3: while a signal is
/// pending the kernel does not load a program.)
#[test]
fn a_signal_as_it_begins_is_no_lack_of_page_tables() {
    let _turn = serial_with_swap();
    let idle = Sleeper::start([], 16);
    let pid = idle.pid().to_string();
    for millis in (0..40).chain(0..40) {
        let running = pagetide::command(["attach", "--age-every=500ms", &pid]).start();
        wait::until("it hears of signals", SOON, || {
            hears_of_signals(running.pid())
        });
        std::thread::sleep(Duration::from_millis(millis));
        running.signal(Signal::TERM);
        let outcome = running.wait(SOON);
        let told = format!("{millis} ms: {}{}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.status.code(), Some(0), "{told}");
    }
}

fn hears_of_signals(pid: u32) -> bool {
    let status = proc::read(pid, "status").unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    caught.is_some_and(|set| set & 1 << (Signal::TERM.as_raw() - 1) != 0)
}

/// timeout(1) sends its signal to its command, and then to its process group: where both were heard, `attach` and `report` ended without their report.
/// One that comes later ends what does not end. (By SIGTERM: SIGINT may have been ignored when the tests were started, and stays so.)
#[test]
fn a_signal_that_comes_twice_at_once_is_one() {
    let _turn = serial_with_swap();
    let idle = Sleeper::start([], 16);
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

/// A command that got two signals, `gap` apart, after its first look. How long that takes is not known on
/// a busy machine, so it gets more time where it says that it had too little.
fn ended_by_two(words: &[String], gap: Duration) -> Outcome {
    let mut time = Duration::from_millis(600);
    loop {
        let running = pagetide::command(words.to_vec()).start();
        wait::until("it hears of signals", SOON, || {
            hears_of_signals(running.pid())
        });
        std::thread::sleep(time);
        running.signal(Signal::TERM);
        std::thread::sleep(gap);
        running.signal(Signal::TERM);
        let outcome = running.wait(SOON);
        let is_early = outcome.stderr.contains("stopped before the first look");
        if !is_early || time > Duration::from_secs(10) {
            return outcome;
        }
        time *= 2;
    }
}
