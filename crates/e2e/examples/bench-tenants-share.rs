//! `cargo xtask bench tenants-share [--program toucher|redis|mixed] [--mib 2048] [--first MIB]
//! [--second MIB] [--rounds 3] [--seconds 60] [--age-every 10s] [--look-budget 10%] [--json]`
//!
//! Runs two programs under one hard limit of `--mib`, as two tenants of `serve` and in two control
//! groups of the kernel, and compares the two sides. Each program has as much memory as the limit
//! unless `--first` or `--second` sets it, and uses most of it rarely. Each side has its own zram.
//!
//! `toucher` are two programs that touch memory, `redis` are two servers with a client each,
//! `mixed` is one redis and one `PostgreSQL` ([`e2e::loaded`]). The accessed bits of a large
//! program cannot be cleared in time, so its ages are unknown (docs/known-gaps.md).
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median};
use e2e::guard::Run;
use e2e::loaded::{Kind, Loaded, Throughput};
use e2e::memcg::MemoryGroup;
use e2e::tenants::Tree;
use e2e::wait::Chance;
use e2e::zram::Swap;
use e2e::{proc, programs};
use serde_json::Value;

/// Time limit of two touchers.
const LIMIT: Duration = Duration::from_secs(300);
/// Time limit for filling two servers, which write and read several GiB under a hard limit.
const FILLED: Duration = Duration::from_secs(900);
/// The two tenants.
const NAMES: [&str; 2] = ["both/a", "both/b"];

/// Which programs run, with how much memory and which limit, and for how long.
struct Plan {
    /// The two kinds of server; `None` for two touchers.
    kinds: Option<[Kind; 2]>,
    /// The hard limit of the two programs together, MiB.
    hard_limit: u64,
    /// Memory of each program, MiB.
    sizes: [u64; 2],
    /// Time under load, seconds.
    seconds: u64,
    /// Value of the option `--age-every` of `serve`.
    age_every: String,
    /// Value of the option `--look-budget` of `serve`.
    look_budget: String,
}

/// The two tenants, or control groups, of one side, and the counters of what enforces the limit.
struct Pair<'a> {
    /// For each program the words of the command that puts it into its tenant or group.
    inside: [Vec<String>; 2],
    /// Charge of the two together, bytes.
    charged: &'a dyn Fn() -> u64,
    /// Number of major faults of a program: pages read from disk and swap.
    majors: &'a dyn Fn(usize) -> u64,
    /// Processor time of `serve`, seconds. It is 0 for the kernel, which manages memory in the time
    /// of the programs.
    spent: &'a dyn Fn() -> f64,
}

/// Results of one program in one round.
#[derive(Default)]
struct ProgramResult {
    /// Touches or answers per second.
    per_second: f64,
    /// Number of answers in the tenth of the time that had the fewest; for a toucher, of all
    /// touches.
    least: f64,
    /// Major faults per thousand touches or answers.
    missed: f64,
}

/// Results of one round on one side.
struct RoundResult {
    reported: [ProgramResult; 2],
    /// Highest charge of the two programs together, bytes.
    most: u64,
    /// Processor time of `serve` divided by elapsed time.
    spent: f64,
}

/// Results of one side, a value for each round.
#[derive(Default)]
struct Side {
    /// Touches or answers per second of the two programs together.
    speed: Vec<f64>,
    /// Touches or answers per second of each program.
    each: [Vec<f64>; 2],
    /// Major faults per thousand touches or answers, of each program.
    missed: [Vec<f64>; 2],
    /// Speed of the slower program, percent of the faster program's.
    even: Vec<f64>,
    /// Number of processes that the kernel killed for lack of memory, in all rounds.
    kills: u64,
    /// Fewest answers in a tenth of the time, of the program that had fewer.
    least: Vec<f64>,
    /// Highest charge of the two programs together, percent of the hard limit.
    peak: Vec<f64>,
    /// Processor time of `serve` while requests are sent, or for touchers all the time; percent of
    /// a processor.
    spent: Vec<f64>,
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("tenants-share", &args);
    let hard_limit = args.number("--mib", 2048);
    let program = args.text("--program").unwrap_or("toucher".to_owned());
    let plan = Plan {
        kinds: match program.as_str() {
            "toucher" => None,
            "redis" => Some([Kind::Redis; 2]),
            "mixed" => Some([Kind::Redis, Kind::Postgres]),
            _ => panic!("--program is toucher, redis or mixed"),
        },
        hard_limit,
        sizes: ["--first", "--second"].map(|name| args.number(name, hard_limit)),
        seconds: args.number("--seconds", 60),
        age_every: args.text("--age-every").unwrap_or("10s".to_owned()),
        look_budget: args.text("--look-budget").unwrap_or("10%".to_owned()),
    };
    let [mut kernel, mut ours] = [Side::default(), Side::default()];
    for _ in 0..args.number("--rounds", 3) {
        by_kernel(&plan, &mut kernel);
        by_serve(&plan, &mut ours);
    }
    compare(&kernel, &ours, &mut found);
    let ratio = median(&ours.speed) / median(&kernel.speed);
    found.at_least("speed, of the kernel's", ratio, "", 1.0);
    found.at_most("killed by the kernel", ours.kills as f64, "", 0.0);
    found.figure("the same under the kernel alone", kernel.kills as f64, "");
    let all = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let what = "the fewest answers in a tenth of the time";
    found.at_least(what, all(&ours.least), "", 1.0);
    let most = ours.peak.iter().copied().fold(0.0, f64::max);
    let what = "the most that was charged, of all rounds";
    found.at_most(what, most, "% of the wall", 105.0);
    found.finish()
}

