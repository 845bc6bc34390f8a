//! `pagetide serve`: tenants as files, on real processes, compared with the kernel's own figures.
#![forbid(unsafe_code)]

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::temp::{TempDir, serial};
use e2e::tenants::{Tree, start_scanned};
use e2e::wait;
use e2e::wait::Chance;
use e2e::zram::Swap;
use e2e::{pagetide, proc};

const MIB: u64 = 1 << 20;
/// Longest time that a test waits for one event, also on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// EPERM.
const NOT_PERMITTED: i32 = 1;
/// EAGAIN.
const TRY_AGAIN: i32 = 11;
/// EBUSY.
const BUSY: i32 = 16;
/// EEXIST.
const EXISTS: i32 = 17;
/// EINVAL.
const INVALID: i32 = 22;

/// Bytes of the program in swap, by the kernel's figure (VmSwap).
fn swapped_bytes(one: &IdleProgram) -> u64 {
    one.status("VmSwap")
}

/// Each thread of `serve` has a seccomp filter of system calls.
///
/// Regression: in a pod without a seccomp profile of the node, each thread of `serve` could trace
/// processes and load kernel modules.
#[test]
fn every_thread_of_serve_has_a_seccomp_filter() {
    let _serial = serial();
    let folder = TempDir::new();
    let (socket, history) = (folder.file("http"), folder.file("history"));
    let listen = format!("unix:{socket}");
    let tree = Tree::serve(&["--listen", &listen, "--history", &history]);
    wait::until("the history is written", SOON, || {
        std::path::Path::new(&history).exists()
    });
    let tasks = std::fs::read_dir(format!("/proc/{}/task", tree.pid())).expect("it runs");
    let status = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status"));
    let threads: Vec<String> = tasks.filter_map(|task| status(task.ok()?).ok()).collect();
    assert!(threads.len() > 2, "{threads:?}");
    for thread in &threads {
        let has = |line: &str| thread.lines().any(|one| one == line);
        assert!(has("Seccomp:\t2") && has("NoNewPrivs:\t1"), "{thread}");
    }
    let complained = tree.stderr();
    assert!(!complained.contains("forbidden"), "{complained}");
}

#[test]
fn a_tenant_is_a_control_group_with_files_of_version_2() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "1s"]);
    tree.make("a");
    assert!(tree.group("a").is_dir(), "the kernel has no such group");
    let idle_program = start_scanned(&tree, "a", 64);
    let group = std::fs::read_to_string(tree.group("a/cgroup.procs")).expect("the kernel's");
    assert_eq!(tree.read("a/cgroup.procs"), group);
    assert_eq!(group.trim(), idle_program.pid().to_string());
    assert!(tree.read("a/cgroup.events").starts_with("populated 1\n"));

    let charged = std::fs::read_to_string(tree.group("a/memory.usage_in_bytes"));
    let charged: u64 = charged
        .expect("the kernel's")
        .trim()
        .parse()
        .expect("a number");
    let reported = tree.number("a/memory.current");
    assert!(reported.abs_diff(charged) <= MIB, "{reported} of {charged}");

    // The engine counts as many pages reclaimed as the kernel counts swapped out.
    tree.write("a/memory.reclaim", "16m");
    let stolen = tree.line("a/memory.stat", "pgsteal_anon") * 4096;
    let out = swapped_bytes(&idle_program);
    assert!(stolen > 8 * MIB, "{stolen} bytes left");
    assert!(out.abs_diff(stolen) * 50 <= stolen, "{out} of {stolen}");
    assert_eq!(
        tree.line("a/memory.stat", "pgsteal"),
        tree.line("a/memory.stat", "pgsteal_proactive")
    );
    wait::until(
        "the root, which has nothing else, says the same",
        SOON,
        || tree.read("memory.stat") == tree.read("a/memory.stat"),
    );
    // All pages are swapped in unchanged (a wrong page ends the program), and the number of
    // refaults is the kernel's figure, too.
    let _ = idle_program.touch();
    let still_out = swapped_bytes(&idle_program);
    assert!(still_out * 50 <= out, "{still_out} of {out} are still out");
    let refaults = || tree.line("a/memory.stat", "workingset_refault_anon") * 4096;
    wait::until("they came back", SOON, || refaults() * 100 >= stolen * 98);
}

