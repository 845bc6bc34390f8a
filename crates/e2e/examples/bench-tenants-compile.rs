//! `cargo xtask bench tenants-compile [--rounds 2] [--every 40] [--package sim] [--json]`: a real compile, of this project's own
//! crates with all that they depend on, under the agent of working-set reporting's author. Each is built in a tenant of its own,
//! one after the other: alone and with the agent in turn.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median};
use e2e::guard::{Run, Running};
use e2e::memcg::MemoryGroup;
use e2e::programs;
use e2e::temp::TempDir;
use e2e::tenants::Tree;
use e2e::zram::Swap;

const MIB: f64 = 1_048_576.0;
const LIMIT: Duration = Duration::from_secs(1200);

/// What one build came to.
struct Built {
    seconds: f64,
    peak: f64,
    /// What was charged, on average over time.
    mean: f64,
    /// What the agent said.
    agent: String,
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("tenants-compile", &args);
    let every = args.number("--every", 40).to_string();
    let package = args.text("--package").unwrap_or("sim".to_owned());
    // Sources that are not there are not this bench's to fetch in the middle.
    let fetched = Run::new(["cargo", "fetch", "--locked"]).finish(LIMIT);
    assert!(fetched.status.success(), "{}", fetched.stderr);
    let (mut alone, mut managed) = (Vec::new(), Vec::new());
    for _ in 0..args.number("--rounds", 2) {
        alone.push(build(&package, None));
        managed.push(build(&package, Some(&every)));
    }
    let of =
        |all: &[Built], what: fn(&Built) -> f64| median(&all.iter().map(what).collect::<Vec<_>>());
    for (name, all) in [("alone", &alone), ("with the agent", &managed)] {
        found.figure(&format!("{name}: time"), of(all, |one| one.seconds), "s");
        found.figure(
            &format!("{name}: peak"),
            of(all, |one| one.peak) / MIB,
            "MiB",
        );
        found.figure(
            &format!("{name}: mean"),
            of(all, |one| one.mean) / MIB,
            "MiB",
        );
    }
    let down = |what: fn(&Built) -> f64| 100.0 * (1.0 - of(&managed, what) / of(&alone, what));
    found.at_least("peak, down by", down(|one| one.peak), "%", 48.0);
    found.figure("mean, down by", down(|one| one.mean), "%");
    let longer = 100.0 * (of(&managed, |one| one.seconds) / of(&alone, |one| one.seconds) - 1.0);
    found.at_most("time, longer by", longer, "%", 2.0);
    if args.has("--verbose") {
        managed.iter().for_each(|one| eprintln!("{}", one.agent));
    }
    found.finish()
}

/// One build, from nothing: in a control group, or in a tenant with the agent.
fn build(package: &str, every: Option<&String>) -> Built {
    let _swap = Swap::new(4096);
    let target = TempDir::new();
    let words = [
        "cargo",
        "build",
        "--release",
        "--locked",
        "-p",
        package,
        "--target-dir",
    ];
    let words = words.map(str::to_owned).into_iter();
    let own = Run::new(words.chain([target.path().display().to_string()]));
    let Some(every) = every else {
        let group = MemoryGroup::new();
        let running = group.run(&own).start();
        let (seconds, mean) = watch(running, &|| group.number("memory.usage_in_bytes"));
        return Built {
            seconds,
            mean,
            peak: group.number("memory.max_usage_in_bytes") as f64,
            agent: String::new(),
        };
    };
    let tree = Tree::serve(&["--age-every", "5s"]);
    tree.make("build");
    tree.write(
        "node0/workingset_report/page_age_intervals",
        "1000,5000,10000,20000,40000,80000",
    );
    let script = programs::source("agent.py");
    let agent = [script, tree.at("").display().to_string(), every.clone()];
    let agent = Run::new(["python3".to_owned()].into_iter().chain(agent)).start();
    let running = own.under(tree.inside("build")).start();
    let (seconds, mean) = watch(running, &|| tree.number("build/memory.current"));
    Built {
        seconds,
        mean,
        peak: tree.number("build/memory.peak") as f64,
        agent: agent.stdout(),
    }
}

/// Until it has ended well: how long it took, and what was charged on average.
fn watch(mut running: Running, charged: &dyn Fn() -> u64) -> (f64, f64) {
    let begin = Instant::now();
    let (mut sum, mut samples) = (0.0, 0.0);
    while running.ended().is_none() {
        assert!(begin.elapsed() < LIMIT, "{}", running.stderr());
        sum += charged() as f64;
        samples += 1.0;
        std::thread::sleep(Duration::from_millis(200));
    }
    let seconds = begin.elapsed().as_secs_f64();
    let outcome = running.wait(LIMIT);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    (seconds, sum / samples)
}
