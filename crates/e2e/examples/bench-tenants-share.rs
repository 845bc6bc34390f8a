//! `cargo xtask bench tenants-share [--program toucher|redis|mixed] [--mib 2048] [--first MIB] [--second MIB] [--rounds 3] [--seconds 60]
//! [--age-every 10s] [--look-budget 10%] [--json]`: two tenants under one wall, each with as much memory as the wall is high unless told
//! otherwise, most of it rarely used; beside
//! the kernel with a control group of that size. Both on zram of their own. `redis` are two servers with a client each, `mixed` is one beside
//! `PostgreSQL` ([`e2e::loaded`]). Of one that is large the bits cannot be cleared in time: its ages are unknown.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median};
use e2e::guard::Run;
use e2e::loaded::{Answered, Kind, Loaded};
use e2e::memcg::MemoryGroup;
use e2e::tenants::Tree;
use e2e::wait::Chance;
use e2e::zram::Swap;
use e2e::{proc, programs};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
/// Two of them write and read several GiB through a wall.
const FILLED: Duration = Duration::from_secs(900);
const NAMES: [&str; 2] = ["both/a", "both/b"];

/// What is to run, how much it has, under which wall (MiB), and for how long.
struct Plan {
    /// Which two; touchers if none.
    kinds: Option<[Kind; 2]>,
    wall: u64,
    sizes: [u64; 2],
    seconds: u64,
    /// Of `serve`.
    age_every: String,
    look_budget: String,
}

/// The two tenants of a side, as whoever holds the wall has them: what puts a program into each, and what the kernel says.
struct Pair<'a> {
    inside: [Vec<String>; 2],
    /// What is charged to both, bytes.
    charged: &'a dyn Fn() -> u64,
    /// How many pages of each came back from disk and swap.
    majors: &'a dyn Fn(usize) -> u64,
    /// Processor time of who manages both, seconds: none of the kernel's, which spends it in them.
    spent: &'a dyn Fn() -> f64,
}

/// What a program came to.
#[derive(Default)]
struct Told {
    per_second: f64,
    /// Answers in the tenth of the time that had the fewest; of a toucher, of all of it.
    least: f64,
    /// Of a thousand touches or answers.
    missed: f64,
}

/// What a round came to: both programs, the most that was charged (bytes), and what managing took of a processor.
struct Came {
    told: [Told; 2],
    most: u64,
    spent: f64,
}

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
    /// The fewest answers of either in a tenth of the time.
    least: Vec<f64>,
    /// The most that was charged to both, of the wall, percent.
    peak: Vec<f64>,
    /// What managing took while they were asked, or, with touchers, in all; percent of a processor.
    spent: Vec<f64>,
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("tenants-share", &args);
    let wall = args.number("--mib", 2048);
    let program = args.text("--program").unwrap_or("toucher".to_owned());
    let plan = Plan {
        kinds: match program.as_str() {
            "toucher" => None,
            "redis" => Some([Kind::Redis; 2]),
            "mixed" => Some([Kind::Redis, Kind::Postgres]),
            _ => panic!("--program is toucher, redis or mixed"),
        },
        wall,
        sizes: ["--first", "--second"].map(|name| args.number(name, wall)),
        seconds: args.number("--seconds", 60),
        age_every: args.text("--age-every").unwrap_or("10s".to_owned()),
        look_budget: args.text("--look-budget").unwrap_or("10%".to_owned()),
    };
    let [mut kernel, mut ours] = [Side::default(), Side::default()];
    for _ in 0..args.number("--rounds", 3) {
        by_kernel(&plan, &mut kernel);
        by_us(&plan, &mut ours);
    }
    compared(&kernel, &ours, &mut found);
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

/// Both sides, figure by figure.
fn compared(kernel: &Side, ours: &Side, found: &mut Findings) {
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
        // The kernel kills one now and then.
        if of_kernel > 0.0 {
            let ratio = median(&ours.each[number]) / of_kernel;
            found.figure(&format!("speed of {name}, of the kernel's"), ratio, "");
        }
    }
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

