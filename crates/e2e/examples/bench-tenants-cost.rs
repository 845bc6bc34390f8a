//! `cargo xtask bench tenants-cost [--tenants 1000] [--seconds 60] [--json]`: what very many tenants cost. Each has a process
//! and a group of the kernel's; all their counters are read from the kernel's groups, by one request of the socket, and
//! through the files; and `serve` is left alone for a while. Then as many that use their memory each second, under a budget for looks.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median};
use e2e::guard::{Run, Running};
use e2e::temp::TempDir;
use e2e::tenants::{Tree, configuration};
use e2e::web::Place;
use e2e::{control, pagetide, proc, programs, wait};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;

const ROUNDS: usize = 9;
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

/// What it costs when each has a process that uses its MiB once a second. Looks are due each second and may take a tenth of a
/// processor; who says how much it was is the kernel, of all that `serve` does.
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
    // The interval follows what looks have cost, so some go before.
    std::thread::sleep(Duration::from_secs(20));
    let place = Place::Unix(socket.into());
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
    // From the end of a look to that of another: each has the whole of its interval in that time.
    let at_the_end_of_a_look = || {
        let last = now()[3];
        let end = Instant::now() + LIMIT;
        while now()[3] <= last {
            assert!(Instant::now() < end, "no look within {LIMIT:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        (Instant::now(), now())
    };
    let (begin, before) = at_the_end_of_a_look();
    std::thread::sleep(seconds);
    let (end, after) = at_the_end_of_a_look();
    let took = (end - begin).as_secs_f64();
    let [all, look, other, walks, walked] = [0, 1, 2, 3, 4].map(|at| after[at] - before[at]);
    let share = |seconds: f64| 100.0 * seconds / took;
    let what = "busy: looks, by its own clocks";
    found.at_most(what, share(look), "% of a core", 10.0);
    found.figure(
        "busy: what is no look, by them",
        share(other),
        "% of a core",
    );
    found.figure("busy: between two looks", took / walks, "s");
    found.figure("busy: a look at all", 1e3 * walked / walks, "ms");
    found.at_least("busy: looks in that time", walks, "", 1.0);
    // The budget is of looks: what measures, answers and writes to files besides is no walk.
    found.figure("busy: all of serve", share(all), "% of a core");
    assert!(are_known(), "they are there");
}

/// A value of the metrics.
fn metric(text: &str, name: &str) -> f64 {
    let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let found = lines.find(|(found, _)| *found == name);
    let value = found.and_then(|(_, value)| value.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Puts this thread on another processor than the one that answers files last ran on, bound to neither. Where two that ask and
/// answer in turn begin apart they may stay so, and each then wakes the other's processor, for a round or for all: what else
/// chance decides is the worst case in each round.
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

/// All counters, three ways. The socket is asked as the kernel's files are read, by this process: what the command takes, its
/// start included, stands beside.
fn reads(tree: &Tree, names: &[String], found: &mut Findings) {
    let [mut kernel, mut socket, mut command, mut files] = [(); 4].map(|()| Vec::new());
    let at = control::of_tree(tree.pid()).expect("its socket");
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

/// What it costs when nothing happens.
fn idle(tree: &Tree, seconds: Duration, found: &mut Findings) {
    // One look at least, so that all have slept through one.
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

/// One process in each tenant.
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

/// How many tenants' counters one request gives.
fn by_socket(socket: &std::path::Path) -> usize {
    let question = r#"{"op":"tenant","path":"/","ask":"stats"}"#;
    let answer = control::ask_at(socket, question).expect("an answer");
    let answer: Value = serde_json::from_str(&answer).expect("an object");
    rows(&answer["stats"])
}

/// The same as people ask.
fn by_command(tree: &Tree) -> usize {
    let outcome =
        pagetide::command(["stat", "/", "--all", "--json", "--root", tree.root()]).finish(LIMIT);
    rows(&serde_json::from_str(&outcome.stdout).expect("an object"))
}

fn rows(stats: &Value) -> usize {
    stats["tenants"].as_array().map_or(0, Vec::len)
}

fn timed(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

/// Processor time of a process, seconds.
fn processor(pid: u32) -> f64 {
    proc::processor_seconds(pid).expect("it runs")
}
