//! Requests to `pagetide serve` by the commands, and by clients with and without rights; and
//! reclaim when the host lacks memory.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::fairness::{PICKERS, TOUCHED};
use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::memcg::MemoryGroup;
use e2e::temp::{TempDir, serial};
use e2e::tenants::{Tree, configuration, start_busy, start_scanned};
use e2e::user::{self, NOBODY};
use e2e::zram::Swap;
use e2e::{pagetide, proc, programs, wait};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);

/// A host that is short of memory (the watermarks are so high that every host is below them):
/// without a request, tenants are reclaimed from, down to their protection.
#[test]
fn a_host_that_lacks_memory_reclaims_cold_memory() {
    let _serial = serial();
    let _swap = Swap::shared();
    let folder = TempDir::new();
    let file = configuration(
        &folder,
        "age-every = \"500ms\"\n[pressure]\navailable-low = 0\n",
    );
    let tree = Tree::serve(&["--config", &file]);
    for name in ["plain", "min"] {
        tree.make(name);
    }
    let [plain, min] = ["plain", "min"].map(|name| start_scanned(&tree, name, 48));
    tree.write("min/memory.min", "64m");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(plain.status("VmSwap"), 0, "nothing is lacking");
    configuration(
        &folder,
        "age-every = \"500ms\"\n[pressure]\navailable-low = \"100%\"\n",
    );
    tree.reload();
    wait::until("it gives", SOON, || plain.status("VmSwap") > 40 * MIB);
    assert_eq!(min.status("VmSwap"), 0);
    let background = tree.line("memory.stat", "pgsteal_kswapd") * 4096;
    assert!(
        background > 40 * MIB,
        "{background} bytes by nobody's asking"
    );
    // If a budget is set, the host's watermarks have no effect.
    tree.write("memory.max", "1g");
    let _ = (plain.touch(), min.touch());
    std::thread::sleep(Duration::from_secs(3));
    let back = plain.status("VmRSS");
    assert!(back > 44 * MIB, "{back} bytes are in memory");
}

/// Checks the answer on all tenants: one row per tenant, one column per counter.
fn check_all_tenants(tree: &Tree, answer: &str) {
    let all: Value = serde_json::from_str(answer).expect("an object");
    let rows = all["tenants"].as_array().expect("rows");
    let names: Vec<&str> = rows.iter().filter_map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["", "web", "web/a"]);
    let mut columns = all["names"].as_array().expect("names").iter();
    let anon = columns.position(|name| name == "anon").expect("anon");
    let reported = tree.line("web/memory.stat", "anon");
    assert_eq!(rows[1][1][anon].as_u64(), Some(reported));
}