/// Adds the figures of the two sides to the results.
fn compare(kernel: &Side, ours: &Side, found: &mut Findings) {
    for (name, side) in [("kernel", kernel), ("pagetide", ours)] {
        for (what, values, unit) in [
            ("touches or answers a second", &side.speed, "/s"),
            ("the slower of the two", &side.even, "% of the other"),
            ("the fewest answers in a tenth of the time", &side.least, ""),
            ("the most that was charged", &side.peak, "% of the wall"),
            ("managing took", &side.spent, "% of a processor"),
        ] {
            found.figure(&format!("{name}: {what}"), median(values), unit);
        }
    }
    for (number, name) in ["the first", "the second"].into_iter().enumerate() {
        let of_kernel = median(&kernel.each[number]);
        for (side, of) in [(kernel, "kernel"), (ours, "pagetide")] {
            let missed = median(&side.missed[number]);
            let what = format!("{of}: of {name}, in swap or on disk");
            found.figure(&what, missed, "in 1000 touches or answers");
        }
        // If the kernel killed this program, there is no speed to compare with.
        if of_kernel > 0.0 {
            let ratio = median(&ours.each[number]) / of_kernel;
            found.figure(&format!("speed of {name}, of the kernel's"), ratio, "");
        }
    }
}

/// The command of a toucher: a program that accesses `mib` MiB by Zipf's law; 30% of the accesses
/// are writes.
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

/// Runs one round in two control groups below a group with the kernel's limit.
fn by_kernel(plan: &Plan, side: &mut Side) {
    let _swap = Swap::new(plan.hard_limit * 2);
    let parent = MemoryGroup::new();
    std::fs::write(format!("{}/memory.use_hierarchy", parent.path()), "1").ok();
    let groups = [parent.below(), parent.below()];
    parent.limit(plan.hard_limit << 20);
    let nobody = Run::new(Vec::<String>::new());
    let pair = Pair {
        inside: groups
            .each_ref()
            .map(|group| group.run(&nobody).argv().to_vec()),
        charged: &|| parent.number("memory.usage_in_bytes"),
        majors: &|at| groups[at].line("memory.stat", "total_pgmajfault "),
        spent: &|| 0.0,
    };
    side.add(plan, &pair);
    let kills = groups
        .iter()
        .map(|group| group.line("memory.oom_control", "oom_kill "));
    side.kills += kills.sum::<u64>();
}

/// Runs one round in two tenants below a tenant with the limit.
fn by_serve(plan: &Plan, side: &mut Side) {
    let _swap = Swap::new(plan.hard_limit * 2);
    let options = [
        "--age-every",
        &plan.age_every,
        "--look-budget",
        &plan.look_budget,
    ];
    let tree = Tree::serve(&options);
    tree.make("both");
    NAMES.iter().for_each(|name| tree.make(name));
    tree.write("both/memory.max", &format!("{}m", plan.hard_limit));
    // The larger one of `serve`'s count and the kernel's is taken: the limit must be kept by each
    // of them.
    let usage = tree.group("both/memory.usage_in_bytes");
    let of_kernel = || {
        let text = std::fs::read_to_string(&usage).unwrap_or_default();
        text.trim().parse().expect("the kernel's number")
    };
    let pair = Pair {
        inside: NAMES.map(|name| tree.inside(name)),
        charged: &|| tree.number("both/memory.current").max(of_kernel()),
        majors: &|at| tree.kernel_stat(NAMES[at], "total_pgmajfault"),
        spent: &|| proc::processor_seconds(tree.pid()).expect("it runs"),
    };
    side.add(plan, &pair);
    let kills = NAMES.map(|name| tree.line(&format!("{name}/memory.events"), "oom_kill"));
    side.kills += kills.iter().sum::<u64>();
}

