//! `cargo xtask bench tenants-compile [--rounds 2] [--every 40] [--cold-ms 10000] [--rule label]
//! [--package sim] [--policy] [--json]`
//!
//! Compiles one of this project's crates with all its dependencies, alone and managed in turn.
//! Builds are managed by the agent of the author of working-set reporting, by its rule or another,
//! by another program ([`e2e::agent`]), or with `--policy` by the policy `cold-age` with page
//! cache. Each managed build is in a tenant of its own, whose reported sizes are compared with the
//! kernel's charge all the time. `--folder DIR --command "make -j2"` compiles a copy of that folder
//! instead.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::aged::rollup;
use e2e::agent::Agent;
use e2e::bench::{Args, Findings, median};
use e2e::guard::{Run, Running};
use e2e::memcg::MemoryGroup;
use e2e::temp::TempDir;
use e2e::tenants::{Tree, configuration};
use e2e::zram::Swap;

const MIB: f64 = 1_048_576.0;
/// Time limit of a build.
const LIMIT: Duration = Duration::from_secs(1200);
/// A Python script that drops all files below a folder from the page cache.
const DROP: &str = "
import os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for path in (os.path.join(folder, name) for name in names):
        if not os.path.islink(path):
            file = os.open(path, os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)
";

/// Results of one build.
struct Built {
    seconds: f64,
    /// Highest charge, bytes.
    peak: f64,
    /// Mean charge over the time of the build, bytes.
    mean: f64,
    /// When the charge was highest, percent of the build's time.
    most_at: f64,
    /// Output of the agent, or the messages of `serve` about the policy.
    said: String,
    /// Number of the agent's reclaim requests.
    requested: usize,
    /// Sum of the bins in page_age, percent of the user pages by the kernel; a value every five
    /// seconds.
    sums: Vec<f64>,
}

/// What is compiled.
struct Subject {
    /// Name of the crate.
    package: String,
    /// A folder to be copied and the command that compiles the copy; `None` for the crate.
    other: Option<(String, String)>,
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("tenants-compile", &args);
    let by = Agent::of(&args);
    let command = args.text("--command").unwrap_or("make -j2".to_owned());
    let subject = Subject {
        package: args.text("--package").unwrap_or("sim".to_owned()),
        other: args.text("--folder").map(|folder| (folder, command)),
    };
    let by_policy = args.has("--policy");
    // Downloads the sources first, so that the measured builds download nothing.
    let fetched = Run::new(["cargo", "fetch", "--locked"]).finish(LIMIT);
    assert!(fetched.status.success(), "{}", fetched.stderr);
    let (mut alone, mut managed) = (Vec::new(), Vec::new());
    for _ in 0..args.number("--rounds", 2) {
        alone.push(alone_built(&subject));
        managed.push(managed_built(&subject, &by, by_policy));
    }
    let of =
        |all: &[Built], what: fn(&Built) -> f64| median(&all.iter().map(what).collect::<Vec<_>>());
    for (name, all) in [("alone", &alone), ("managed", &managed)] {
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
        let most_at = of(all, |one| one.most_at);
        found.figure(
            &format!("{name}: most was charged at"),
            most_at,
            "% of the time",
        );
    }
    let down = |what: fn(&Built) -> f64| 100.0 * (1.0 - of(&managed, what) / of(&alone, what));
    found.at_least("peak, down by", down(|one| one.peak), "%", 48.0);
    found.figure("mean, down by", down(|one| one.mean), "%");
    let longer = 100.0 * (of(&managed, |one| one.seconds) / of(&alone, |one| one.seconds) - 1.0);
    found.at_most("time, longer by", longer, "%", 2.0);
    let sums: Vec<f64> = managed.iter().flat_map(|one| one.sums.clone()).collect();
    add_sums(&sums, &mut found);
    let requested: usize = managed.iter().map(|one| one.requested).sum();
    found.figure("times that the agent asked", requested as f64, "");
    if args.has("--verbose") {
        managed.iter().for_each(|one| eprintln!("{}", one.said));
    }
    found.finish()
}

/// Adds the sums of page_age to the results. Without any sum the goal is not met.
fn add_sums(sums: &[f64], found: &mut Findings) {
    let what = "page_age, of users' pages";
    for (name, value) in [
        (
            "the least",
            sums.iter().copied().fold(f64::INFINITY, f64::min),
        ),
        ("the most", sums.iter().copied().fold(0.0, f64::max)),
    ] {
        found.figure(&format!("{what}, {name}"), value, "%");
    }
    found.figure("the same, times compared", sums.len() as f64, "");
    let middle = median(sums);
    found.at_least(&format!("{what} (median)"), middle, "%", 98.0);
    found.at_most(&format!("{what} (median)"), middle, "%", 102.0);
}

