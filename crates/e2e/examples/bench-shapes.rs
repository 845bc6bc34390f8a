//! `cargo xtask bench shapes [--shape sparse|mappings|flat|deep] [--tenants 8] [--size N]
//! [--seconds 60] [--json]`
//!
//! Measures a plain tenant beside tenants whose processes or groups are costly to manage. The
//! figures are the time of a request for the plain tenant, the time until a change of what it uses
//! is seen, and the processor time and memory that `serve` takes.
//!
//! Each costly tenant has `--size` things of a shape:
//! - sparse: page tables with one page each;
//! - mappings: mappings with names of 3.5 KiB, 64,000 in each process;
//! - flat: control groups beside each other;
//! - deep: control groups within each other, in chains of 1,900.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings};
use e2e::guard::{Run, Running};
use e2e::temp::TempDir;
use e2e::tenants::Tree;
use e2e::{programs, wait};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
/// Memory of the plain tenant, MiB.
const PLAIN_MIB: u64 = 32;
/// Time limit of each wait.
const LIMIT: Duration = Duration::from_secs(600);
/// Number of mappings in a process; the kernel allows 65,530.
const MAPPINGS: usize = 64_000;
/// Time for which the plain tenant is measured without the costly tenants.
const ALONE: Duration = Duration::from_secs(20);
/// Number of groups in a chain.
const DEPTH: u64 = 1900;

/// The costly tenants, and what must be removed at the end.
#[derive(Default)]
struct Shape {
    running: Vec<Running>,
    /// Control groups, parents before their children.
    groups: Vec<PathBuf>,
    folders: Vec<TempDir>,
}

impl Drop for Shape {
    fn drop(&mut self) {
        self.running.clear();
        for group in self.groups.iter().rev() {
            let is_gone = || std::fs::remove_dir(group).is_ok();
            wait::poll(Duration::from_secs(2), || is_gone().then_some(()));
        }
    }
}

/// Starts a program in a tenant. If it is `mappings`, waits until it has made its mappings.
fn begun(tree: &Tree, tenant: &str, words: &[&str]) -> Running {
    let argv = tree.inside(tenant).into_iter();
    let running = Run::new(argv.chain(words.iter().map(|word| (*word).to_owned()))).start();
    if words[0].ends_with("mappings") {
        wait::until("it has its mappings", LIMIT, || {
            running.stdout().contains("ready")
        });
    }
    running
}

impl Shape {
    /// Adds a tenant with `size` things of a shape.
    fn add(&mut self, tree: &Tree, tenant: &str, shape: &str, size: u64) {
        tree.make(tenant);
        match shape {
            "sparse" => {
                let (program, pages) = (programs::c("tables"), size.to_string());
                self.running
                    .push(begun(tree, tenant, &[&program, &pages, "2048"]));
            }
            "mappings" => {
                let folder = TempDir::new();
                let place = folder.path().display().to_string();
                for first in (0..size).step_by(MAPPINGS) {
                    let count = (size - first).min(MAPPINGS as u64).to_string();
                    let program = programs::c("mappings");
                    let words = [program.as_str(), &place, "14", &count];
                    self.running.push(begun(tree, tenant, &words));
                }
                self.folders.push(folder);
            }
            "flat" => self.add_groups(tree.group(tenant), size, 1),
            "deep" => self.add_groups(tree.group(tenant), size, DEPTH),
            _ => panic!("--shape is sparse, mappings, flat or deep"),
        }
    }

    /// Makes `size` groups below `top`, in chains of `depth` groups within each other. A chain ends
    /// early where the kernel refuses the path, which may be too long.
    fn add_groups(&mut self, top: PathBuf, size: u64, depth: u64) {
        for chain in 0..size / depth {
            let mut path = top.join(format!("c{chain}"));
            for _ in 0..depth {
                if std::fs::create_dir(&path).is_err() {
                    break;
                }
                self.groups.push(path.clone());
                path = path.join("d");
            }
        }
    }
}

