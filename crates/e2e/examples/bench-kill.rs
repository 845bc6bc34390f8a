//! `cargo xtask bench kill [--kills 200] [--json]`: manager, guard and all that is ours killed with SIGKILL at random
//! instants, with and without a limit, of one process and, every fourth time, of a pre-fork server. The program's answer is
//! right, it is as fast as alone until the next manager, which has its own limits alone, and nothing is left: no process, and by
//! a listing before and after no control group, no file in /run, no mount, no swap. (So nobody else may make any
//! meanwhile.)
#![forbid(unsafe_code)]

use std::process::ExitCode;

use e2e::bench::{Args, Findings, median, percents};
use e2e::kills::{KILLS, Kill, Speed, alone, nth, round};
use e2e::leftovers::Listing;
use e2e::wait::Chance;
use e2e::zram::Swap;

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("kill", &args);
    let kills = args.number("--kills", 200);
    let mut chance = Chance::from_env("kill");
    let before = Listing::now();
    let swap = Swap::new(256);
    let (mut own, mut after) = (Vec::new(), Vec::new());
    let mut wrong = [0; KILLS.len()];
    for number in 0..usize::try_from(kills).unwrap_or(0) {
        let (kill, program) = nth(number);
        let measured = match kill {
            Kill::Manager => alone(program).ok(),
            _ => None,
        };
        match round(kill, program, &mut chance) {
            Ok(speed) => {
                let pair = measured.zip(speed);
                own.extend(pair.map(|(alone, _)| alone));
                after.extend(pair.map(|(_, managed)| managed));
            }
            Err(why) => {
                wrong[number % KILLS.len()] += 1;
                eprintln!("kill {number}, {kill:?}, {program:?}: {why}");
            }
        }
    }
    drop(swap);
    let left = before.new_since();
    left.iter().for_each(|one| eprintln!("left: {one}"));
    // Each round that is not wrong has killed somebody (`kills::round`).
    let wrongs: u32 = wrong.iter().sum();
    let right = kills as f64 - f64::from(wrongs);
    let what = "rounds in which somebody was killed";
    found.at_least(what, right, "", kills as f64);
    for (kill, wrong) in KILLS.iter().zip(wrong) {
        found.at_most(&format!("{kill:?}: wrong"), f64::from(wrong), "", 0.0);
    }
    let what = "control groups, files, mounts, swap that are left";
    found.at_most(what, left.len() as f64, "", 0.0);
    let mut speed = |what: &str, of: fn(&Speed) -> f64| {
        let [own, after] = [&own, &after].map(|all| all.iter().map(of).collect::<Vec<f64>>());
        let share = median(&percents(&after, &own));
        found.at_least(what, share, "% of alone", 99.0);
    };
    // Until the next manager, without a limit; medians.
    speed("speed by its processor time", |one| one.by_cpu);
    speed("speed by the clock", |one| one.by_clock);
    found.finish()
}
