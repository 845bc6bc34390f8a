//! Reports of what is managed already.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use e2e::aged::number;
use e2e::guard::Run;
use e2e::zram::serial_with_swap;
use e2e::{pagetide, programs, wait};
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
