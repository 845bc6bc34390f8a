//! `cargo xtask bench kill [--kills 200] [--json]`: manager, guard and all that is ours killed with SIGKILL at random
//! instants, with and without a limit. The program's answer is right, it is as fast as alone until the
//! next manager, which has its own limits alone, and nothing is left.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use e2e::bench::{Args, Findings, median, percents};
use e2e::kills::{KILLS, Kill, alone, round};
use e2e::wait::Chance;
use e2e::zram::Swap;

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("kill", &args);
    let kills = args.number("--kills", 200);
    let mut chance = Chance::from_env("kill");
    let _swap = Swap::new(256);
    let (mut own, mut after) = (Vec::new(), Vec::new());
    let mut wrong = [0; KILLS.len()];
    for number in 0..kills {
        let at = usize::try_from(number).unwrap_or(0) % KILLS.len();
        let measured = if KILLS[at] == Kill::Manager {
            alone().ok()
        } else {
            None
        };
        match round(KILLS[at], &mut chance) {
            Ok(Some(speed)) => {
                if let Some(alone) = measured {
                    own.push(alone);
                    after.push(speed);
                }
            }
            Ok(None) => {}
            Err(why) => {
                wrong[at] += 1;
                eprintln!("kill {number}, {:?}: {why}", KILLS[at]);
            }
        }
    }
    // Each round that is not wrong has killed somebody (`kills::round`).
    let wrongs: u32 = wrong.iter().sum();
    let right = kills as f64 - f64::from(wrongs);
    found.at_least(
        "rounds in which somebody was killed",
        right,
        "",
        kills as f64,
    );
    for (kill, wrong) in KILLS.iter().zip(wrong) {
        found.at_most(&format!("{kill:?}: wrong"), f64::from(wrong), "", 0.0);
    }
    found.at_least(
        "speed until the next manager, no limit, median",
        median(&percents(&after, &own)),
        "% of alone",
        99.0,
    );
    found.finish()
}