#[test]
fn requests_are_refused_with_the_kernels_errors() {
    let _serial = serial();
    let tree = Tree::serve(&[]);
    tree.make("a");
    for (file, text, errno) in [
        ("a/memory.max", "", INVALID),
        ("a/memory.max", "much", INVALID),
        ("a/memory.max", "-1", INVALID),
        ("a/memory.low", "1x", INVALID),
        ("a/memory.reclaim", "", INVALID),
        ("a/memory.reclaim", "1m swappiness=300", INVALID),
        ("a/memory.workingset.refresh_interval", "N9=1", INVALID),
        ("node0/workingset_report/page_age_intervals", "5,5", INVALID),
        ("a/cgroup.procs", "x", INVALID),
        ("a/cgroup.procs", "4194305", 3),
        ("a/memory.reclaim", "1g", TRY_AGAIN),
        ("a/memory.max", "\0", INVALID),
        // Root's write to a read-only file fails as on the kernel's own
        // (`tests/guest/63-begins.sh`).
        ("a/memory.stat", "1", INVALID),
        // A file that pagetide does not have, and controllers. (FUSE itself returns ENOSYS.)
        ("a/memory.oom.group", "1", 13),
        ("a/cgroup.subtree_control", "+cpu", 2),
        ("a/cgroup.subtree_control", "+x", INVALID),
    ] {
        // Writing an empty text is no write at all, so a line break is written instead.
        let text = if text.is_empty() { "\n" } else { text };
        assert_eq!(tree.try_write(file, text), Err(errno), "{text:?} > {file}");
    }
    // A file that can only be written cannot be read.
    let read = std::fs::read(tree.at("a/memory.reclaim")).map_err(|error| error.raw_os_error());
    assert_eq!(read, Err(Some(INVALID)));
    let renamed = std::fs::rename(tree.at("a"), tree.at("b"));
    assert_eq!(renamed.map_err(|error| error.raw_os_error()), Err(Some(1)));
    tree.write("a/cgroup.subtree_control", "+memory -cpu");
    tree.write("a/memory.max", "1048577");
    assert_eq!(tree.read("a/memory.max"), "1048576\n", "down to a page");
    // A text with the zero byte that C's sizeof includes is accepted.
    assert_eq!(tree.try_write("a/memory.max", "64m\0"), Ok(()));
    assert_eq!(tree.number("a/memory.max"), 64 * MIB);
    tree.write("a/memory.max", "max");
    let errno = |done: std::io::Result<()>| done.err().and_then(|error| error.raw_os_error());
    assert_eq!(errno(std::fs::create_dir(tree.at("a"))), Some(EXISTS));
    assert_eq!(
        errno(std::fs::create_dir(tree.at("memory.stat"))),
        Some(EXISTS)
    );
    assert_eq!(
        errno(std::fs::remove_file(tree.at("a/memory.max"))),
        Some(NOT_PERMITTED)
    );
    // Scripts set mode and owner after each mkdir: chmod and chown that change nothing succeed.
    let mode = |mode| std::fs::set_permissions(tree.at("a"), PermissionsExt::from_mode(mode));
    let chown = |id| std::os::unix::fs::chown(tree.at("a"), Some(id), Some(id));
    assert_eq!((errno(mode(0o755)), errno(chown(0))), (None, None));
    let refused = Some(NOT_PERMITTED);
    assert_eq!(
        (errno(mode(0o777)), errno(chown(65534))),
        (refused, refused)
    );
    tree.make("a/b");
    assert_eq!(errno(std::fs::remove_dir(tree.at("a"))), Some(BUSY));
    // A file of a removed tenant that was opened before.
    let open = std::fs::File::open(tree.at("a/b/memory.current")).expect("it is there");
    std::fs::remove_dir(tree.at("a/b")).expect("nobody is in it");
    tree.make("a/b");
    let error = std::io::read_to_string(open).expect_err("it was of another tenant");
    assert_eq!(error.raw_os_error(), Some(19), "ENODEV");
}

