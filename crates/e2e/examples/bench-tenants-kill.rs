//! `cargo xtask bench tenants-kill [--kills 50] [--targets 50] [--json]`
//!
//! Kills `serve` at random instants while it keeps many tenants below their limits; half of them
//! touch all their memory the whole time. Nothing may be lost: each program must find every byte of
//! its memory, and each limit must be in force again soon after the next start.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median};
use e2e::idle_program::IdleProgram;
use e2e::proc;
use e2e::tenants::Tree;
use e2e::wait::{self, Chance};
use e2e::zram::Swap;

const MIB: u64 = 1 << 20;
/// Memory of each program, MiB, and its limit, MiB.
const SIZE: (u64, u64) = (24, 12);
/// Time limit until all limits are in force again.
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("tenants-kill", &args);
    let (kills, targets) = (args.number("--kills", 50), args.number("--targets", 50));
    let mut chance = Chance::from_env("tenants-kill");
    let _swap = Swap::new(targets * SIZE.0 * 2);
    let mut tree = Tree::serve(&["--age-every", "1s"]);
    let names: Vec<String> = (0..targets).map(|number| format!("t{number}")).collect();
    let programs: Vec<IdleProgram> = names
        .iter()
        .map(|name| {
            tree.make(name);
            let program = IdleProgram::start(tree.inside(name), SIZE.0);
            tree.write(&file_of(name), &format!("{}m", SIZE.1));
            program
        })
        .collect();
    // Every other tenant has a hard limit. The rest have `memory.high`, which control groups of
    // version 1 lack, so only `serve` enforces it.
    let stop = AtomicBool::new(false);
    let (begun, lost) = std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        // Programs with a hard limit touch all of their memory, one after the other, also while
        // `serve` is killed.
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
    // A program that finds a wrong byte ends.
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

/// Ends the thread that touches memory when dropped, also if the bench fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The limit's file of a tenant: `memory.max` for even numbers, `memory.high` for odd ones.
fn file_of(name: &str) -> String {
    let number: u64 = name[1..].parse().expect("a number");
    let file = if number.is_multiple_of(2) {
        "max"
    } else {
        "high"
    };
    format!("{name}/memory.{file}")
}

/// Kills and starts `serve` repeatedly. Returns for each time the seconds until all limits were in
/// force again; and the sum over all times of the programs that were found dead.
fn killed(
    tree: &mut Tree,
    (names, programs): (&[String], &[IdleProgram]),
    kills: u64,
    chance: &mut Chance,
) -> (Vec<f64>, u64) {
    let (mut begun, mut lost) = (Vec::new(), 0_u64);
    for _ in 0..kills {
        std::thread::sleep(chance.millis(0, 1500));
        tree.kill();
        // Some tenants without a hard limit have all of their memory resident when the next `serve`
        // begins.
        for _ in 0..3 {
            let which = chance.below(names.len() as u64 / 2) * 2 + 1;
            let which = usize::try_from(which).expect("a few dozen");
            let _ = programs[which].touch();
        }
        let begin = Instant::now();
        tree.start();
        let bytes = (SIZE.1 * MIB).to_string();
        let is_held = |name: &String| {
            let is_reported = tree.read(&file_of(name)).trim() == bytes;
            let hard_limit =
                std::fs::read_to_string(tree.group(name).join("memory.limit_in_bytes"));
            let has_hard_limit = hard_limit.is_ok_and(|hard_limit| hard_limit.trim() == bytes);
            is_reported && has_hard_limit == file_of(name).ends_with("max")
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
