//! Working-set reports of tenants: when they are refreshed, which processes are notified of
//! pressure, and an agent that knows nothing of pagetide and uses only the files.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Run, Running};
use e2e::idle_program::IdleProgram;
use e2e::page_cache::{self, read_by};
use e2e::programs;
use e2e::temp::serial;
use e2e::tenants::{POLL_SCRIPT, Tree, configuration, start_scanned};
use e2e::vmstat::Vmstat;
use e2e::wait;
use e2e::zram::Swap;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);

#[test]
fn pressure_wakes_a_process_that_polls_a_report() {
    let _serial = serial();
    let _swap = Swap::shared();
    // Reclaim of this host by the kernel, and a host with little available memory, would wake the
    // process, too.
    let (folder, vmstat) = (e2e::temp::TempDir::new(), Vmstat::new());
    let text = "age-every = \"500ms\"\n[pressure]\navailable-low = 0\n";
    let config = configuration(&folder, text);
    let tree = Tree::serve_after(&vmstat.mount(), &["--config", &config]);
    tree.make("a");
    let idle_program = start_scanned(&tree, "a", 64);
    tree.write("a/memory.workingset.refresh_interval", "N0=200");
    tree.write("a/memory.workingset.report_threshold", "N0=200");
    let file = tree
        .at("a/memory.workingset.page_age")
        .display()
        .to_string();
    let waits = Run::new(["python3", "-c", POLL_SCRIPT, &file]).start();
    wait::until("it waits", SOON, || waits.stdout().contains("read"));
    assert_eq!(waits.stdout(), "at first True\nread False\n");
    // A reclaim on request is not reported as pressure.
    std::thread::sleep(Duration::from_millis(300));
    tree.write("a/memory.reclaim", "4m");
    std::thread::sleep(Duration::from_millis(500));
    assert!(!waits.stdout().contains("woken"));
    tree.write("a/memory.max", "48m");
    wait::until("it is told", SOON, || waits.stdout().contains("woken True"));
    let _ = idle_program.touch();
}

/// Regression: reports had the ages of the last scan, which was up to a minute ago here. An agent
/// that read them each second saw no page grow older, and no page of a program that had just begun.
#[test]
fn reports_are_refreshed_between_scans() {
    let _serial = serial();
    let tree = Tree::serve(&["--age-every", "60s"]);
    tree.write("node0/workingset_report/page_age_intervals", "2000");
    tree.make("a");
    let idle_program = IdleProgram::start(tree.inside("a"), 32);
    let file = "a/memory.workingset.page_age";
    assert_eq!(tree.read(file), "");
    tree.write("a/memory.workingset.refresh_interval", "N0=500");
    // Returns bytes of anonymous memory in the first bin, and in the last bin.
    let bins = || {
        let text = tree.read(file);
        let words = text.split([' ', '\n']);
        let of = words.filter_map(|word| word.strip_prefix("anon=")?.parse::<u64>().ok());
        of.collect::<Vec<u64>>()
    };
    wait::until("it is seen", SOON, || {
        bins().iter().sum::<u64>() >= 32 * MIB
    });
    wait::until("it is cold", SOON, || {
        bins().last().is_some_and(|cold| *cold >= 30 * MIB)
    });
    let _ = idle_program.touch();
    wait::until("it was used", SOON, || {
        bins().first().is_some_and(|young| *young >= 30 * MIB)
    });
}

/// Bytes of a program in swap (VmSwap); panics if the program has ended.
fn swapped_bytes(program: &Running) -> u64 {
    let out = e2e::proc::number(program.pid(), "VmSwap");
    out.unwrap_or_else(|| panic!("it has ended: {}", program.stderr()))
}

