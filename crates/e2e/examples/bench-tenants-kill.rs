//! `cargo xtask bench tenants-kill [--kills 50] [--targets 50] [--json]`: `serve` is killed at random instants while it holds
//! many tenants below their limits. Nothing may be lost: each program finds every byte, each limit is in force again soon
//! after the next start.
#![forbid(unsafe_code)]

use std::process::ExitCode;
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
            tree.write(&format!("{name}/memory.max"), &format!("{}m", SIZE.1));
            program
        })
        .collect();
    let (mut begun, mut lost) = (Vec::new(), 0_u64);
    for _ in 0..kills {
        // Some of them fault all of their memory in while it is killed.
        for _ in 0..5 {
            let which = usize::try_from(chance.below(targets)).expect("a few dozen");
            let _ = programs[which].touch();
        }
        std::thread::sleep(chance.millis(0, 1500));
        tree.kill();
        let begin = Instant::now();
        tree.start();
        let is_held = |name: &String| {
            let limit = tree.read(&format!("{name}/memory.max"));
            let kernel = std::fs::read_to_string(tree.group(name).join("memory.limit_in_bytes"));
            let bytes = (SIZE.1 * MIB).to_string();
            limit.trim() == bytes && kernel.is_ok_and(|kernel| kernel.trim() == bytes)
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
