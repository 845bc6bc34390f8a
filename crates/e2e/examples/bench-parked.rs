//! `cargo xtask bench parked [--mib 700] [--rounds 3] [--json]`: an idle program that is paged out as a whole, and back.
//!
//! `pagetide reclaim PID --all`, then `pagetide detach PID --bring-back`; it is usable when it has touched all of its
//! memory. The same without bringing it back stands beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median};
use e2e::pagetide;
use e2e::sleeper::Sleeper;
use e2e::zram::Swap;

const LIMIT: Duration = Duration::from_secs(120);
/// Nothing is touched for so long before it is parked: what was in use a moment ago stays.
const IDLE: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("parked", &args);
    let _swap = Swap::if_none(2048);
    let mib = args.number("--mib", 700);
    let [mut down, mut park, mut back, mut touch, mut by_faults] = [(); 5].map(|()| Vec::new());
    for _ in 0..args.number("--rounds", 3) {
        let sleeper = Sleeper::start([], mib);
        let full = resident(&sleeper);
        std::thread::sleep(IDLE);
        park.push(command("reclaim", sleeper.pid(), "--all"));
        down.push(100.0 * (1.0 - resident(&sleeper) / full));
        by_faults.push(sleeper.touch());
        std::thread::sleep(IDLE);
        park.push(command("reclaim", sleeper.pid(), "--all"));
        down.push(100.0 * (1.0 - resident(&sleeper) / full));
        let took = command("detach", sleeper.pid(), "--bring-back");
        back.push(took);
        touch.push(took + sleeper.touch());
    }
    found.at_least("resident is down by", median(&down), "%", 90.0);
    found.figure("reclaim --all took", median(&park), "s");
    found.figure("detach --bring-back took", median(&back), "s");
    found.at_most("it and touching all of it", median(&touch), "s", 1.0);
    found.figure("touching all of it without", median(&by_faults), "s");
    found.finish()
}

fn resident(sleeper: &Sleeper) -> f64 {
    sleeper.status("VmRSS") as f64
}

/// Runs `pagetide VERB PID OPTION`; how long it took.
fn command(verb: &str, pid: u32, option: &str) -> f64 {
    let begin = Instant::now();
    let outcome = pagetide::command([verb, &pid.to_string(), option]).finish(LIMIT);
    assert!(outcome.status.success(), "{verb}: {}", outcome.stderr);
    begin.elapsed().as_secs_f64()
}
