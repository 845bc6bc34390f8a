//! `cargo xtask bench starts [--repeat 200] [--kind NAME] [--json]`
//!
//! Starts programs that start other programs (such as sh, su or timeout) under `pagetide run`, each
//! kind many times. Every start must end as the program does without pagetide, and the innermost
//! process must be in the report, also if it belongs to another user.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use e2e::bench::{Args, Findings};
use e2e::starts::{KINDS, alone, managed};
use e2e::temp::serial;
use e2e::zram::Swap;

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("starts", &args);
    let repeat = args.number("--repeat", 200);
    let only = args.text("--kind");
    let _serial = serial();
    let _swap = Swap::new(64);
    let kinds: Vec<_> = KINDS
        .into_iter()
        .filter(|(name, _)| only.as_ref().is_none_or(|only| only == name))
        .collect();
    // The kinds run in parallel, as a start mostly waits.
    let results: Vec<(u64, f64)> = thread::scope(|scope| {
        let started: Vec<_> = kinds
            .iter()
            .map(|(name, command)| scope.spawn(move || starts(name, command, repeat)))
            .collect();
        let ended = started.into_iter().map(|thread| thread.join());
        ended.map(|result| result.expect("no panic")).collect()
    });
    for ((name, _), (right, each)) in kinds.iter().zip(results) {
        let what = format!("{name}: right of {repeat}");
        found.at_least(&what, right as f64, "", repeat as f64);
        found.figure(&format!("{name}: each start"), each, "ms");
    }
    found.finish()
}

/// Starts a kind `repeat` times; returns the number of right starts, and the mean time of a start
/// in milliseconds.
fn starts(name: &str, command: &[&str], repeat: u64) -> (u64, f64) {
    let begin = Instant::now();
    let own = alone(command).expect("it runs alone");
    let mut right = 0;
    for number in 0..repeat {
        match managed(command, &own) {
            Ok(()) => right += 1,
            Err(why) => eprintln!("{name}, start {number}: {why}"),
        }
    }
    (
        right,
        begin.elapsed().as_secs_f64() * 1000.0 / repeat as f64,
    )
}
