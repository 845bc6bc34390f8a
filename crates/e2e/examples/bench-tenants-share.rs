//! `cargo xtask bench tenants-share [--mib 2048] [--first MIB] [--second MIB] [--rounds 3] [--seconds 60] [--json]`: two tenants under
//! one wall, each with as much memory as the wall is high unless told otherwise, most of it rarely used; beside the kernel with a
//! control group of that size. Both on zram of their own. Of one that is large the bits cannot be cleared in time: its ages are unknown.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median};
use e2e::guard::{Run, Running};
use e2e::memcg::MemoryGroup;
use e2e::programs;
use e2e::tenants::Tree;
use e2e::zram::Swap;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// What one side came to.
#[derive(Default)]
struct Side {
    /// Touches of both programs a second, and of each.
    speed: Vec<f64>,
    each: [Vec<f64>; 2],
    /// Touches of each that found their page in swap, of a thousand.
    missed: [Vec<f64>; 2],
    /// The slower of the two, of the faster, percent.
    even: Vec<f64>,
    kills: u64,
    /// The most that was charged to both, of the wall, percent.
    peak: Vec<f64>,
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("tenants-share", &args);
    let wall = args.number("--mib", 2048);
    let seconds = args.number("--seconds", 60);
    let sizes = ["--first", "--second"].map(|name| args.number(name, wall));
    let [mut kernel, mut ours] = [Side::default(), Side::default()];
    for _ in 0..args.number("--rounds", 3) {
        by_kernel((wall, sizes), seconds, &mut kernel);
        by_us((wall, sizes), seconds, &mut ours);
    }
    for (name, side) in [("kernel", &kernel), ("pagetide", &ours)] {
        found.figure(
            &format!("{name}: touches a second"),
            median(&side.speed),
            "/s",
        );
        found.figure(
            &format!("{name}: the slower of the two"),
            median(&side.even),
            "% of the other",
        );
        found.figure(
            &format!("{name}: the most that was charged"),
            median(&side.peak),
            "% of the wall",
        );
    }
    for (number, name) in ["the first", "the second"].into_iter().enumerate() {
        let of_kernel = median(&kernel.each[number]);
        for (side, of) in [(&kernel, "kernel"), (&ours, "pagetide")] {
            let missed = median(&side.missed[number]);
            found.figure(
                &format!("{of}: of {name}, in swap"),
                missed,
                "in 1000 touches",
            );
        }
        // The kernel kills one now and then.
        if of_kernel > 0.0 {
            let ratio = median(&ours.each[number]) / of_kernel;
            found.figure(&format!("speed of {name}, of the kernel's"), ratio, "");
        }
    }
    let ratio = median(&ours.speed) / median(&kernel.speed);
    found.at_least("speed, of the kernel's", ratio, "", 1.0);
    found.at_most("killed by the kernel", ours.kills as f64, "", 0.0);
    found.figure("the same under the kernel alone", kernel.kills as f64, "");
    found.at_most(
        "the most that was charged",
        median(&ours.peak),
        "% of the wall",
        105.0,
    );
    found.finish()
}

/// A program with so much memory, all of it in use by Zipf's law, three in ten touches a write.
fn program(mib: u64, seconds: u64) -> Run {
    let (mib, seconds) = (mib.to_string(), seconds.to_string());
    let own = programs::c("toucher");
    let words = [
        &own,
        "--mib",
        &mib,
        "--seconds",
        &seconds,
        "--write",
        "30",
        "zipf",
    ];
    Run::new(words)
}

fn by_kernel((wall, sizes): (u64, [u64; 2]), seconds: u64, side: &mut Side) {
    let _swap = Swap::new(wall * 2);
    let parent = MemoryGroup::new();
    std::fs::write(format!("{}/memory.use_hierarchy", parent.path()), "1").ok();
    let groups = [parent.below(), parent.below()];
    parent.limit(wall << 20);
    let start = |at: usize| groups[at].run(&program(sizes[at], seconds)).start();
    let running = [start(0), start(1)];
    let kills = || {
        groups
            .iter()
            .map(|group| group.line("memory.oom_control", "oom_kill "))
            .sum()
    };
    side.add(running, &|| parent.number("memory.usage_in_bytes"), wall);
    let killed: u64 = kills();
    side.kills += killed;
}

fn by_us((wall, sizes): (u64, [u64; 2]), seconds: u64, side: &mut Side) {
    let _swap = Swap::new(wall * 2);
    let tree = Tree::serve(&["--age-every", "2s"]);
    for name in ["both", "both/a", "both/b"] {
        tree.make(name);
    }
    tree.write("both/memory.max", &format!("{wall}m"));
    let start = |name, mib| program(mib, seconds).under(tree.inside(name)).start();
    let running = [start("both/a", sizes[0]), start("both/b", sizes[1])];
    side.add(running, &|| tree.number("both/memory.current"), wall);
    side.kills += tree.line("both/a/memory.events", "oom_kill")
        + tree.line("both/b/memory.events", "oom_kill");
}

impl Side {
    /// Until both have ended.
    fn add(&mut self, mut running: [Running; 2], charged: &dyn Fn() -> u64, wall: u64) {
        let (begin, mut most) = (Instant::now(), 0);
        while running.iter_mut().any(|one| one.ended().is_none()) && begin.elapsed() < LIMIT {
            most = most.max(charged());
            std::thread::sleep(Duration::from_millis(50));
        }
        let said = running.map(|one| one.wait(Duration::from_secs(10)).stdout);
        let speeds = said.each_ref().map(|said| number(said, "per_second"));
        for (all, said) in self.missed.iter_mut().zip(&said) {
            all.push(1000.0 * number(said, "majors") / number(said, "touches").max(1.0));
        }
        let [slow, fast] = [speeds[0].min(speeds[1]), speeds[0].max(speeds[1])];
        self.speed.push(speeds.iter().sum());
        for (all, one) in self.each.iter_mut().zip(speeds) {
            all.push(one);
        }
        self.even.push(100.0 * slow / fast);
        self.peak.push(100.0 * most as f64 / (wall << 20) as f64);
    }
}

/// A number of what the program says at its end; none of one that was killed.
fn number(said: &str, name: &str) -> f64 {
    let told: Option<Value> = serde_json::from_str(said).ok();
    told.and_then(|told| told[name].as_f64()).unwrap_or(0.0)
}