/// The example agent (agent.py) requests the bytes of all bins that it takes for cold. By the rule
/// `label` it compares the upper edge of a bin with the cold age, by the rule `lower` the lower
/// edge. workingset-report.md 9; 11, test 15.
#[test]
fn agent_requests_bytes_by_upper_or_lower_bin_edge() {
    let folder = e2e::temp::TempDir::new();
    let group = folder.path().join("a");
    std::fs::create_dir(&group).expect("it is new");
    let lines = [
        (10_000, 1_u64 << 30),
        (20_000, 2 << 30),
        (u64::MAX, 3 << 30),
    ];
    let bins = lines.map(|(label, bytes)| format!("{label} anon={} file=4096\n", bytes - 4096));
    // The author's agent reads node 0 alone.
    let text = format!("N0\n{}N1\n{}", bins.concat(), bins.concat());
    std::fs::write(group.join("memory.workingset.page_age"), text).expect("it can be written");
    let at = folder.path().display().to_string();
    for (cold_ms, rule, gib) in [
        ("10000", "label", 6_u64),
        ("10001", "label", 5),
        ("10000", "lower", 5),
        ("10001", "lower", 3),
    ] {
        let script = programs::source("agent.py");
        let words = ["python3", &script, &at, "0.1", cold_ms, rule];
        let agent = Run::new(words).start();
        let requested = format!("a asked {}\n", gib << 30);
        wait::until("it has asked", SOON, || agent.stdout().ends_with('\n'));
        assert!(agent.stdout().starts_with(&requested), "{}", agent.stdout());
    }
}

#[test]
fn an_agent_for_version_2_reclaims_cold_memory() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.write(
        "node0/workingset_report/page_age_intervals",
        "1000,2000,4000",
    );
    for name in ["cold", "hot"] {
        tree.make(name);
    }
    let cold = start_scanned(&tree, "cold", 64);
    let words = [
        programs::c("hotset"),
        "64".to_owned(),
        "64".to_owned(),
        "600".to_owned(),
        "--rate".to_owned(),
        "40000".to_owned(),
    ];
    let hot = Run::new(tree.inside("hot").into_iter().chain(words)).start();
    wait::until("it is filled", SOON, || hot.stderr().contains("ready"));
    let at = tree.at("").display().to_string();
    // By the label of a bin: memory that was not used for 2 s is cold.
    let agent = Run::new(["python3", &programs::source("agent.py"), &at, "3", "4000"]).start();
    wait::until("what is cold is gone", SOON, || {
        cold.status("VmSwap") > 60 * MIB
    });
    std::thread::sleep(Duration::from_secs(4));
    let out = swapped_bytes(&hot);
    assert!(
        out < 4 * MIB,
        "{out} bytes of what is in use: {}",
        agent.stdout()
    );
    assert!(agent.stderr().is_empty(), "{}", agent.stderr());
    let _ = cold.touch();
}

/// Regression: unmapped page cache of a tenant that reads files was in no report, so an agent that
/// goes by reports never reclaimed it.
#[test]
fn unmapped_page_cache_is_reported_and_reclaimed() {
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = e2e::temp::TempDir::new();
    let file = page_cache::file(&folder, 96);
    let tree = Tree::serve(&["--age-every", "1s"]);
    tree.write("node0/workingset_report/page_age_intervals", "4000");
    tree.make("a");
    tree.write("a/memory.workingset.refresh_interval", "N0=500");
    // The memory is in use all the time, so none of it is old.
    let words = [
        programs::c("hotset"),
        "16".to_owned(),
        "16".to_owned(),
        "600".to_owned(),
        "--rate".to_owned(),
        "40000".to_owned(),
    ];
    let hot = Run::new(tree.inside("a").into_iter().chain(words)).start();
    wait::until("it is filled", SOON, || hot.stderr().contains("ready"));
    read_by(&tree, "a", &file);
    let bins = |name: &str| {
        let text = tree.read(&format!("a/memory.workingset.{name}"));
        let words = text.split([' ', '\n']);
        let of = words.filter_map(|word| word.strip_prefix("file=")?.parse::<u64>().ok());
        of.collect::<Vec<u64>>()
    };
    let cached = || tree.kernel_stat("a", "total_cache");
    assert!(cached() > 90 * MIB, "{} bytes are cached", cached());
    wait::until("it is old", SOON, || {
        bins("page_age").last().is_some_and(|old| *old > 90 * MIB)
    });
    let estimated: u64 = bins("page_age_estimated").iter().sum();
    assert!(
        estimated.abs_diff(cached()) < 8 * MIB,
        "{estimated} of {}",
        cached()
    );
    tree.write("a/memory.reclaim", "64m");
    let left = cached();
    assert!(left < 48 * MIB, "{left} bytes are cached still");
    let out = swapped_bytes(&hot);
    assert!(out < 4 * MIB, "{out} bytes of what is in use");
    wait::until("the report knows", SOON, || {
        bins("page_age_estimated").iter().sum::<u64>() < 48 * MIB
    });
    tree.write("a/memory.workingset.refresh_interval", "N0=0");
    assert_eq!(tree.read("a/memory.workingset.page_age_estimated"), "");
}

