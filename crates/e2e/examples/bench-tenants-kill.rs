//! `cargo xtask bench tenants-kill [--kills 50] [--targets 50] [--json]`: `serve` is killed at random instants while it holds
//! many tenants below their limits, half of which fault their memory in all the time. Nothing may be lost: each program finds every byte, each limit is in force again soon
//! after the next start.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median};
use e2e::proc;
use e2e::sleeper::Sleeper;
use e2e::tenants::Tree;
use e2e::wait::{self, Chance};
use e2e::zram::Swap;

const MIB: u64 = 1 << 20;
/// Of each program, and what it may have in memory.
const SIZE: (u64, u64) = (24, 12);
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("tenants-kill", &args);
    let (kills, targets) = (args.number("--kills", 50), args.number("--targets", 50));
    let mut chance = Chance::from_env("tenants-kill");
    let _swap = Swap::new(targets * SIZE.0 * 2);
    let mut tree = Tree::serve(&["--age-every", "1s"]);
    let names: Vec<String> = (0..targets).map(|number| format!("t{number}")).collect();
    let programs: Vec<Sleeper> = names
        .iter()
        .map(|name| {
            tree.make(name);
            let program = Sleeper::start(tree.inside(name), SIZE.0);
            tree.write(&file_of(name), &format!("{}m", SIZE.1));
            program
        })
        .collect();
    // Every other one has a wall; the rest `memory.high`, which on version 1 nobody holds but `serve`.
    let stop = AtomicBool::new(false);
    let (begun, lost) = std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        // Those behind walls fault all of their memory in, one after the other, whatever becomes of who is killed.
        scope.spawn(|| {
            for program in programs.iter().step_by(2).cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let _ = program.touch();
            }
        });
        killed(&mut tree, (&names, &programs), kills, &mut chance)
    });
    // A byte that is wrong ends its program.
    for program in &programs {
        let _ = program.touch();
    }
    let most = begun.iter().copied().fold(0.0, f64::max);
    found.figure("limits in force again, median", median(&begun), "s");
    found.at_most("limits in force again, the longest", most, "s", 2.0);
    found.at_most("programs that ended", lost as f64, "", 0.0);
    found.figure("kills", kills as f64, "");
    found.finish()
}

/// Ends the thread that touches, also where the bench fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The file of the limit that a tenant has.
fn file_of(name: &str) -> String {
    let number: u64 = name[1..].parse().expect("a number");
    let file = if number.is_multiple_of(2) {
        "max"
    } else {
        "high"
    };
    format!("{name}/memory.{file}")
}

/// How long it took each time until all limits were in force again, and the programs that ended.
fn killed(
    tree: &mut Tree,
    (names, programs): (&[String], &[Sleeper]),
    kills: u64,
    chance: &mut Chance,
) -> (Vec<f64>, u64) {
    let (mut begun, mut lost) = (Vec::new(), 0_u64);
    for _ in 0..kills {
        std::thread::sleep(chance.millis(0, 1500));
        tree.kill();
        // Some of those without a wall have all of their memory in when the next one begins.
        for _ in 0..3 {
            let which = chance.below(names.len() as u64 / 2) * 2 + 1;
            let which = usize::try_from(which).expect("a few dozen");
            let _ = programs[which].touch();
        }
        let begin = Instant::now();
        tree.start();
        let bytes = (SIZE.1 * MIB).to_string();
        let is_held = |name: &String| {
            let is_told = tree.read(&file_of(name)).trim() == bytes;
            let wall = std::fs::read_to_string(tree.group(name).join("memory.limit_in_bytes"));
            let has_wall = wall.is_ok_and(|wall| wall.trim() == bytes);
            is_told && has_wall == file_of(name).ends_with("max")
        };
        let is_below =
            |name: &String| tree.number(&format!("{name}/memory.current")) <= SIZE.1 * MIB;
        wait::until("limits are in force", LIMIT, || {
            names.iter().all(|name| is_held(name) && is_below(name))
        });
        begun.push(begin.elapsed().as_secs_f64());
        let dead = programs
            .iter()
            .filter(|program| !proc::is_alive(program.pid()));
        lost += dead.count() as u64;
    }
    (begun, lost)
}
