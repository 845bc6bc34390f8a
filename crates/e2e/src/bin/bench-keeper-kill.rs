//! `cargo xtask bench keeper-kill [--kills 50] [--ops LIST] [--json]`: one of the two keepers of the
//! hostile workload killed at a random instant, again and again. It is replaced, and no byte is wrong.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median};
use e2e::guard::{send, tail};
use e2e::hostile::Hostile;
use e2e::wait::{self, Chance};
use e2e::{pagetide, proc};
use rustix::process::Signal;

const SOON: Duration = Duration::from_secs(60);
/// Without children: one target, so that the keepers are its own.
const OPS: &str = "verify,rewrite,copy,idle,move,dontneed,pipe,thread,signal";

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("keeper-kill", &args);
    let kills = args.number("--kills", 50);
    let mut chance = Chance::from_env("keeper-kill");
    let seed = chance.below(1 << 32);
    let ops = args.text("--ops").unwrap_or_else(|| OPS.to_owned());
    // It ends by itself after the last kill.
    let seconds = kills * 2 + 20;
    let hostile = Hostile::new(seconds, seed, &["--ops", &ops]);
    let running = pagetide::run(&pagetide::EVICT_FAST, hostile.run()).start();
    let target = hostile.target(&running);
    let (mut done, mut stuck, mut pauses) = (0, 0, Vec::new());
    while done < kills && proc::is_alive(target) {
        std::thread::sleep(chance.millis(20, 1000));
        let Some(report) = pagetide::try_report(target) else {
            break;
        };
        let keepers = report["keepers"].as_array().into_iter().flatten();
        let keepers: Vec<u32> = keepers
            .filter_map(|pid| u32::try_from(pid.as_u64()?).ok())
            .collect();
        let at = usize::try_from(chance.below(keepers.len() as u64)).unwrap_or(0);
        let Some(&keeper) = keepers.get(at).filter(|pid| proc::is_keeper(**pid)) else {
            continue;
        };
        let (before, begin) = (hostile.ops(), Instant::now());
        send(keeper, Signal::KILL);
        done += 1;
        let on = || hostile.ops() > before + 20 || !proc::is_alive(target);
        match wait::poll(SOON, || on().then_some(())) {
            Some(()) => pauses.push(begin.elapsed().as_secs_f64() * 1e3),
            None => {
                stuck += 1;
                eprintln!("after kill {done} it hangs\n{}", running.state());
                break;
            }
        }
    }
    let status = if stuck > 0 {
        -1
    } else {
        let outcome = running.wait(Duration::from_secs(seconds) + SOON * 2);
        let status = outcome.status.code().unwrap_or(-1);
        if status != 0 {
            eprintln!("{}\n{}", outcome.stdout, tail(&outcome.stderr, 4000));
        }
        status
    };
    found.figure("seed", seed as f64, "");
    found.at_least("keepers killed", done as f64, "", kills as f64);
    found.at_most("times it hung", f64::from(stuck), "", 0.0);
    found.at_most(
        "exit status is not 0",
        f64::from(u8::from(status != 0)),
        "",
        0.0,
    );
    found.figure("20 operations after a kill, median", median(&pauses), "ms");
    found.figure("operations", hostile.ops() as f64, "");
    found.finish()
}