/// The kernel caches the names of tenants; `serve` must invalidate those that were removed.
#[test]
fn a_tenant_removed_in_the_kernels_directory_is_gone() {
    let _serial = serial();
    let tree = Tree::serve(&["--age-every", "200ms"]);
    tree.make("a");
    for _ in 0..3 {
        tree.make("a/b");
        assert!(tree.read("a/b/memory.stat").contains("pgsteal"));
        let open = std::fs::File::open(tree.at("a/b/memory.current")).expect("it is there");
        std::fs::remove_dir(tree.group("a/b")).expect("nobody is in it");
        wait::until("its name is gone", SOON, || !tree.at("a/b").exists());
        let error = std::fs::read(tree.at("a/b/memory.stat")).expect_err("it is gone");
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        let error = std::io::read_to_string(open).expect_err("it was open");
        assert_eq!(error.raw_os_error(), Some(19), "ENODEV");
        assert!(tree.at("a").exists());
    }
}

#[test]
fn a_limit_holds_and_the_program_is_as_it_was() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "1s"]);
    tree.make("a");
    let idle_program = start_scanned(&tree, "a", 128);
    tree.write("a/memory.max", "64m");
    wait::until("it is below its limit", SOON, || {
        tree.number("a/memory.current") <= 64 * MIB
    });
    // The kernel has the hard limit, too.
    let limit = || std::fs::read_to_string(tree.group("a/memory.limit_in_bytes"));
    wait::until("its wall stands", SOON, || {
        limit().is_ok_and(|text| text.trim() == (64 * MIB).to_string())
    });
    for _ in 0..3 {
        let _ = idle_program.touch();
        assert!(tree.number("a/memory.current") <= 64 * MIB);
    }
    assert_eq!(tree.line("a/memory.events", "oom_kill"), 0);
    // `max` in memory.events counts only charges that met the limit in the kernel, not pages that
    // came since a scan.
    let hits = || std::fs::read_to_string(tree.group("a/memory.failcnt")).expect("version 1");
    let hits = || hits().trim().parse::<u64>().expect("a number");
    let (before, max, after) = (hits(), tree.line("a/memory.events", "max"), hits());
    assert!(
        (before..=after).contains(&max),
        "{max}, the kernel {before} to {after}"
    );
}

/// Regression: a job was killed and then its tenant removed, and its kill was missing in the events
/// of the tenants above.
#[test]
fn a_kill_stays_in_the_events_of_the_tenants_above() {
    let _serial = serial();
    let tree = Tree::serve(&["--age-every", "1s"]);
    tree.make("a");
    tree.make("a/b");
    tree.write("a/b/memory.max", "16m");
    tree.write("a/b/memory.swap.max", "0");
    let words = ["/usr/bin/python3", "-c", "b'x' * (64 << 20)"].map(str::to_owned);
    let killed = Run::new(tree.inside("a/b").into_iter().chain(words)).finish(SOON);
    assert!(!killed.status.success(), "{}", killed.stderr);
    let events = || ["oom_kill", "max"].map(|name| tree.line("a/memory.events", name));
    let [kills, hits] = events();
    // Without swap a charge first meets the limit of memory and swap together, which has its own
    // counter.
    assert!(kills > 0, "{kills}, {hits}");
    std::fs::remove_dir(tree.at("a/b")).expect("nobody is there");
    let after = events();
    assert!(after[0] == kills && after[1] >= hits, "{after:?}");
    assert_eq!(tree.line("a/memory.events.local", "oom_kill"), 0);
}

