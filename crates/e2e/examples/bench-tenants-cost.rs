//! `cargo xtask bench tenants-cost [--tenants 1000] [--seconds 60] [--json]`
//!
//! Measures the cost of very many tenants, each with one process. First the counters of all tenants
//! are read: from the kernel's control groups, by one request on the control socket, by the
//! command, and through the files of `serve`. Then `serve` gets no requests for a while. At last as
//! many tenants use their memory each second, under a budget for scans.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median};
use e2e::guard::{Run, Running};
use e2e::temp::TempDir;
use e2e::tenants::{Tree, configuration};
use e2e::web::ListenAddress;
use e2e::{control, pagetide, proc, programs, wait};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;

/// Number of times that each way of reading is measured.
const ROUNDS: usize = 9;
/// Time limit of each wait.
const LIMIT: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("tenants-cost", &args);
    let count = args.number("--tenants", 1000);
    let tree = Tree::serve(&[]);
    let begin = Instant::now();
    let names: Vec<String> = (0..count).map(|number| format!("t{number}")).collect();
    names.iter().for_each(|name| tree.make(name));
    found.figure(
        "mkdir, each",
        begin.elapsed().as_secs_f64() * 1e6 / count as f64,
        "us",
    );
    let processes = start(&tree, &names, "sleep 3600");
    wait::until("all are known", LIMIT, || {
        names
            .iter()
            .all(|name| tree.line(&format!("{name}/memory.stat"), "anon") > 0)
    });

    reads(&tree, &names, &mut found);
    idle(&tree, args.seconds("--seconds", 60), &mut found);
    drop(processes);
    drop(tree);
    busy(&names, args.seconds("--seconds", 60), &mut found);
    found.finish()
}