/// Bytes of the plain tenant that were used within two seconds. If the answer took longer than
/// `longest`, sets `longest` to its time.
fn young(tree: &Tree, longest: &mut Duration) -> u64 {
    let begin = Instant::now();
    let bytes = tree.youngest_bytes("plain");
    *longest = (*longest).max(begin.elapsed());
    bytes
}

/// Changes what the plain tenant uses until `time` is over. Returns the longest time until a change
/// was seen, and the time of the slowest request.
fn changes(tree: &Tree, plain: &Running, time: Duration) -> (Duration, Duration) {
    let (end, mut slowest, mut longest) = (Instant::now() + time, Duration::ZERO, Duration::ZERO);
    while Instant::now() < end {
        plain.signal(Signal::STOP);
        wait::until("what is not used grows old", LIMIT, || {
            young(tree, &mut longest) < MIB
        });
        plain.signal(Signal::CONT);
        let begin = Instant::now();
        wait::until("what is used is young", LIMIT, || {
            young(tree, &mut longest) > PLAIN_MIB * MIB / 2
        });
        slowest = slowest.max(begin.elapsed());
    }
    (slowest, longest)
}

/// Resident memory of a process, MiB.
fn resident(pid: u32) -> f64 {
    e2e::proc::number(pid, "VmRSS").map_or(f64::NAN, |bytes| bytes as f64 / MIB as f64)
}

/// Processor time of a process, seconds.
fn cpu(pid: u32) -> f64 {
    e2e::proc::processor_seconds(pid).unwrap_or(f64::NAN)
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("shapes", &args);
    let time = args.seconds("--seconds", 60);
    let tenants = args.number("--tenants", 8);
    let shapes = args.text("--shape").map_or_else(
        || {
            ["sparse", "mappings", "flat", "deep"]
                .map(str::to_owned)
                .to_vec()
        },
        |shape| vec![shape],
    );
    for name in shapes {
        let size = match name.as_str() {
            "sparse" => 100_000,
            "mappings" => 640_000,
            "flat" => 10_000,
            _ => 9_500,
        };
        let size = args.number("--size", size);
        let tree = Tree::serve(&["--age-every", "2s"]);
        tree.write(
            "node0/workingset_report/page_age_intervals",
            "2000,5000,10000,60000",
        );
        tree.make("plain");
        let pages = (PLAIN_MIB * MIB / 4096).to_string();
        let plain = begun(&tree, "plain", &[&programs::c("tables"), &pages, "4"]);
        tree.write("plain/memory.workingset.refresh_interval", "N0=2000");
        let mut slow = Duration::ZERO;
        wait::until("the plain one is known", LIMIT, || {
            young(&tree, &mut slow) > PLAIN_MIB * MIB / 2
        });
        let alone = resident(tree.pid());
        // The cost of the same requests without the other tenants.
        let (before, begin) = (cpu(tree.pid()), Instant::now());
        changes(&tree, &plain, ALONE);
        let requests = (cpu(tree.pid()) - before) / begin.elapsed().as_secs_f64();
        let mut shape = Shape::default();
        for number in 0..tenants {
            shape.add(&tree, &format!("dear{number}"), &name, size);
        }
        let (before, begin) = (cpu(tree.pid()), Instant::now());
        let (slowest, longest) = changes(&tree, &plain, time);
        let share = (cpu(tree.pid()) - before) / begin.elapsed().as_secs_f64();
        let grown = resident(tree.pid()) - alone;
        let of = |what: &str| format!("{tenants} tenants, {name}, {size} each: {what}");
        found.figure(&of("a change is seen after"), slowest.as_secs_f64(), "s");
        found.at_most(&of("slowest request"), longest.as_secs_f64(), "s", 1.0);
        let scans = (share - requests) * 100.0;
        found.figure(&of("requests alone, of a processor"), requests * 100.0, "%");
        found.at_most(
            &of("beside these, of a processor (budget 10%)"),
            scans,
            "%",
            12.0,
        );
        found.at_most(&of("memory for the shape"), grown, "MiB", 64.0);
    }
    found.finish()
}