/// Regression: `serve` sets a memory limit below the usage later. On version 1 a swap limit can
/// only be set after the memory limit, and was forgotten.
#[test]
fn a_swap_limit_is_set_after_the_memory_limit() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "1s"]);
    tree.make("a");
    let idle_program = start_scanned(&tree, "a", 96);
    tree.write("a/memory.max", "48m");
    tree.write("a/memory.swap.max", "80m");
    let limit = |name: &str| {
        let text = std::fs::read_to_string(tree.group(&format!("a/{name}")));
        text.ok().and_then(|text| text.trim().parse::<u64>().ok())
    };
    wait::until("its wall stands", SOON, || {
        limit("memory.limit_in_bytes") == Some(48 * MIB)
    });
    wait::until("that of swap, too", SOON, || {
        limit("memory.memsw.limit_in_bytes") == Some(128 * MIB)
    });
    let _ = idle_program.touch();
}

/// While neighbours can be reclaimed from, memory.min is never violated, and memory.low only when
/// no unprotected memory is left.
#[test]
fn a_protected_tenant_keeps_its_pages_while_neighbours_have_some() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "1s"]);
    for name in ["min", "low", "plain"] {
        tree.make(name);
    }
    let [min, low, plain] = ["min", "low", "plain"].map(|name| start_scanned(&tree, name, 64));
    tree.write("min/memory.min", "96m");
    tree.write("low/memory.low", "96m");
    tree.write("memory.reclaim", "48m");
    let out = [&min, &low, &plain].map(swapped_bytes);
    assert!(out[2] > 32 * MIB, "{out:?}");
    assert_eq!(out[..2], [0, 0], "while another had enough");
    // Now the unprotected tenants together have less than is requested.
    let requested = tree.try_write("memory.reclaim", "64m");
    let out = [&min, &low, &plain].map(swapped_bytes);
    assert_eq!(out[0], 0, "{requested:?}, {out:?}");
    assert!(out[1] > 0, "{requested:?}, {out:?}: low is no wall");
    for one in [&min, &low, &plain] {
        let _ = one.touch();
    }
}

/// Edges of age bins are settings of the root. Regression: if `serve` ended in order without a
/// tenant, they were lost.
#[test]
fn settings_of_an_empty_tree_outlive_serve() {
    let _serial = serial();
    let mut tree = Tree::serve(&[]);
    tree.write("node0/workingset_report/page_age_intervals", "1000,2000");
    tree.end();
    tree.start();
    let bins = |tree: &Tree| tree.read("node0/workingset_report/page_age_intervals");
    assert_eq!(bins(&tree), "1000,2000\n");
    tree.write("node0/workingset_report/page_age_intervals", "\n");
    tree.end();
    assert!(!tree.group("").exists(), "nothing is kept of nothing");
}

/// Regression: when the service was restarted, `pagetide report --watch` of a tenant ended with
/// exit code 0 instead of waiting for the service.
#[test]
fn a_report_series_of_a_tenant_waits_for_a_restarted_serve() {
    let _serial = serial();
    let mut tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("a");
    let words = [
        "report",
        "--watch=500ms",
        "--json",
        "/a",
        "--root",
        tree.root(),
    ];
    let words = words.map(str::to_owned);
    let mut log = pagetide::command(words).start();
    let lines = |log: &e2e::guard::Running| log.stdout().lines().count();
    wait::until("a line", SOON, || lines(&log) > 0);
    tree.end();
    std::thread::sleep(Duration::from_secs(3));
    tree.start();
    let before = lines(&log);
    wait::until("another one", SOON, || lines(&log) > before + 1);
    assert!(log.ended().is_none());
}