fn by_kernel(plan: &Plan, side: &mut Side) {
    let _swap = Swap::new(plan.wall * 2);
    let parent = MemoryGroup::new();
    std::fs::write(format!("{}/memory.use_hierarchy", parent.path()), "1").ok();
    let groups = [parent.below(), parent.below()];
    parent.limit(plan.wall << 20);
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

fn by_us(plan: &Plan, side: &mut Side) {
    let _swap = Swap::new(plan.wall * 2);
    let options = [
        "--age-every",
        &plan.age_every,
        "--look-budget",
        &plan.look_budget,
    ];
    let tree = Tree::serve(&options);
    tree.make("both");
    NAMES.iter().for_each(|name| tree.make(name));
    tree.write("both/memory.max", &format!("{}m", plan.wall));
    // What the kernel says: the budget is held by its count, too.
    let usage = tree.group("both/memory.usage_in_bytes");
    let of_kernel = || {
        let text = std::fs::read_to_string(&usage).unwrap_or_default();
        text.trim().parse().expect("the kernel's number")
    };
    let pair = Pair {
        inside: NAMES.map(|name| tree.inside(name)),
        charged: &|| tree.number("both/memory.current").max(of_kernel()),
        majors: &|at| tree.of_kernel(NAMES[at], "total_pgmajfault"),
        spent: &|| proc::processor_seconds(tree.pid()).expect("it runs"),
    };
    side.add(plan, &pair);
    let kills = NAMES.map(|name| tree.line(&format!("{name}/memory.events"), "oom_kill"));
    side.kills += kills.iter().sum::<u64>();
}

/// Two threads' work, while what is charged is watched; nothing of one that failed.
fn both<T: Send>(
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

/// Two servers, filled and then asked, each by a thread of its own. Who was killed has answered nothing; who says that an answer
/// was wrong has not either, so that progress is missed.
fn served(kinds: [Kind; 2], plan: &Plan, pair: &Pair<'_>) -> Came {
    let (mut most, limit) = (0, FILLED);
    let fill = [0, 1].map(|at| {
        let inside = &pair.inside[at];
        let work = move || Loaded::start(kinds[at], plan.sizes[at], inside);
        Box::new(work) as Box<dyn FnOnce() -> Loaded + Send>
    });
    let mut servers = both(fill, &mut most, pair.charged, limit);
    let before = [0, 1].map(|at| (pair.majors)(at));
    let (spent, begin) = ((pair.spent)(), Instant::now());
    let time = Duration::from_secs(plan.seconds);
    let mut chances = [1, 2].map(Chance::new);
    let asked = servers.iter_mut().zip(&mut chances);
    let mut work = asked.map(|(server, chance)| {
        let work = move || server.as_mut().map(|server| server.ask(time, chance));
        Box::new(work) as Box<dyn FnOnce() -> Option<Answered> + Send>
    });
    let work = [0, 1].map(|_| work.next().expect("there are two"));
    let answered = both(work, &mut most, pair.charged, time + limit);
    let spent = ((pair.spent)() - spent) / begin.elapsed().as_secs_f64();
    let told = [0, 1].map(|at| {
        let answered = answered[at].flatten().unwrap_or_default();
        let majors = (pair.majors)(at).saturating_sub(before[at]);
        Told {
            per_second: answered.per_second,
            least: answered.least,
            missed: 1000.0 * majors as f64 / answered.all.max(1.0),
        }
    });
    Came { told, most, spent }
}

/// Two touchers, until both have ended.
fn touched(plan: &Plan, pair: &Pair<'_>) -> Came {
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
    let told = running.map(|one| {
        let said = one.wait(Duration::from_secs(10)).stdout;
        let touches = number(&said, "touches");
        Told {
            per_second: number(&said, "per_second"),
            least: touches,
            missed: 1000.0 * number(&said, "majors") / touches.max(1.0),
        }
    });
    Came { told, most, spent }
}

impl Side {
    /// One round.
    fn add(&mut self, plan: &Plan, pair: &Pair<'_>) {
        let Came { told, most, spent } = match plan.kinds {
            Some(kinds) => served(kinds, plan, pair),
            None => touched(plan, pair),
        };
        for (all, told) in self.missed.iter_mut().zip(&told) {
            all.push(told.missed);
        }
        let speeds = told.each_ref().map(|told| told.per_second);
        let [slow, fast] = [speeds[0].min(speeds[1]), speeds[0].max(speeds[1])];
        self.speed.push(speeds.iter().sum());
        self.spent.push(100.0 * spent);
        for (all, one) in self.each.iter_mut().zip(speeds) {
            all.push(one);
        }
        self.even.push(100.0 * slow / fast);
        self.least.push(told[0].least.min(told[1].least));
        self.peak
            .push(100.0 * most as f64 / (plan.wall << 20) as f64);
    }
}

/// A number of what the program says at its end; none of one that was killed.
fn number(said: &str, name: &str) -> f64 {
    let told: Option<Value> = serde_json::from_str(said).ok();
    told.and_then(|told| told[name].as_f64()).unwrap_or(0.0)
}
