//! `cargo xtask bench kill [--kills 200] [--json]`
//!
//! Kills the manager, the guard or all processes of pagetide with SIGKILL at random instants, with
//! and without a limit. The managed program is one process, and every fourth time a pre-fork
//! server. These things are checked:
//! - the program's answer is right;
//! - between the kill and the next manager the program is as fast as without pagetide;
//! - the next manager has only its own limits;
//! - no process of pagetide remains, and no new control group, file in /run, mount or swap.
//!
//! The last check lists the host before and after, so no other program may make such things
//! meanwhile.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use e2e::bench::{Args, Findings, median, percents};
use e2e::kills::{KILLS, Kill, Speed, run_trial, speed_alone, trial};
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
        let (kill, program) = trial(number);
        let measured = match kill {
            Kill::Manager => speed_alone(program).ok(),
            _ => None,
        };
        match run_trial(kill, program, &mut chance) {
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
    // Each trial without an error has killed at least one process: `kills::run_trial` checks that.
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
    // Medians of the speeds between the kill and the next manager.
    speed("speed by its processor time", |one| one.by_cpu);
    speed("speed by the clock", |one| one.by_clock);
    found.finish()
}
