//! `cargo xtask bench cost [--rounds 5] [--seconds 6] [--faults] [--aging] [--idle] [--json]`: what being
//! managed costs. Fault service on a stored page against a bare userfaultfd loop; aging of a fully
//! hot 1 GiB; a program without memory pressure against itself alone.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use e2e::bench::{Args, Findings, median};
use e2e::guard::{Run, Running, send};
use e2e::{pagetide, proc, programs, wait};
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("cost", &args);
    let only = ["--faults", "--aging", "--idle"]
        .iter()
        .any(|part| args.has(part));
    let part = |name: &str| !only || args.has(name);
    if part("--faults") {
        faults(&args, &mut found);
    }
    if part("--aging") {
        aging(&args, &mut found);
    }
    if part("--idle") {
        without_pressure(&args, &mut found);
    }
    found.finish()
}

/// The JSON objects that a program printed, one a line.
fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn numbers(objects: &[Value], name: &str) -> Vec<f64> {
    objects
        .iter()
        .filter_map(|object| object[name].as_f64())
        .collect()
}

/// Both sides in turn, `--rounds` times: back to back, when both answer without sleeping, and with
/// 300 us between touches, when both must be woken.
fn faults(args: &Args, found: &mut Findings) {
    let program = programs::c("faults");
    let ways: [(&str, &[&str], &[&str]); 2] = [
        (
            "back to back",
            &["--count", "3000", "--rounds", "2"],
            &["--spin", "1"],
        ),
        (
            "asleep",
            &["--count", "800", "--rounds", "2", "--gap-us", "300"],
            &[],
        ),
    ];
    for (way, common, bare_only) in ways {
        let (mut bare, mut stored) = (Vec::new(), Vec::new());
        for _ in 0..args.number("--rounds", 5) {
            let words = |more: &[&str], mode: &str| {
                let words = common.iter().chain(more).copied().chain([mode]);
                Run::new(std::iter::once(program.clone()).chain(words.map(str::to_owned)))
            };
            bare.extend(objects(&words(bare_only, "bare").finish(LIMIT).stdout));
            stored.extend(objects(&touch_stored(&words(&[], "stored"))));
        }
        for (name, goal) in [("p50_ns", Some(1.5)), ("p99_ns", None)] {
            let (a, b) = (
                median(&numbers(&bare, name)),
                median(&numbers(&stored, name)),
            );
            found.figure(&format!("fault, {way}, bare loop, {name}"), a, "ns");
            found.figure(&format!("fault, {way}, stored page, {name}"), b, "ns");
            let what = format!("fault, {way}, ratio of {name}");
            match goal {
                Some(goal) => found.at_most(&what, b / a, "times", goal),
                None => found.figure(&what, b / a, "times"),
            }
        }
    }
}

/// Runs the program managed until all of it is out, ends the manager, so that the keeper is alone,
/// and lets the program touch its pages. What it printed.
fn touch_stored(run: &Run) -> String {
    let options = [
        "--evict-older-than",
        "200ms",
        "--every",
        "300ms",
        "--age-every",
        "200ms",
    ];
    let mut manager = pagetide::run(&options, run).start();
    wait::until("the program fills its memory", LIMIT, || {
        manager.stdout().contains("filled")
    });
    let target = manager.named("faults")[0];
    let bytes = || proc::rss_anon(target).unwrap_or(0);
    wait::until("its memory is out", LIMIT, || bytes() < 2 << 20);
    manager.kill_and_reap();
    send(target, Signal::USR1);
    wait::until("the program touches its memory", LIMIT, || {
        !proc::is_alive(target)
    });
    let said = manager.stderr();
    assert!(said.is_empty(), "the program complains: {said}");
    manager.stdout()
}

fn toucher(words: &[&str]) -> Run {
    let words = words.iter().map(|word| (*word).to_owned());
    Run::new(std::iter::once(programs::c("toucher")).chain(words))
}

/// CPU that manager and keepers take for a program that touches all of 1 GiB all the time, between
/// two reports.
fn aging(args: &Args, found: &mut Findings) {
    // Without an eviction by age there is a pass every so often, that moves everything aside.
    let options = ["--age-every", "10s"];
    let window = args.seconds("--window", 40);
    let seconds = (window.as_secs() + 120).to_string();
    let words = [
        "--mib",
        "1024",
        "--hot",
        "100",
        "--seconds",
        &seconds,
        "hot",
    ];
    let running = pagetide::run(&options, &toucher(&words)).start();
    let target = target_of(&running, "toucher");
    wait::until("1 GiB is filled", LIMIT, || {
        proc::rss_anon(target).unwrap_or(0) > 1020 << 20
    });
    std::thread::sleep(Duration::from_secs(12));
    let cost = || {
        let report = pagetide::report(target);
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let overhead = &report["overhead"];
        (
            number(&report["wall_ms"]),
            number(&overhead["cpu_ms"]),
            number(&overhead["keeper_cpu_ms"]),
            number(&report["limbo_returns"]),
        )
    };
    let first = cost();
    std::thread::sleep(window);
    let last = cost();
    let wall = last.0 - first.0;
    let share = |ms: f64| 100.0 * ms / wall;
    found.at_most(
        "aging a hot 1 GiB every 10 s",
        share(last.1 - first.1),
        "% of a core",
        2.0,
    );
    found.figure(
        "  of which the keeper",
        share(last.2 - first.2),
        "% of a core",
    );
    found.figure(
        "  pages that came back from limbo",
        (last.3 - first.3) / (wall / 1e4),
        "a pass",
    );
}

fn target_of(running: &Running, comm: &str) -> u32 {
    wait::until("the program runs", LIMIT, || {
        !running.named(comm).is_empty()
    });
    running.named(comm)[0]
}

/// Touches a second under pagetide, with a limit that is never near, over touches a second alone.
fn without_pressure(args: &Args, found: &mut Findings) {
    let seconds = args.number("--seconds", 6).to_string();
    let words = ["--mib", "256", "--warm", "2", "--seconds", &seconds, "zipf"];
    let run = toucher(&words);
    let managed = pagetide::run(&["--memory-max", "2G"], &run);
    let rate = |run: &Run| {
        let outcome = run.finish(LIMIT);
        numbers(&objects(&outcome.stdout), "per_second")
            .first()
            .copied()
            .unwrap_or(0.0)
    };
    let mut ratios = Vec::new();
    for round in 0..args.number("--rounds", 5) {
        // Each goes first every other time.
        let (a, b) = if round % 2 == 0 {
            let alone = rate(&run);
            (alone, rate(&managed))
        } else {
            let b = rate(&managed);
            (rate(&run), b)
        };
        let ratio = 100.0 * b / a;
        ratios.push(ratio);
        found.figure("without pressure, one pair", ratio, "% of its speed alone");
    }
    let what = "without pressure, median of the pairs";
    found.at_least(what, median(&ratios), "% of its speed alone", 99.0);
}
