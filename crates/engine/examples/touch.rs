//! Benchmark: how many touches a second the engine simulates, and how much memory it needs for each
//! page: `cargo run --release -p pagetide-engine --example touch -- [PAGES] [RUNS]`.
//!
//! Each case has one machine. For each run, outside the measured time, page numbers are drawn from
//! a Zipf distribution over all pages. The run touches these pages in batches; swapped-out pages
//! are faulted in, and above the limit pages are evicted, except those touched since the last walk.
//!
//! The engine is fastest if its tables are in huge pages, which the embedder must arrange: for each
//! case this program restarts itself with `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`.
#![forbid(unsafe_code)]

use engine::lru_gen::MIN_LRU_BATCH;
use engine::memcg::MemcgLimits;
use engine::{FaultKind, FolioId, FolioType, Machine, MachineConfig, MemcgId, Millis, ScanReason};

const ONE: MemcgId = MemcgId::FIRST;

const TOUCHES: usize = 1 << 24;
/// Number of touches between two checks of the limit. A kernel does not check at each touch,
/// either, because it charges ahead.
const BATCH: usize = 512;
const TUNABLES: &str = "GLIBC_TUNABLES";

struct Case {
    name: &'static str,
    limit_percent: u64,
    zipf: f64,
    /// Goal for the speed, in millions of touches a second.
    goal: f64,
}

const CASES: [Case; 3] = [
    Case {
        name: "no reclaim",
        limit_percent: 100,
        zipf: 0.9,
        goal: 90.0,
    },
    Case {
        name: "half in memory",
        limit_percent: 50,
        zipf: 0.9,
        goal: 45.0,
    },
    Case {
        name: "thrashing",
        limit_percent: 25,
        zipf: 0.7,
        goal: 18.0,
    },
];

/// Generator of page numbers with a Zipf distribution (`zipf` < 1; 0 is uniform), scattered over
/// all ids. It returns the same numbers in every execution.
struct Draws {
    state: u64,
    pages: u32,
    power: f64,
}

impl Draws {
    fn new(pages: u32, zipf: f64) -> Self {
        let (state, power) = (0x9e37_79b9_7f4a_7c15, 1.0 / (1.0 - zipf));
        Self {
            state,
            pages,
            power,
        }
    }

    fn next(&mut self) -> FolioId {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let u = f64::from(u32::try_from(self.state >> 32).unwrap_or(0)) / f64::from(u32::MAX);
        let rank = (u.powf(self.power) * f64::from(self.pages)).min(f64::from(self.pages - 1));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 <= rank < pages"
        )]
        let rank = rank as u64;
        FolioId(u32::try_from(rank * 2_654_435_761 % u64::from(self.pages)).unwrap_or(0))
    }
}

struct Run {
    machine: Machine,
    limit: u64,
    resident: u64,
    now: u64,
    batch: Vec<FolioId>,
    missing: Vec<FolioId>,
}

impl Run {
    fn evict(&mut self) {
        self.batch.clear();
        let reason = ScanReason::Background;
        let done = self
            .machine
            .isolate(ONE, MIN_LRU_BATCH, reason, &mut self.batch);
        if done.scanned == 0 {
            self.now += 1;
            self.machine.lruvec_mut(ONE).walk_accessed();
            self.machine.age(ONE, Millis(self.now));
            return;
        }
        self.machine
            .lruvec_mut(ONE)
            .keep_referenced(&mut self.batch, |_| true);
        let evicted = self
            .machine
            .evicted_all(ONE, &self.batch, ScanReason::Background);
        self.resident -= evicted.0;
    }

    /// Touches `ids`; returns how many of these pages were swapped out.
    fn touch(&mut self, ids: &[FolioId]) -> u64 {
        self.missing.clear();
        self.machine
            .lruvec_mut(ONE)
            .touch_all(ids, &mut self.missing);
        if self.missing.is_empty() {
            return 0;
        }
        let (ty, kind) = (FolioType::Anon, FaultKind::Refault);
        self.machine.lruvec(ONE).expect(&self.missing);
        for &id in &self.missing {
            self.machine.fault_in(ONE, id, ty, kind, true);
        }
        self.resident = self.machine.lruvec(ONE).resident().0;
        while self.resident > self.limit {
            self.evict();
        }
        self.missing.len() as u64
    }

    fn touch_all(&mut self, ids: &[FolioId]) -> u64 {
        ids.chunks(BATCH).map(|batch| self.touch(batch)).sum()
    }
}