/// A Python program that prints the contents of a file, and again at each notification of a change.
const FOLLOW_SCRIPT: &str = "
import os, select, sys
file = os.open(sys.argv[1], os.O_RDONLY)
if sys.argv[2] == 'edges':
    waits = select.epoll()
    waits.register(file, select.EPOLLPRI | select.EPOLLET)
else:
    waits = select.poll()
    waits.register(file, select.POLLPRI)
while True:
    try:
        print(os.pread(file, 4096, 0).decode().replace('\\n', ' '), flush=True)
    except OSError as error:
        print('gone', error.errno, flush=True)
        break
    waits.poll()
";

/// Regression: service managers, container runtimes and OOM killers wait for changes of the files
/// of events by poll(2). They were never woken.
#[test]
fn events_wake_processes_that_poll_them() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "1s"]);
    tree.make("a");
    let follow = |file: &str, how: &str| {
        let file = tree.at(file).display().to_string();
        Run::new(["python3", "-c", FOLLOW_SCRIPT, &file, how]).start()
    };
    let ways = ["levels", "edges"].map(|how| follow("a/cgroup.events", how));
    let events =
        ["memory.events", "memory.events.local"].map(|file| follow(&format!("a/{file}"), "levels"));
    let reported = |what: &str, times: usize| {
        wait::until(what, SOON, || {
            let reported = ways.iter().map(|one| one.stdout().matches(what).count());
            reported.min().is_some_and(|reported| reported >= times)
        });
    };
    reported("populated 0 ", 1);
    let idle_program = IdleProgram::start(tree.inside("a"), 64);
    reported("populated 1 ", 1);
    assert!(events.iter().all(|one| !one.stdout().is_empty()));
    let empty = || {
        ways.each_ref()
            .map(|one| one.stdout().matches("populated 0 ").count())
    };
    let before = empty();
    // The program meets `memory.max` from now on.
    tree.write("a/memory.max", "32m");
    let limit = tree.group("a/memory.limit_in_bytes");
    wait::until("it stands", SOON, || {
        let limit = std::fs::read_to_string(&limit).unwrap_or_default();
        limit.trim() == (32 << 20).to_string()
    });
    let _ = idle_program.touch();
    let is_met = |text: &str| text.lines().any(|line| !line.contains("max 0 "));
    wait::until("charges met the limit", SOON, || {
        events.iter().all(|one| is_met(&one.stdout()))
    });
    drop(idle_program);
    wait::until("it is empty", SOON, || {
        let now = empty();
        now.iter().zip(&before).all(|(now, before)| now > before)
    });
    std::fs::remove_dir(tree.at("a")).expect("nobody is in it");
    reported("gone 19", 1);
    wait::until("all are told", SOON, || {
        events.iter().all(|one| one.stdout().contains("gone 19"))
    });
}
