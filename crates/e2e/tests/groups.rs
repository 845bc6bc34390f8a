//! A control group as the target, by its path: a database in it and what stands in a group below it are paged out, asked about and let go of,
//! and nobody else is. And pages that the processes of a group share.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::time::Duration;

use e2e::guard::Outcome;
use e2e::memcg::MemoryGroup;
use e2e::prefork::Prefork;
use e2e::redis::{NOISE, Redis};
use e2e::sleeper::Sleeper;
use e2e::temp::serial;
use e2e::zram::Swap;
use e2e::{pagetide, proc, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;
/// Of redis: 32 MiB of values.
const KEYS: u64 = 8192;

/// `pagetide VERB WORDS --cgroup GROUP`, done.
fn of_group(group: &MemoryGroup, words: &[&str]) -> Outcome {
    let name = group.name();
    let words = words.iter().copied().chain(["--cgroup", name.as_str()]);
    pagetide::command(words).finish(LIMIT)
}

/// The same with `--json`; it succeeds.
fn told(group: &MemoryGroup, words: &[&str]) -> Value {
    let done = of_group(group, &[words, &["--json"]].concat());
    assert!(done.status.success(), "{words:?}: {}", done.stderr);
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {}", done.stdout))
}

/// Pages of a process in swap, by the kernel.
fn out(pid: u32) -> u64 {
    proc::number(pid, "VmSwap").unwrap_or(0)
}

/// A group with a server in it that has data, a group below with a program of known contents, and one beside them all.
struct Stage {
    redis: Redis,
    below: Sleeper,
    beside: Sleeper,
    // Who is in them is gone before them.
    _lower: MemoryGroup,
    group: MemoryGroup,
}

impl Stage {
    fn set() -> Stage {
        let group = MemoryGroup::new();
        let lower = group.below();
        let mut redis = Redis::start(NOISE, &|run| group.run(run));
        redis.fill(KEYS);
        let into = |group: &MemoryGroup| {
            let enter = r#"echo $$ >"$0/cgroup.procs" && exec "$@""#.to_owned();
            ["sh".to_owned(), "-c".to_owned(), enter, group.path()]
        };
        let below = Sleeper::start(into(&lower), 16);
        let beside = Sleeper::start([], 16);
        Stage {
            redis,
            below,
            beside,
            _lower: lower,
            group,
        }
    }

    /// What the kernel says of both processes of the group: its group's swap is theirs.
    fn all_is_out(&self) -> bool {
        let swap = self.group.line("memory.stat", "total_swap ");
        out(self.redis.pid) > 28 * MIB && out(self.below.pid()) > 14 * MIB && swap > 42 * MIB
    }

    /// Every byte is right, and nobody has touched who is not of the group.
    fn check(&mut self) {
        assert_eq!(out(self.beside.pid()), 0, "it is of no group");
        self.redis.check_all(&(0..KEYS).collect::<Vec<u64>>());
        let _ = self.below.touch();
    }
}

#[test]
fn a_group_is_reclaimed_without_a_manager() {
    let _serial = serial();
    let _swap = Swap::shared();
    let mut stage = Stage::set();
    let done = told(&stage.group, &["reclaim", "24M"]);
    let some = done["evicted_pages"].as_u64().expect("a number");
    let swap = out(stage.redis.pid) + out(stage.below.pid());
    assert!(some >= 6144, "{done:#}");
    // Some of it is of files, which need no swap, and which it may take first (of 8 MiB nearly all was).
    assert!(swap > 8 * MIB && swap < 32 * MIB, "{swap}: {done:#}");
    let done = told(&stage.group, &["reclaim", "--all"]);
    assert!(done["evicted_pages"].as_u64() > Some(9000), "{done:#}");
    // The group's own count comes two seconds late.
    wait::until("all of the group is out", LIMIT, || stage.all_is_out());
    stage.check();
}

#[test]
fn a_group_is_managed_and_let_go_of() {
    let _serial = serial();
    let _swap = Swap::shared();
    let mut stage = Stage::set();
    let name = stage.group.name();
    let words = [
        &["attach", "--json"][..],
        &e2e::notice::POLICY,
        &["--cgroup", &name],
    ];
    let manager = pagetide::command(words.concat()).start();
    wait::until("all of the group is out", LIMIT, || stage.all_is_out());
    // Another manager is refused, by the group and by a process of it.
    let second = of_group(&stage.group, &["attach"]);
    assert_eq!(second.status.code(), Some(1), "{}", second.stderr);
    let stat = of_group(&stage.group, &["stat"]);
    assert!(stat.stdout.contains("pswpout "), "{stat:?}");
    let report = told(&stage.group, &["report"]);
    let processes = report["processes"].as_array().expect("a list");
    let pids: BTreeSet<u64> = processes
        .iter()
        .filter_map(|one| one["pid"].as_u64())
        .collect();
    let of_ours = [stage.redis.pid, stage.below.pid()].map(u64::from);
    assert_eq!(pids, of_ours.into(), "{report:#}");
    // Who comes later is of the group as well, and who was there goes on.
    let late = Sleeper::start([], 16);
    let procs = format!("{}/cgroup.procs", stage.group.path());
    std::fs::write(procs, late.pid().to_string()).expect("it may be moved");
    wait::until("who came later is out", LIMIT, || {
        out(late.pid()) > 14 * MIB
    });
    assert_eq!(out(stage.beside.pid()), 0, "it is of no group");
    let back = of_group(&stage.group, &["detach", "--bring-back"]);
    assert!(back.status.success(), "{}", back.stderr);
    assert!(back.stdout.contains("asked back in"), "{}", back.stdout);
    let ended = manager.wait(LIMIT);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let last: Value = serde_json::from_str(&ended.stdout).expect("the last report");
    assert!(last["evicted_pages"].as_u64() > Some(14_000), "{last:#}");
    let _ = late.touch();
    stage.check();
}

/// Pages that a server and its workers have in common leave by reclaim of their group where a limit wants room: asked for by a process,
/// the kernel skips them. (The story: the first reclaim took all of them off the lists, and the group was asked for the few that it was short of;
/// for a minute nobody knew of the others, and only the wall took them.)
#[test]
fn what_a_server_and_its_workers_share_leaves_for_a_limit() {
    let _serial = serial();
    let _swap = Swap::shared();
    // On a busy machine the workers may meet the wall before a look, and then the kernel takes what is shared by itself: that shows nothing.
    assert!((0..4).any(|_| is_asked_for_all()), "only the wall takes it");
}

fn is_asked_for_all() -> bool {
    let options = ["--memory-max", "160M", "--age-every", "500ms"];
    let server = Prefork::start(96, 4, &|run| pagetide::run(&options, run));
    server.check();
    // The table lies idle, and workers grow by memory of their own, which they go on using.
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..96 {
        let _ = server.ask("grow 1");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut said = String::new();
    let mut is_said = || {
        said = pagetide::report(server.running.pid())["actions"].to_string();
        let before = said.split(" were skipped as shared");
        let numbers = before.filter_map(|text| text.rsplit(' ').next()?.parse::<u64>().ok());
        numbers.max() > Some(10_000)
    };
    // Much sooner than they are tried once more by themselves.
    let soon = Duration::from_secs(10);
    if wait::poll(soon, || is_said().then_some(())).is_none() {
        eprintln!("not asked for all that is shared: {said}");
        return false;
    }
    // The server itself has nothing but what it shares.
    let shared = out(server.parent);
    let of_workers: Vec<u64> = server.workers.iter().map(|one| out(*one)).collect();
    eprintln!("{shared} of the server are out, {of_workers:?} of its workers: {said}");
    assert!(
        shared > 24 * MIB,
        "{shared} bytes of what is shared are out"
    );
    let has_own = |of: &u64| *of > shared + 8 * MIB;
    assert!(!of_workers.iter().any(has_own), "{of_workers:?}, {shared}");
    server.check();
    true
}