/// Returns the time that this thread has spent on a processor, in nanoseconds. On a shared machine
/// elapsed time would depend more on other programs.
fn on_cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let time = text.split_whitespace().next().and_then(|n| n.parse().ok());
    time.expect("/proc/thread-self/schedstat tells the time on the processor")
}

/// Returns the resident memory of this process, in bytes.
fn resident_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|n| n.parse().ok());
    pages.unwrap_or(f64::NAN) * 4096.0
}

fn millions(n: u64) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX)) / 1e6
}

/// Speeds of several runs, in millions of touches a second.
struct Speeds(Vec<f64>);

impl std::fmt::Display for Speeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut all = self.0.clone();
        all.sort_by(f64::total_cmp);
        let (median, last) = (all[all.len() / 2], all[all.len() - 1]);
        write!(f, "{median:.1} M/s ({:.1} to {last:.1})", all[0])
    }
}

fn measure(case: &Case, pages: u32, runs: usize) {
    let mut draws = Draws::new(pages, case.zipf);
    let mut ids = vec![FolioId(1); TOUCHES];
    let before = resident_bytes();
    let mut run = Run {
        machine: Machine::of_one(MachineConfig::default(), MemcgLimits::default(), Millis(0)),
        limit: u64::from(pages) * case.limit_percent / 100,
        resident: 0,
        now: 0,
        batch: Vec::new(),
        missing: Vec::new(),
    };
    run.machine.lruvec_mut(ONE).ensure(pages as usize);
    for first in (0..pages).step_by(BATCH) {
        let ids: Vec<FolioId> = (first..pages.min(first + 512)).map(FolioId).collect();
        run.touch(&ids);
    }
    let mut draw = |ids: &mut [FolioId]| ids.iter_mut().for_each(|id| *id = draws.next());
    // First twice as many touches as there are pages, so that the order of the lists does not
    // depend on the order of the first faults.
    for _ in 0..(2 * pages as usize).div_ceil(TOUCHES) {
        draw(&mut ids);
        run.touch_all(&ids);
    }
    let (mut speed, mut misses) = (Vec::new(), 0);
    for _ in 0..runs {
        draw(&mut ids);
        let start = on_cpu();
        misses += run.touch_all(&ids);
        speed.push(millions(TOUCHES as u64) * 1e3 / millions(on_cpu() - start));
    }
    println!(
        "{:<15} limit {:>3}%  zipf {:.1}  misses {:>4.1}%  {} (goal {})  {:.3} bytes a page, {:.3} by \
         the system's count",
        case.name,
        case.limit_percent,
        case.zipf,
        millions(misses) * 100.0
            / (millions(TOUCHES as u64) * f64::from(u32::try_from(runs).unwrap_or(1))),
        Speeds(speed),
        case.goal,
        millions(run.machine.lruvec(ONE).footprint() as u64) / millions(u64::from(pages)),
        (resident_bytes() - before) / f64::from(pages),
    );
}

/// Measures the present speed of this computer, for comparison: changes one 4-byte word for each
/// page, with uniformly distributed pages. An undisturbed computer does about 100 million a second.
/// If it is slower, the other figures are too low, too.
fn bare_table(pages: u32, runs: usize) {
    let mut draws = Draws::new(pages, 0.0);
    let (mut table, mut speed) = (vec![1u32; pages as usize], Vec::new());
    let mut ids = vec![FolioId(1); TOUCHES];
    for _ in 0..runs {
        ids.iter_mut().for_each(|id| *id = draws.next());
        let start = on_cpu();
        for id in &ids {
            table[id.index()] |= 2;
        }
        speed.push(millions(TOUCHES as u64) * 1e3 / millions(on_cpu() - start));
    }
    println!(
        "a bare table of 4-byte words, to compare: {}",
        Speeds(speed)
    );
}

/// Runs this program again, for one case: each case has its own process, so that none inherits the
/// memory of another.
fn run_again(args: &[String]) {
    let program = std::env::current_exe().expect("this program has a path");
    let status = std::process::Command::new(program)
        .args(args)
        .env(TUNABLES, "glibc.malloc.hugetlb=1")
        .status()
        .expect("this program can be started again");
    assert!(status.success(), "{args:?}: {status}");
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |n: usize, default: u32| args.get(n).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (pages, runs) = (number(0, 63_000_000), number(1, 9));
    match args.get(2).map(|case| case.parse::<usize>()) {
        Some(Ok(case)) if case < CASES.len() => measure(&CASES[case], pages, runs as usize),
        Some(_) => bare_table(pages, runs as usize),
        None => {
            for case in 0..=CASES.len() {
                run_again(&[pages, runs, u32::try_from(case).unwrap_or(0)].map(|n| n.to_string()));
            }
        }
    }
}
