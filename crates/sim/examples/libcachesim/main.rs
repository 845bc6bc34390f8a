//! Compares misses and speed of the simulator's cache policies with those of libCacheSim:
//! `cargo run --release -p sim --example libcachesim -- --peer PYTHON [OPTION...] [FILE...]`.
//!
//! PYTHON is an interpreter that has the package `libcachesim`. Without files, the trace is 10 M
//! requests to 1 M objects with a Zipf distribution of exponent 1.0. Each trace is first converted
//! to a file of the format oracleGeneral, which both sides read. Runs alternate in pairs. Speed is
//! by CPU seconds, since other programs may run at the same time. The exit code is 1 if misses
//! differ.
//!
//! - `--policies LIST`: policies to compare; default:
//!   `lru,clock,arc,s3-fifo,sieve,lirs,w-tiny-lfu`.
//! - `--percent LIST`: cache sizes in percent of the number of pages in the trace; default: 10.
//! - `--pairs N`: number of pairs of runs; default: 3.
//! - `--table POWER`: libCacheSim's hash table gets 2^POWER entries; default: 24, as in
//!   libCacheSim. With `fit`, the smallest power of two that is at least the number of pages.
#![forbid(unsafe_code)]

mod peer;
mod streams;

use peer::Peer;
use sim::mrc::{Cache, CurvePolicy};
use sim::trace::{Dense, Format, Trace, TraceOptions};
use std::path::{Path, PathBuf};
use streams::{Common, load, zipf};

type Fault = Box<dyn std::error::Error>;

/// The options of the command line.
struct Plan {
    python: String,
    policies: Vec<String>,
    percent: Vec<u64>,
    pairs: usize,
    /// Base-2 logarithm of the entries in libCacheSim's hash table; `None` for `fit`.
    table: Option<u32>,
    files: Vec<Option<PathBuf>>,
}

impl Plan {
    fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self, Fault> {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut plan = Self {
            python: String::new(),
            policies: list("lru,clock,arc,s3-fifo,sieve,lirs,w-tiny-lfu"),
            percent: vec![10],
            pairs: 3,
            table: Some(24),
            files: Vec::new(),
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} wants a value"));
            match arg.as_str() {
                "--peer" => plan.python = value()?,
                "--policies" => plan.policies = list(&value()?),
                "--percent" => {
                    let numbers = list(&value()?).into_iter().map(|n| n.parse());
                    plan.percent = numbers.collect::<Result<_, _>>()?;
                }
                "--pairs" => plan.pairs = value()?.parse::<usize>()?.max(1),
                "--table" => {
                    let power = value()?;
                    plan.table = (power != "fit").then(|| power.parse()).transpose()?;
                }
                _ if arg.starts_with("--") => return Err(format!("what is {arg}?").into()),
                _ => plan.files.push(Some(arg.into())),
            }
        }
        if plan.python.is_empty() {
            return Err("which python has libcachesim? --peer PYTHON".into());
        }
        if plan.files.is_empty() {
            plan.files.push(None);
        }
        Ok(plan)
    }
}

fn main() -> Result<(), Fault> {
    let plan = Plan::from_args(std::env::args().skip(1))?;
    let mut peer = Peer::start(&plan.python)?;
    let mut differ = false;
    println!(
        "| trace | policy | pages held | misses | libCacheSim's | M refs/s | libCacheSim | ratio | of the pairs |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for file in &plan.files {
        let pages = match file {
            Some(file) => load(file)?,
            None => zipf(10_000_000, 1_000_000),
        };
        let case = Case::new(&plan, file.as_deref(), &pages)?;
        for policy in &plan.policies {
            for percent in &plan.percent {
                let size = case.footprint * percent / 100;
                differ |= !case.compare(&mut peer, policy, size)?;
            }
        }
    }
    if differ {
        return Err("misses differ".into());
    }
    Ok(())
}

