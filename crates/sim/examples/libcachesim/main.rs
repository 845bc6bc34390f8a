//! Misses and speed against libCacheSim, same files, same run:
//! `cargo run --release -p sim --example libcachesim -- PYTHON [FILE...]`.
//!
//! PYTHON has the package `libcachesim`. Without files: 10 M zipf(1.0) requests to 1 M objects. Every
//! trace is written out as oracleGeneral first, and both sides read that file. Sides take turns,
//! three times; CPU seconds decide, as other programs may run beside. Ends with 1 when misses differ.
#![forbid(unsafe_code)]

use sim::mrc::{Cache, Clock, Lru};
use sim::trace::{Dense, Format, Trace, TraceError, TraceOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let python = args
        .next()
        .ok_or("which python? see the head of this file")?;
    let mut files: Vec<Option<PathBuf>> = args.map(|file| Some(file.into())).collect();
    if files.is_empty() {
        files.push(None);
    }
    let mut peer = Peer::start(&python)?;
    let mut differ = false;
    println!(
        "| trace | policy | pages held | misses | libCacheSim's | M refs/s | libCacheSim | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for file in &files {
        let pages = match file {
            Some(file) => load(file)?,
            None => zipf(10_000_000, 1_000_000),
        };
        let common = Common::write(&pages)?;
        let mut dense = Dense::default();
        pages.iter().for_each(|&page| drop(dense.id(page)));
        let size = match file {
            Some(_) => u64::from(dense.len()) / 10,
            None => 76_266,
        };
        let name = file.as_ref().and_then(|file| file.file_name());
        let name = name.map_or("zipf".into(), |name| name.to_string_lossy());
        for policy in ["lru", "clock"] {
            differ |= !compare(&mut peer, (policy, size), &common.0, (&name, pages.len()))?;
        }
    }
    if differ {
        return Err("misses differ".into());
    }
    Ok(())
}

/// One line of the table; whether the misses are the same.
fn compare(
    peer: &mut Peer,
    (policy, size): (&str, u64),
    file: &Path,
    (name, references): (&str, usize),
) -> Result<bool, Box<dyn std::error::Error>> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(run(policy, size, file)?);
        theirs.push(peer.run(policy, size, file)?);
    }
    let median = |runs: &mut Vec<(f64, u64)>| {
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        runs[ROUNDS / 2]
    };
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    let speed = |seconds: f64| f64::from(u32::try_from(references).unwrap_or(0)) / seconds / 1e6;
    println!(
        "| {name} | {policy} | {size} | {} | {} | {:.1} | {:.1} | {:.2} |",
        ours.1,
        theirs.1,
        speed(ours.0),
        speed(theirs.0),
        theirs.0 / ours.0,
    );
    Ok(ours.1 == theirs.1)
}

/// CPU seconds and misses of ours, reading included.
fn run(policy: &str, size: u64, file: &Path) -> Result<(f64, u64), Box<dyn std::error::Error>> {
    let mut cache: Box<dyn Cache> = match policy {
        "lru" => Box::new(Lru::new(size)),
        _ => Box::new(Clock::new(size)),
    };
    let options = TraceOptions {
        format: Some(Format::OracleGeneral),
        ..TraceOptions::default()
    };
    let start = cpu_seconds()?;
    let (mut trace, mut dense) = (Trace::open(file, &options)?, Dense::default());
    let (mut batch, mut ids, mut misses) = (Vec::new(), Vec::new(), 0);
    while trace.fill(&mut batch)? {
        ids.clear();
        ids.extend(batch.iter().map(|reference| dense.id(reference.page)));
        misses += cache.misses(&ids);
    }
    Ok((cpu_seconds()? - start, misses))
}

/// Of this thread, from the scheduler.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = text.split(' ').next().ok_or("an empty schedstat")?;
    Ok(nanos.parse::<f64>()? / 1e9)
}

fn load(file: &Path) -> Result<Vec<u64>, TraceError> {
    let mut trace = Trace::open(file, &TraceOptions::default())?;
    let (mut pages, mut batch) = (Vec::new(), Vec::new());
    while trace.fill(&mut batch)? {
        pages.extend(batch.iter().map(|reference| reference.page));
    }
    Ok(pages)
}

/// Objects by zipf(1.0), from a fixed seed; the rank is the object.
fn zipf(references: usize, objects: u32) -> Vec<u64> {
    let mut sum = 0.0;
    let weight = |rank| {
        sum += 1.0 / f64::from(rank);
        sum
    };
    let below: Vec<f64> = (1..=objects).map(weight).collect();
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    let mut draw = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let part = f64::from(u32::try_from(x >> 32).unwrap_or(0)) / f64::from(u32::MAX);
        below
            .partition_point(|&b| b < part * sum)
            .min(below.len() - 1) as u64
    };
    (0..references).map(|_| draw()).collect()
}

/// The file that both sides read; gone when dropped.
struct Common(PathBuf);

impl Common {
    fn write(pages: &[u64]) -> std::io::Result<Self> {
        let name = format!("pagetide-libcachesim-{}.bin", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut file = BufWriter::new(std::fs::File::create(&path)?);
        let common = Self(path);
        for page in pages {
            let mut record = [0; 24];
            record[4..12].copy_from_slice(&page.to_le_bytes());
            record[12] = 1;
            record[16..].copy_from_slice(&(-1i64).to_le_bytes());
            file.write_all(&record)?;
        }
        file.flush()?;
        Ok(common)
    }
}

impl Drop for Common {
    fn drop(&mut self) {
        // A file left behind in the temporary directory is no failure of the measurement.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// libCacheSim, in a process of its own that lives for the whole run.
struct Peer {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(python: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let mut child = Command::new(python)
            .args(["-c", include_str!("peer.py")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        Ok(Self { child, answers })
    }

    fn run(
        &mut self,
        policy: &str,
        size: u64,
        file: &Path,
    ) -> Result<(f64, u64), Box<dyn std::error::Error>> {
        let questions = self.child.stdin.as_mut().ok_or("no pipe")?;
        writeln!(questions, "{policy} {size} {}", file.display())?;
        questions.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let (seconds, misses) = line.trim().split_once(' ').ok_or("libCacheSim gave up")?;
        Ok((seconds.parse()?, misses.parse()?))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends by itself when its questions do.
        let _ = self.child.wait();
    }
}