/// Regression: each `run` in a tenant added a line to the journal. And when a `run` was killed with
/// its guard, its hard-limit cgroup stayed a tenant for ever.
#[test]
fn the_hard_limit_cgroup_of_a_run_is_no_tenant() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("a");
    let run = [
        &pagetide::binary(),
        "run",
        "--memory-max",
        "64M",
        "--",
        "sleep",
        "600",
    ];
    let run = Run::new(run).under(tree.inside("a")).start();
    let hard_limit = || {
        let mut below = std::fs::read_dir(tree.group("a")).expect("it is there");
        below.find_map(|one| {
            let path = one.ok()?.path();
            let is_hard_limit = path.file_name()?.to_str()?.starts_with("pagetide-");
            is_hard_limit.then_some(path)
        })
    };
    wait::until("the wall", SOON, || hard_limit().is_some());
    // When a process that began after the hard-limit cgroup is known, a scan has seen both.
    let later = IdleProgram::start(tree.inside("a"), 16);
    wait::until("a look", SOON, || {
        tree.line("a/memory.stat", "anon") >= 16 << 20
    });
    let said = tree.stdout();
    assert!(!said.contains("is not managed"), "{said}");
    let name = hard_limit().expect("it stands");
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    assert!(!tree.at(&format!("a/{name}")).exists(), "a tenant");
    let made = std::fs::create_dir(tree.at("a/pagetide-7-8"));
    assert_eq!(
        made.map_err(|error| error.raw_os_error()),
        Err(Some(INVALID))
    );
    drop((run, later));
}

/// After `serve` was killed at any time, or upgraded, the programs go on, and the next `serve`,
/// also from another executable, has the same tenants with the same limits.
#[test]
fn a_killed_one_is_followed_by_the_next() {
    let _serial = serial();
    let _swap = Swap::shared();
    let mut chance = Chance::from_env("a_killed_one_is_followed_by_the_next");
    let mut tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("a");
    tree.make("a/b");
    let idle_program = start_scanned(&tree, "a/b", 96);
    tree.write("a/memory.max", "64m");
    tree.write("a/b/memory.low", "8m");
    tree.write("node0/workingset_report/page_age_intervals", "1000,3000");
    tree.write("a/b/memory.workingset.refresh_interval", "N0=500");
    tree.write("a/b/memory.workingset.report_threshold", "N0=700");
    // An upgrade replaces the executable of the old `serve` while that still runs.
    let folder = TempDir::new();
    let installed = folder.file("pagetide");
    for _ in 0..4 {
        let new = folder.file("new");
        std::fs::copy(pagetide::binary(), &new).expect("there is room");
        std::fs::rename(&new, &installed).expect("the same folder");
        // The program exceeds its limit only while a `serve` is there. Regression (of this test):
        // it did so after the end of `serve`, too, and was gone once: under the kernel's limit of
        // version 1 alone, the kernel may kill (docs/known-gaps-detail.md, "Hard limits").
        let _ = idle_program.touch();
        std::thread::sleep(chance.millis(0, 700));
        tree.kill();
        tree.start_by(&installed);
        assert_eq!(tree.number("a/memory.max"), 64 * MIB);
        assert_eq!(tree.number("a/b/memory.low"), 8 * MIB);
        // The settings of reports are as before, too.
        let bins = tree.read("node0/workingset_report/page_age_intervals");
        assert_eq!(bins, "1000,3000\n");
        let report = tree.read("a/b/memory.workingset.page_age");
        assert_eq!(
            report.lines().filter(|line| line.contains("anon=")).count(),
            3
        );
        let [refresh, threshold] = ["refresh_interval", "report_threshold"]
            .map(|name| tree.read(&format!("a/b/memory.workingset.{name}")));
        assert_eq!((refresh.trim(), threshold.trim()), ("N0=500", "N0=700"));
        assert_eq!(
            tree.read("a/b/cgroup.procs").trim(),
            idle_program.pid().to_string()
        );
        wait::until("the limit holds again", SOON, || {
            tree.number("a/memory.current") <= 64 * MIB
        });
    }
    // Regression (of this test): `memory.max` alone limited the pages touched before the kill, and
    // the last `serve` ended before it had anything to reclaim.
    let held = "/a: over memory.high, or too close to memory.max";
    let _ = idle_program.touch();
    wait::until("it holds the limit itself", SOON, || {
        tree.stdout().contains(held)
    });
    assert!(tree.end().contains(held));
    assert!(proc::is_alive(idle_program.pid()) && tree.group("a/b").is_dir());
    std::fs::write(tree.group("a").join("memory.limit_in_bytes"), "-1").expect("it is ours");
    let _ = idle_program.touch();
}