#[test]
fn commands_report_and_reclaim_from_tenants() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("web");
    tree.make("web/a");
    let idle_program = start_scanned(&tree, "web/a", 48);
    let ask = |words: &[&str]| {
        let root = ["--root", tree.root()];
        pagetide::command(words.iter().chain(&root).copied()).finish(SOON)
    };
    let outcome = ask(&["stat", "/web", "--json"]);
    let stat: Value = serde_json::from_str(&outcome.stdout).expect("an object");
    let reported = tree.line("web/memory.stat", "anon");
    assert_eq!(stat["anon"].as_u64(), Some(reported), "{}", outcome.stderr);

    // Regression: for a size that was no multiple of a page, the rest could not be paged out, and
    // the command ended with 1.
    let outcome = ask(&["reclaim", "/web/a", "16777217", "--json"]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    let done: Value = serde_json::from_str(&outcome.stdout).expect("an object");
    let pages = done["evicted_pages"].as_u64().unwrap_or(0);
    assert!(pages >= 4096, "{done} {}", outcome.stderr);
    let out = idle_program.status("VmSwap");
    assert!(
        out.abs_diff(pages * 4096) * 50 <= out,
        "{out} bytes of {pages} pages"
    );

    // A report is as of the last scan, so it may still count pages that were just paged out.
    let mut report = Value::Null;
    wait::until("a look has seen what left", SOON, || {
        let outcome = ask(&["report", "/web", "--json"]);
        report = serde_json::from_str(&outcome.stdout).expect("an object");
        let resident = report["resident_bytes"].as_u64().unwrap_or(0);
        resident.abs_diff(idle_program.status("VmRSS")) < 4 * MIB
    });
    let pids: Vec<u64> = report["processes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["pid"].as_u64())
        .collect();
    assert_eq!(pids, [u64::from(idle_program.pid())], "{report}");
    assert!(
        report["evicted_pages"].as_u64().unwrap_or(0) >= pages,
        "{report}"
    );

    check_all_tenants(&tree, &ask(&["stat", "/", "--all", "--json"]).stdout);

    let outcome = ask(&["reclaim", "/web/a", "--all"]);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    assert!(idle_program.status("VmSwap") > 44 * MIB);
    let _ = idle_program.touch();

    let outcome = ask(&["stat", "/nobody"]);
    assert_eq!(outcome.status.code(), Some(1));
    assert!(outcome.stderr.contains("no tenant"), "{}", outcome.stderr);
    let outcome = ask(&["reclaim", "/web/a", "--older-than", "10h"]);
    assert!(outcome.status.success(), "{}", outcome.stderr);
}

/// A client of a user that may not trace a process gets no information on that process at the
/// socket, and cannot read the files.
#[test]
fn another_user_gets_no_information() {
    let _serial = serial();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("a");
    let folder = TempDir::public();
    let binary = pagetide::public_copy(&folder);
    for words in [
        &["stat", "/a"][..],
        &["report", "/a"],
        &["reclaim", "/a", "--all"],
    ] {
        let own = [binary.as_str()];
        let root = ["--root", tree.root()];
        let argv = own.iter().chain(words).chain(&root).copied();
        let outcome = user::run(NOBODY, argv).finish(SOON);
        assert_eq!(
            outcome.status.code(),
            Some(3),
            "{words:?}: {}",
            outcome.stderr
        );
        assert!(outcome.stderr.contains("belongs to"), "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "");
    }
    let at = tree.at("a/memory.stat").display().to_string();
    let outcome = user::run(NOBODY, ["cat", &at]).finish(SOON);
    assert!(!outcome.status.success() && outcome.stdout.is_empty());
}

/// Root without CAP_SYS_PTRACE may not trace root's processes, and gets no information on them.
/// Regression: root of a container got information.
#[test]
fn a_root_that_may_not_trace_gets_no_information() {
    let _serial = serial();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("a");
    let idle_program = IdleProgram::start(tree.inside("a"), 16);
    wait::until("its pages are known", SOON, || {
        tree.line("a/memory.stat", "anon") >= 16 << 20
    });
    let less = [
        "setpriv",
        "--bounding-set",
        "-sys_ptrace",
        "--inh-caps",
        "-sys_ptrace",
    ];
    // The kernel refuses such a client, too. (It may show the location of memory to users that may
    // watch performance.)
    let peek = format!(": </proc/{}/mem", idle_program.pid());
    let peek = Run::new(less.into_iter().chain(["sh", "-c", &peek])).finish(SOON);
    assert!(!peek.status.success(), "{}", peek.stdout);
    let own = pagetide::binary();
    // In a user namespace of its own the client has all capabilities, which have no effect here.
    let inside = ["unshare", "-Ur"];
    for (words, inside) in [
        (&["stat", "/a"][..], &[][..]),
        (&["report", "/a"], &[]),
        (&["reclaim", "/a", "--all"], &[]),
        (&["reclaim", "/a", "--all"], &inside),
    ] {
        let argv = less.into_iter().chain(inside.iter().copied());
        let argv = argv.chain([own.as_str()]);
        let argv = argv
            .chain(words.iter().copied())
            .chain(["--root", tree.root()]);
        let outcome = Run::new(argv).finish(SOON);
        assert_eq!(
            outcome.status.code(),
            Some(3),
            "{words:?}: {}{}",
            outcome.stdout,
            outcome.stderr
        );
    }
    // Neither through the files. Regression: they checked only for root's user id.
    let at = |file: &str| tree.at(file).display().to_string();
    for script in [
        format!("cat {}", at("a/memory.stat")),
        format!("cat {}", at("a/memory.workingset.page_age")),
        format!("echo 8M swappiness=200 > {}", at("a/memory.reclaim")),
        format!("mkdir {}", at("b")),
        format!("rmdir {}", at("a")),
    ] {
        for inside in [&[][..], &inside] {
            let argv = less.into_iter().chain(inside.iter().copied());
            let outcome = Run::new(argv.chain(["sh", "-c", &script])).finish(SOON);
            assert!(!outcome.status.success(), "{script}");
            assert_eq!(outcome.stdout, "", "{script}");
            let why = "Permission denied";
            assert!(outcome.stderr.contains(why), "{script}: {}", outcome.stderr);
        }
        // Root with all rights can read the files. (The other scripts would change the tenant.)
        if script.starts_with("cat") {
            let outcome = Run::new(["sh", "-c", &script]).finish(SOON);
            assert!(outcome.status.success(), "{script}: {}", outcome.stderr);
        }
    }
    assert_eq!(idle_program.status("VmSwap"), 0);
}

/// Regression: in the table of tenants each tenant had 0 bytes of the youngest pages, a group of
/// the host had the swap of tenants made by `serve`, and the table ended at a removed group.
#[test]
fn a_table_of_tenants_agrees_with_their_reports() {
    let _serial = serial();
    let _swap = Swap::shared();
    let host = MemoryGroup::new();
    let tree = Tree::serve_host(&host, &["--age-every", "1s"]);
    tree.make("a");
    let idle_program = start_scanned(&tree, "a", 64);
    let words = [
        programs::c("hotset"),
        "32".to_owned(),
        "16".to_owned(),
        "600".to_owned(),
    ];
    let words = tree.inside("a").into_iter().chain(words);
    let busy = Run::new(words.chain(["--rate", "20000"].map(str::to_owned))).start();
    let row = |name: &str| {
        let words = [
            "top",
            "--by",
            "tenant",
            "--once",
            "--json",
            "--root",
            tree.root(),
        ];
        let reported = pagetide::command(words).finish(SOON);
        assert!(reported.status.success(), "{}", reported.stderr);
        let table: Value = serde_json::from_str(&reported.stdout).expect("JSON");
        let hard_limit = table["wall_ms"].as_u64().expect("a time");
        assert!(hard_limit < 3_600_000, "{hard_limit}");
        let rows = table["rows"].as_array().expect("rows").clone();
        rows.into_iter().find(|row| row["cgroup"] == name)
    };
    wait::until("what is in use is young", SOON, || {
        row("/a").is_some_and(|row| row["young_bytes"].as_u64() > Some(12 * MIB))
    });
    let gone = host.below();
    wait::until("it is found", SOON, || {
        row("/host").is_some() && tree.at("host").read_dir().is_ok()
    });
    drop(gone);
    let requested = ["reclaim", "/a", "--all", "--root", tree.root()];
    let reported = pagetide::command(requested).finish(SOON);
    assert!(reported.status.success(), "{}", reported.stderr);
    let swapped = |name| row(name).expect("it is there")["swapped_bytes"].as_u64();
    assert!(swapped("/a") > Some(32 * MIB), "{:?}", swapped("/a"));
    assert!(swapped("/host") < Some(8 * MIB), "{:?}", swapped("/host"));
    drop((busy, idle_program));
}

/// Regression: after ^Z in `serve`, `reclaim` of a tenant printed nothing for ten minutes.
#[test]
fn a_serve_that_is_stopped_is_not_waited_for() {
    let _serial = serial();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("a");
    e2e::guard::send(tree.pid(), rustix::process::Signal::STOP);
    let stopped = || proc::state(tree.pid()) == Some('T');
    wait::until("it is stopped", SOON, stopped);
    let words = ["reclaim", "/a", "1M", "--root", tree.root()];
    let reported = pagetide::command(words).finish(SOON);
    e2e::guard::send(tree.pid(), rustix::process::Signal::CONT);
    assert_eq!(reported.status.code(), Some(1), "{}", reported.stdout);
    assert!(
        reported.stderr.contains("kill -CONT"),
        "{}",
        reported.stderr
    );
}

/// Regression: `xargs kill < cgroup.procs` in a container killed other processes, which had these
/// pids in the container.
#[test]
fn pids_are_hidden_where_they_name_other_processes() {
    let _serial = serial();
    let tree = Tree::serve(&[]);
    tree.make("a");
    let _idle_program = IdleProgram::start(tree.inside("a"), 4);
    let file = tree.at("a/cgroup.procs").display().to_string();
    let read = |wrap: &[&str]| {
        let cat = Run::new(["cat", &file]);
        cat.under(wrap.iter().map(|word| (*word).to_owned()))
            .finish(SOON)
    };
    assert!(read(&[]).status.success());
    let inside = read(&["unshare", "--pid", "--fork", "--mount-proc"]);
    assert!(inside.stderr.contains("Permission denied"), "{inside:?}");
}

/// Bytes that proactive reclaim has taken from each of these tenants.
fn reclaimed_bytes(tree: &Tree, names: &[&str]) -> Vec<u64> {
    let of = |name: &&str| tree.line(&format!("{name}/memory.stat"), "pgsteal_proactive") * 4096;
    names.iter().map(of).collect()
}

/// In each way to choose among tenants, a request to the root is met exactly, and takes from
/// tenants that are equally idle.
#[test]
fn each_way_to_choose_tenants_meets_a_request() {
    let _serial = serial();
    let _swap = Swap::shared();
    for how in PICKERS {
        let tree = Tree::serve(&["--global", how, "--age-every", "500ms"]);
        let names = ["a", "b", "c"];
        let programs = names.map(|name| {
            tree.make(name);
            start_scanned(&tree, name, 16)
        });
        std::thread::sleep(Duration::from_secs(2));
        tree.write("memory.reclaim", "24m");
        let taken = reclaimed_bytes(&tree, &names);
        assert_eq!(taken.iter().sum::<u64>(), 24 * MIB, "{how}: {taken:?}");
        let out: u64 = programs.iter().map(|one| one.status("VmSwap")).sum();
        assert!(out.abs_diff(24 * MIB) < MIB, "{how}: {out} by the kernel");
        for program in &programs {
            let _ = program.touch();
        }
    }
}

/// Tenants that use all of their memory all the time can be reclaimed from, and alike.
///
/// Regression: each page was accessed again before reclaim came to it, and only a scan clears
/// accessed bits. memory.reclaim ended with EAGAIN at 61% of what was requested, and the pages
/// taken from each tenant spread by 62% of their mean.
#[test]
fn busy_tenants_are_reclaimed_from_alike() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&[]);
    let names = ["a", "b", "c", "d", "e", "f"];
    let programs = names.map(|name| {
        tree.make(name);
        start_busy(&tree, name, 24, TOUCHED)
    });
    let in_swap = || -> u64 {
        let trees = programs.iter().flat_map(|one| one.tree());
        trees.filter_map(|pid| proc::number(pid, "VmSwap")).sum()
    };
    wait::until("their memory is known", SOON, || {
        tree.line("memory.stat", "anon") >= 144 * MIB
    });
    for round in 0..4 {
        // A quick machine would otherwise request more than the programs have read back.
        wait::until("their memory is back", SOON, || in_swap() < 8 * MIB);
        let requested = tree.try_write("memory.reclaim", "72m");
        assert_eq!(
            requested,
            Ok(()),
            "request {round}: {:?}",
            reclaimed_bytes(&tree, &names)
        );
    }
    let taken = reclaimed_bytes(&tree, &names);
    assert_eq!(taken.iter().sum::<u64>(), 288 * MIB, "{taken:?}");
    let is_alike = |one: &u64| (24 * MIB..72 * MIB).contains(one);
    assert!(taken.iter().all(is_alike), "48 MiB each: {taken:?}");
}