/// Runs each function in a thread of its own and samples the charge meanwhile; `most` becomes the
/// highest. Returns the result of each function, `None` if it panicked.
fn run_both<T: Send>(
    work: [Box<dyn FnOnce() -> T + Send + '_>; 2],
    most: &mut u64,
    charged: &dyn Fn() -> u64,
    limit: Duration,
) -> [Option<T>; 2] {
    std::thread::scope(|scope| {
        let begin = Instant::now();
        let threads = work.map(|work| scope.spawn(work));
        while threads.iter().any(|thread| !thread.is_finished()) {
            assert!(begin.elapsed() < limit, "it did not end within {limit:?}");
            *most = charged().max(*most);
            std::thread::sleep(Duration::from_millis(50));
        }
        threads.map(|thread| thread.join().ok())
    })
}

/// Fills two servers and puts them under load, each by a thread of its own. A server that was
/// killed or that answered wrongly counts with zero answers, so the goal for progress is missed.
fn run_servers(kinds: [Kind; 2], plan: &Plan, pair: &Pair<'_>) -> RoundResult {
    let (mut most, limit) = (0, FILLED);
    let fill = [0, 1].map(|at| {
        let inside = &pair.inside[at];
        let work = move || Loaded::start(kinds[at], plan.sizes[at], inside);
        Box::new(work) as Box<dyn FnOnce() -> Loaded + Send>
    });
    let mut servers = run_both(fill, &mut most, pair.charged, limit);
    let before = [0, 1].map(|at| (pair.majors)(at));
    let (spent, begin) = ((pair.spent)(), Instant::now());
    let time = Duration::from_secs(plan.seconds);
    let mut chances = [1, 2].map(Chance::new);
    let requested = servers.iter_mut().zip(&mut chances);
    let mut work = requested.map(|(server, chance)| {
        let work = move || server.as_mut().map(|server| server.run_load(time, chance));
        Box::new(work) as Box<dyn FnOnce() -> Option<Throughput> + Send>
    });
    let work = [0, 1].map(|_| work.next().expect("there are two"));
    let answered = run_both(work, &mut most, pair.charged, time + limit);
    let spent = ((pair.spent)() - spent) / begin.elapsed().as_secs_f64();
    let reported = [0, 1].map(|at| {
        let answered = answered[at].flatten().unwrap_or_default();
        let majors = (pair.majors)(at).saturating_sub(before[at]);
        ProgramResult {
            per_second: answered.per_second,
            least: answered.least,
            missed: 1000.0 * majors as f64 / answered.all.max(1.0),
        }
    });
    RoundResult {
        reported,
        most,
        spent,
    }
}

/// Runs two touchers until they have ended.
fn run_touchers(plan: &Plan, pair: &Pair<'_>) -> RoundResult {
    let (begin, mut most) = (Instant::now(), 0);
    let before = (pair.spent)();
    let mut running = [0, 1].map(|at| {
        let program = program(plan.sizes[at], plan.seconds);
        program.under(pair.inside[at].iter().cloned()).start()
    });
    while running.iter_mut().any(|one| one.ended().is_none()) && begin.elapsed() < LIMIT {
        most = most.max((pair.charged)());
        std::thread::sleep(Duration::from_millis(50));
    }
    let spent = ((pair.spent)() - before) / begin.elapsed().as_secs_f64();
    let reported = running.map(|one| {
        let said = one.wait(Duration::from_secs(10)).stdout;
        let touches = number(&said, "touches");
        ProgramResult {
            per_second: number(&said, "per_second"),
            least: touches,
            missed: 1000.0 * number(&said, "majors") / touches.max(1.0),
        }
    });
    RoundResult {
        reported,
        most,
        spent,
    }
}

impl Side {
    /// Runs one round and adds its results.
    fn add(&mut self, plan: &Plan, pair: &Pair<'_>) {
        let RoundResult {
            reported,
            most,
            spent,
        } = match plan.kinds {
            Some(kinds) => run_servers(kinds, plan, pair),
            None => run_touchers(plan, pair),
        };
        for (all, reported) in self.missed.iter_mut().zip(&reported) {
            all.push(reported.missed);
        }
        let speeds = reported.each_ref().map(|reported| reported.per_second);
        let [slow, fast] = [speeds[0].min(speeds[1]), speeds[0].max(speeds[1])];
        self.speed.push(speeds.iter().sum());
        self.spent.push(100.0 * spent);
        for (all, one) in self.each.iter_mut().zip(speeds) {
            all.push(one);
        }
        self.even.push(100.0 * slow / fast);
        self.least.push(reported[0].least.min(reported[1].least));
        self.peak
            .push(100.0 * most as f64 / (plan.hard_limit << 20) as f64);
    }
}

/// Number in the JSON that a program printed at its end; 0 for a killed program, which printed
/// none.
fn number(said: &str, name: &str) -> f64 {
    let reported: Option<Value> = serde_json::from_str(said).ok();
    reported
        .and_then(|reported| reported[name].as_f64())
        .unwrap_or(0.0)
}