#[test]
fn a_second_serve_is_refused_and_the_first_goes_on() {
    let _serial = serial();
    let tree = Tree::serve(&[]);
    let root = tree.group("").display().to_string();
    let name = root
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let second = pagetide::command(["serve", "--root", name]).finish(SOON);
    assert_eq!(second.status.code(), Some(1), "{}", second.stderr);
    assert!(
        second.stderr.contains("another pagetide serve manages it"),
        "{}",
        second.stderr
    );
    tree.make("a");
    assert!(tree.group("a").is_dir());
    // Regression: a `serve` with another root was mounted over the first one, and when it ended,
    // the files of the second one disappeared.
    let (root, mount) = (format!("{}-other", tree.root()), tree.at(""));
    let mount = mount.to_string_lossy();
    let mount = mount.trim_end_matches('/');
    let words = ["serve", "--host", "none", "--root", &root, "--mount", mount];
    let third = pagetide::command(words).finish(SOON);
    assert_eq!(third.status.code(), Some(1), "{}", third.stderr);
    assert!(
        third.stderr.contains("are mounted there"),
        "{}",
        third.stderr
    );
    assert!(!tree.group("").with_file_name(&root).exists(), "{root}");
    assert_eq!(tree.read("a/memory.current").trim(), "0");
}

/// If its mount is removed, `serve` ends and says why. Regression: `serve` went on without files,
/// printed nothing, and used a whole processor.
#[test]
fn a_serve_whose_mount_is_removed_ends_and_says_why() {
    let _serial = serial();
    let mut tree = Tree::serve(&[]);
    let mount = tree.at("").to_string_lossy().into_owned();
    let done = Run::new(["umount", "--lazy", mount.trim_end_matches('/')]).finish(SOON);
    assert!(done.status.success(), "{}", done.stderr);
    let outcome = tree.wait(SOON);
    assert_eq!(outcome.status.code(), Some(1), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("not mounted any more"),
        "{}",
        outcome.stderr
    );
}

/// Tenants are made and removed, their files are read, and invalid values are written to them:
/// other tenants are unaffected.
#[test]
fn abuse_does_not_affect_other_tenants() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "200ms"]);
    tree.make("kept");
    let kept = start_scanned(&tree, "kept", 16);
    let before = proc::number(tree.pid(), "VmRSS").unwrap_or(0);
    for round in 0..300 {
        let name = format!("t{}", round % 7);
        tree.make(&name);
        for file in std::fs::read_dir(tree.at(&name))
            .expect("it is there")
            .flatten()
        {
            let _ = std::fs::read(file.path());
            let _ = std::fs::write(file.path(), "\0\u{7f}9999999999999999999999,=N");
        }
        if round % 50 == 0 {
            let guest = IdleProgram::start(tree.inside(&name), 1);
            let removed = std::fs::remove_dir(tree.at(&name));
            assert_eq!(
                removed.err().and_then(|error| error.raw_os_error()),
                Some(BUSY)
            );
            drop(guest);
        }
        wait::until("it is removed", SOON, || {
            std::fs::remove_dir(tree.at(&name)).is_ok()
        });
    }
    let grown = proc::number(tree.pid(), "VmRSS")
        .unwrap_or(0)
        .saturating_sub(before);
    assert!(grown < 16 * MIB, "grew by {grown} bytes");
    let left = std::fs::read_dir(tree.at("")).expect("the root").flatten();
    let tenants = left.filter(|entry| entry.path().join("memory.min").exists());
    assert_eq!(tenants.count(), 1);
    let _ = kept.touch();
}