/// A trace, with its copy on disk that both sides read.
struct Case {
    name: String,
    file: Common,
    references: usize,
    footprint: u64,
    pairs: usize,
    table: u32,
}

impl Case {
    fn new(plan: &Plan, file: Option<&Path>, pages: &[u64]) -> Result<Self, Fault> {
        let mut dense = Dense::default();
        for &page in pages {
            dense.id(page);
        }
        let name = file.and_then(Path::file_name);
        let fitting = u32::BITS - dense.len().leading_zeros();
        Ok(Self {
            name: name.map_or("zipf".into(), |name| name.to_string_lossy().into()),
            file: Common::write(pages)?,
            references: pages.len(),
            footprint: u64::from(dense.len()),
            pairs: plan.pairs,
            table: plan.table.unwrap_or(fitting),
        })
    }

    /// Runs all pairs and prints one row of the table. Returns whether both sides have the same
    /// number of misses.
    fn compare(&self, peer: &mut Peer, policy: &str, size: u64) -> Result<bool, Fault> {
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let mut misses = (0, 0);
        for _ in 0..self.pairs {
            let (our_seconds, our_misses) = run(policy, size, &self.file.0)?;
            let (seconds, their_misses) = peer.run((policy, size), self.table, &self.file.0)?;
            misses = (our_misses, their_misses);
            ours.push(our_seconds);
            theirs.push(seconds);
            ratios.push(seconds / our_seconds);
        }
        for times in [&mut ours, &mut theirs, &mut ratios] {
            times.sort_by(f64::total_cmp);
        }
        let references = f64::from(u32::try_from(self.references).unwrap_or(u32::MAX));
        let speed = |seconds: &[f64]| references / seconds[self.pairs / 2] / 1e6;
        println!(
            "| {} | {policy} | {size} | {} | {} | {:.1} | {:.1} | {:.2} | {:.2} to {:.2} |",
            self.name,
            misses.0,
            misses.1,
            speed(&ours),
            speed(&theirs),
            ratios[self.pairs / 2],
            ratios[0],
            ratios[self.pairs - 1],
        );
        Ok(misses.0 == misses.1)
    }
}

fn cache(policy: &str, size: u64) -> Result<Box<dyn Cache>, Fault> {
    // libCacheSim does not have the two policies of the engine.
    let is_theirs =
        |p: &CurvePolicy| !matches!(p, CurvePolicy::LruGen | CurvePolicy::ActiveInactive);
    let mut all = CurvePolicy::ALL.into_iter().filter(is_theirs);
    let memory = all
        .find(|p| p.name() == policy)
        .and_then(|policy| policy.memory(size, 1));
    Ok(memory.ok_or_else(|| format!("no policy is called {policy}"))?)
}

/// Replays the trace in `file` with the simulator's policy. Returns CPU seconds, including those
/// for reading the file, and the number of misses.
fn run(policy: &str, size: u64, file: &Path) -> Result<(f64, u64), Fault> {
    let mut cache = cache(policy, size)?;
    let options = TraceOptions {
        format: Some(Format::OracleGeneral),
        ..TraceOptions::default()
    };
    let start = cpu_seconds()?;
    let (mut trace, mut dense) = (Trace::open(file, &options)?, Dense::default());
    let (mut batch, mut ids, mut new, mut misses) = (Vec::new(), Vec::new(), Vec::new(), 0);
    while trace.fill(&mut batch)? {
        ids.clear();
        new.clear();
        for reference in &batch {
            let (known, id) = (dense.len(), dense.id(reference.page));
            ids.push(id);
            if id == known {
                new.push(reference.page);
            }
        }
        cache.introduce(&new);
        misses += cache.misses(&ids);
    }
    Ok((cpu_seconds()? - start, misses))
}

/// Returns the CPU seconds of this thread so far, as the scheduler counts them.
fn cpu_seconds() -> Result<f64, Fault> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = text.split(' ').next().ok_or("an empty schedstat")?;
    Ok(nanos.parse::<f64>()? / 1e9)
}