impl Subject {
    /// The command that builds everything anew, in or into the folder `target`.
    fn command(&self, target: &TempDir) -> Run {
        let place = target.path().display().to_string();
        let Some((folder, command)) = &self.other else {
            let words = [
                "cargo",
                "build",
                "--release",
                "--locked",
                "-p",
                &self.package,
            ];
            return Run::new(words.into_iter().chain(["--target-dir", &place]));
        };
        let copied = Run::new(["cp", "-a", &format!("{folder}/."), &place]).finish(LIMIT);
        assert!(copied.status.success(), "{}", copied.stderr);
        // Drops the copied files from the page cache, where they are charged to the bench.
        let script = format!("{command} >build.log 2>&1 || {{ tail build.log >&2; exit 1; }}");
        let flush = Run::new(["sync"]).finish(LIMIT);
        assert!(flush.status.success(), "{}", flush.stderr);
        let dropped = Run::new(["python3", "-c", DROP, &place]).finish(LIMIT);
        assert!(dropped.status.success(), "{}", dropped.stderr);
        Run::new(["sh", "-c", &format!("cd {place} && {script}")])
    }
}

/// Builds once in a control group without pagetide.
fn alone_built(subject: &Subject) -> Built {
    let (_swap, target) = (Swap::new(4096), TempDir::new());
    let own = subject.command(&target);
    let group = MemoryGroup::new();
    let running = group.run(&own).start();
    let course = watch(running, &mut || group.number("memory.usage_in_bytes"));
    Built {
        seconds: course.seconds,
        mean: course.mean,
        most_at: course.most_at,
        peak: group.number("memory.max_usage_in_bytes") as f64,
        said: String::new(),
        requested: 0,
        sums: Vec::new(),
    }
}

/// Builds once in a tenant, managed by the agent or by a policy.
fn managed_built(subject: &Subject, by: &Agent, by_policy: bool) -> Built {
    let (_swap, target, folder) = (Swap::new(4096), TempDir::new(), TempDir::new());
    let own = subject.command(&target);
    let policy = match by_policy {
        true => format!(
            "policy = {{ by = \"cold-age\", older-than = \"{0}ms\", every = \"{1}s\", cache-older-than = \"{0}ms\" }}\n",
            by.cold_ms(),
            by.every()
        ),
        false => String::new(),
    };
    let config = configuration(&folder, &policy);
    let tree = Tree::serve(&["--age-every", "5s", "--config", &config]);
    tree.make("build");
    by.enable_reports(&tree, "build");
    let agent = (!by_policy).then(|| by.start(&tree, "build", &[]));
    let running = own.under(tree.inside("build")).start();
    let (mut sums, mut last) = (Vec::new(), Instant::now());
    let course = watch(running, &mut || {
        if last.elapsed() > Duration::from_secs(5) {
            last = Instant::now();
            sums.extend(reported_by_users(&tree));
        }
        tree.number("build/memory.current")
    });
    let said = agent.map_or_else(|| tree.stdout(), |agent| agent.stdout());
    Built {
        seconds: course.seconds,
        mean: course.mean,
        most_at: course.most_at,
        peak: tree.number("build/memory.peak") as f64,
        requested: by.count_requests(&said),
        said,
        sums,
    }
}

/// Sum of all bins of page_age, in percent of the user pages by the kernel; `None` while the charge
/// is at most 64 MiB. User pages are those that are charged to the group, and file pages that its
/// processes map but that are charged to other groups: a compiler that another group has run before
/// is charged to that group.
fn reported_by_users(tree: &Tree) -> Option<f64> {
    let text = tree.read("build/memory.workingset.page_age");
    let words = text.split([' ', '\n']);
    let reported: u64 = words
        .filter_map(|word| word.split_once('=')?.1.parse::<u64>().ok())
        .sum();
    let of = |name: &str| tree.kernel_stat("build", name);
    let charged = of("total_rss") + of("total_cache");
    let pids = std::fs::read_to_string(tree.group("build").join("cgroup.procs")).ok()?;
    let pids: Vec<u32> = pids.lines().filter_map(|pid| pid.parse().ok()).collect();
    let mapped = rollup(&pids, "Pss_File");
    let users = charged + mapped.saturating_sub(of("total_mapped_file"));
    (charged > 64 << 20).then(|| 100.0 * reported as f64 / users as f64)
}

/// How long a build took and what was charged for it.
struct Course {
    seconds: f64,
    /// Mean charge, bytes.
    mean: f64,
    /// When the charge was highest, percent of the build's time.
    most_at: f64,
}

/// Samples the charge until the build ends, which must succeed.
fn watch(mut running: Running, charged: &mut dyn FnMut() -> u64) -> Course {
    let begin = Instant::now();
    let (mut sum, mut samples, mut most) = (0.0, 0.0, (0, 0.0));
    while running.ended().is_none() {
        assert!(begin.elapsed() < LIMIT, "{}", running.stderr());
        let bytes = charged();
        if bytes > most.0 {
            most = (bytes, begin.elapsed().as_secs_f64());
        }
        sum += bytes as f64;
        samples += 1.0;
        std::thread::sleep(Duration::from_millis(200));
    }
    let seconds = begin.elapsed().as_secs_f64();
    let outcome = running.wait(LIMIT);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    Course {
        seconds,
        mean: sum / samples,
        most_at: 100.0 * most.1 / seconds,
    }
}