/// Measures tenants whose processes each use their 1 MiB once a second. The interval of scans is
/// one second, but scans may take only a tenth of a processor. The kernel counts the processor time
/// of all of `serve`.
fn busy(names: &[String], seconds: Duration, found: &mut Findings) {
    let folder = TempDir::new();
    let socket = folder.file("metrics.sock");
    let text = format!("age-every = \"1s\"\nlook-budget = \"10%\"\nlisten = \"unix:{socket}\"\n");
    let tree = Tree::serve(&["--config", &configuration(&folder, &text)]);
    names.iter().for_each(|name| tree.make(name));
    let seconds_long = (seconds.as_secs() + 600).to_string();
    let program = [programs::c("ticks"), "1".to_owned(), seconds_long];
    let _processes = start(&tree, names, &program.join(" "));
    let are_known = || {
        names
            .iter()
            .all(|name| tree.line(&format!("{name}/memory.stat"), "anon") >= 1 << 20)
    };
    wait::until("the memory of all is known", LIMIT, are_known);
    // The interval of scans depends on the cost of earlier scans, so some scans must precede.
    std::thread::sleep(Duration::from_secs(20));
    let place = ListenAddress::Unix(socket.into());
    let now = || {
        let text = place.get("/metrics").body;
        let of = |name: &str| metric(&text, name);
        [
            processor(tree.pid()),
            of("pagetide_overhead_cpu_seconds_total{part=\"look\"}"),
            of("pagetide_overhead_cpu_seconds_total{part=\"other\"}"),
            of("pagetide_walk_seconds_count"),
            of("pagetide_walk_seconds_sum"),
        ]
    };
    // Measures from the end of one scan to the end of another, so each scan counts with its whole
    // interval.
    let at_the_end_of_a_scan = || {
        let last = now()[3];
        let end = Instant::now() + LIMIT;
        while now()[3] <= last {
            assert!(Instant::now() < end, "no look within {LIMIT:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        (Instant::now(), now())
    };
    let (begin, before) = at_the_end_of_a_scan();
    std::thread::sleep(seconds);
    let (end, after) = at_the_end_of_a_scan();
    let took = (end - begin).as_secs_f64();
    let [all, scan, other, walks, walked] = [0, 1, 2, 3, 4].map(|at| after[at] - before[at]);
    let share = |seconds: f64| 100.0 * seconds / took;
    let what = "busy: looks, by its own clocks";
    found.at_most(what, share(scan), "% of a core", 10.0);
    found.figure(
        "busy: what is no look, by them",
        share(other),
        "% of a core",
    );
    found.figure("busy: between two looks", took / walks, "s");
    found.figure("busy: a look at all", 1e3 * walked / walks, "ms");
    found.at_least("busy: looks in that time", walks, "", 1.0);
    // The budget is for scans: measuring, serving requests and writing files are not part of it.
    found.figure("busy: all of serve", share(all), "% of a core");
    assert!(are_known(), "they are there");
}

/// Value of a metric in the text of the metrics page.
fn metric(text: &str, name: &str) -> f64 {
    let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let found = lines.find(|(found, _)| *found == name);
    let value = found.and_then(|(_, value)| value.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Moves this thread to another processor than the one on which the thread of `serve` that answers
/// file requests last ran, and then allows it all processors again.
///
/// Two threads that take turns may stay on different processors if they begin so; then each request
/// wakes the other processor. Chance would decide that, for one repetition or for all, so each
/// repetition starts from this worst case.
fn part_from(pid: u32) {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let mut stats = tasks.flatten().filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        stat.contains("(fuser-0)").then_some(stat)
    });
    let stat = stats.next().expect("a thread that answers");
    let fields = stat.rsplit_once(')').expect("a name").1;
    let there = fields.split_ascii_whitespace().nth(36);
    let there: usize = there.and_then(|text| text.parse().ok()).expect("field 39");
    let allowed = sched_getaffinity(None).expect("ours");
    let places = 0..CpuSet::MAX_CPU;
    let other = places
        .into_iter()
        .find(|place| *place != there && allowed.is_set(*place));
    if let Some(other) = other {
        let mut one = CpuSet::new();
        one.set(other);
        sched_setaffinity(None, &one).expect("one of ours");
        sched_setaffinity(None, &allowed).expect("ours");
    }
}

/// Measures reading all counters in four ways. This process sends the socket's request itself, as
/// it reads the kernel's files itself; the time of the command includes its start.
fn reads(tree: &Tree, names: &[String], found: &mut Findings) {
    let [mut kernel, mut socket, mut command, mut files] = [(); 4].map(|()| Vec::new());
    let at = control::tree_socket(tree.pid()).expect("its socket");
    for _ in 0..ROUNDS {
        kernel.push(timed(|| {
            for name in names {
                let text = std::fs::read_to_string(tree.group(name).join("memory.stat"));
                assert!(text.is_ok_and(|text| text.contains("total_rss")));
            }
        }));
        socket.push(timed(|| {
            assert_eq!(by_socket(&at), names.len() + 1);
        }));
        command.push(timed(|| {
            assert_eq!(by_command(tree), names.len() + 1);
        }));
        part_from(tree.pid());
        files.push(timed(|| {
            for name in names {
                assert!(
                    tree.read(&format!("{name}/memory.stat"))
                        .contains("pgsteal")
                );
            }
        }));
    }
    for (what, took) in [
        ("memory.stat of all from the kernel's groups", &kernel),
        ("by one request of the socket", &socket),
        ("by the command", &command),
        ("through FUSE", &files),
    ] {
        found.figure(what, median(took) * 1e3, "ms");
    }
    for (what, took, goal) in [
        ("the socket, of the kernel's time", &socket, 1.0),
        ("FUSE, of the kernel's time", &files, 5.0),
    ] {
        found.at_most(what, median(took) / median(&kernel), "", goal);
    }
}

/// Measures `serve` while no requests come and the tenants are idle.
fn idle(tree: &Tree, seconds: Duration, found: &mut Findings) {
    // At least one scan passes, during which all processes are idle.
    std::thread::sleep(Duration::from_secs(21));
    let before = processor(tree.pid());
    std::thread::sleep(seconds);
    let share = (processor(tree.pid()) - before) / seconds.as_secs_f64();
    found.at_most("serve, idle", 100.0 * share, "% of a core", 1.0);
    let resident = proc::number(tree.pid(), "VmRSS").unwrap_or(0);
    found.at_most(
        "its memory",
        resident as f64 / f64::from(1 << 20),
        "MiB",
        150.0,
    );
}

/// Starts a process with the command `program` in each tenant.
fn start(tree: &Tree, names: &[String], program: &str) -> Running {
    let script = format!(
        "for name do sh -c 'echo $$ > \"$0/cgroup.procs\"; exec {program}' \"$name\" & done; wait"
    );
    let paths = names
        .iter()
        .map(|name| tree.group(name).display().to_string());
    let words = ["sh", "-c", &script, "sh"].map(str::to_owned);
    let running = Run::new(words.into_iter().chain(paths)).start();
    wait::until("a process in each", LIMIT, || {
        names.iter().all(|name| {
            let procs = std::fs::read_to_string(tree.group(name).join("cgroup.procs"));
            procs.is_ok_and(|procs| !procs.is_empty())
        })
    });
    running
}

/// Requests the counters of all tenants on the control socket; returns the number of tenants in the
/// answer.
fn by_socket(socket: &std::path::Path) -> usize {
    let question = r#"{"op":"tenant","path":"/","ask":"stats"}"#;
    let answer = control::request_at(socket, question).expect("an answer");
    let answer: Value = serde_json::from_str(&answer).expect("an object");
    tenants_in(&answer["stats"])
}

/// Requests the counters of all tenants by the command line; returns the number of tenants in the
/// answer.
fn by_command(tree: &Tree) -> usize {
    let outcome =
        pagetide::command(["stat", "/", "--all", "--json", "--root", tree.root()]).finish(LIMIT);
    tenants_in(&serde_json::from_str(&outcome.stdout).expect("an object"))
}

/// Number of tenants in the counters.
fn tenants_in(stats: &Value) -> usize {
    stats["tenants"].as_array().map_or(0, Vec::len)
}

/// Does the work; returns the seconds that it took.
fn timed(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

/// Processor time of a process, seconds.
fn processor(pid: u32) -> f64 {
    proc::processor_seconds(pid).expect("it runs")
}
