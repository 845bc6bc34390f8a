//! `pagetide serve` with the control groups of the host: it watches them, and changes them only
//! where the configuration allows that. In these tests a group of the test plays the host.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::memcg::MemoryGroup;
use e2e::page_cache::{file, read_by, reading};
use e2e::temp::{TempDir, serial};
use e2e::tenants::{Tree, configuration};
use e2e::user::{self, ANOTHER};
use e2e::zram::Swap;
use e2e::{pagetide, proc, programs, wait};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);

/// EPERM.
const NOT_PERMITTED: i32 = 1;
/// EAGAIN: less was reclaimed than requested.
const TRY_AGAIN: i32 = 11;

/// Starts an idle program of `mib` MiB in a group of the host.
fn inside(group: &MemoryGroup, mib: u64) -> IdleProgram {
    let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
    let path = group.path();
    IdleProgram::start(["sh", "-c", script, &path].map(str::to_owned), mib)
}

/// The error number of a failed call; `None` if the call succeeded.
fn errno(done: std::io::Result<()>) -> Option<i32> {
    done.err().and_then(|error| error.raw_os_error())
}

/// The group's name: the last part of its path.
fn name(group: &MemoryGroup) -> String {
    let name = group.name();
    name.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Bytes of anonymous memory of a tenant, in its memory.stat.
fn anon(tree: &Tree, tenant: &str) -> u64 {
    tree.line(&format!("{tenant}/memory.stat"), "anon")
}

/// Checks that the interval of reports, on or off, is the same after a restart.
///
/// Regression: settings of a group that `serve` may not change could not be stored in it, and after
/// a restart its reports were off.
fn check_interval_after_restart(tree: &mut Tree, at: &str) {
    let requested = format!("{at}/memory.workingset.refresh_interval");
    for interval in ["N0=500", "N0=0"] {
        tree.write(&requested, interval);
        tree.kill();
        tree.start();
        assert_eq!(tree.read(&requested).trim_end(), interval);
    }
}

/// Regression: a user set the ownership xattr on a control group of its own, and `serve` silently
/// skipped all processes in it.
#[test]
fn a_group_with_a_users_xattr_is_scanned_and_one_with_roots_is_reported() {
    const MARK: &str = "import os, sys\nos.setxattr(sys.argv[1], 'user.pagetide.wall.shown', b'1')";
    let _serial = serial();
    let host = MemoryGroup::new();
    let group = host.below();
    let _idle_program = inside(&group, 16);
    let path = group.path();
    let owned_by = |user| std::os::unix::fs::chown(&path, Some(user), Some(user)).expect("as root");
    owned_by(ANOTHER);
    let marked = user::run(ANOTHER, ["/usr/bin/python3", "-c", MARK, &path]).finish(SOON);
    assert!(marked.status.success(), "{}", marked.stderr);
    let serve = || Tree::serve_host(&host, &["--age-every", "500ms"]);
    let tree = serve();
    let at = format!("host/{}", name(&group));
    wait::until("its pages are known", SOON, || anon(&tree, &at) >= 16 * MIB);
    assert!(!tree.stdout().contains("is left out"), "{}", tree.stdout());
    drop(tree);
    // On a group of root's, the same xattr means that a manager of pagetide made the group.
    owned_by(0);
    let tree = serve();
    let line = format!("{} is left out: another pagetide made", name(&group));
    wait::until("the log says so", SOON, || tree.stdout().contains(&line));
    assert!(!tree.at(&at).exists());
    let report = [
        "report",
        "/",
        "--for",
        "1s",
        "--json",
        "--root",
        tree.root(),
    ];
    let reported = pagetide::command(report).finish(SOON);
    assert!(
        reported.stdout.contains(&line),
        "{}{}",
        reported.stdout,
        reported.stderr
    );
}

#[test]
fn groups_of_the_host_are_watched_and_never_changed() {
    let _serial = serial();
    let _swap = Swap::shared();
    let host = MemoryGroup::new();
    let early = host.below();
    let first = inside(&early, 48);
    let mut tree = Tree::serve_host(&host, &["--age-every", "500ms"]);
    let at = format!("host/{}", name(&early));
    wait::until("its pages are known", SOON, || anon(&tree, &at) >= 48 * MIB);
    assert_eq!(
        tree.read(&format!("{at}/cgroup.procs")).trim(),
        first.pid().to_string()
    );
    // A group that is made while `serve` runs, and then removed.
    let late = host.below();
    let second = inside(&late, 16);
    let at_late = format!("host/{}", name(&late));
    wait::until("it is found", SOON, || {
        tree.at(&at_late).is_dir() && anon(&tree, &at_late) >= 16 * MIB
    });
    // The sum of all groups.
    wait::until("host has the sum", SOON, || anon(&tree, "host") >= 64 * MIB);
    drop(second);
    drop(late);
    wait::until("it is gone", SOON, || !tree.at(&at_late).exists());

    for file in ["memory.reclaim", "memory.max", "memory.low", "cgroup.procs"] {
        let refused = tree.try_write(&format!("{at}/{file}"), "1048576");
        assert_eq!(refused, Err(NOT_PERMITTED), "{file}");
    }
    assert_eq!(
        errno(std::fs::create_dir(tree.at("host/x"))),
        Some(NOT_PERMITTED)
    );
    assert_eq!(
        errno(std::fs::remove_dir(tree.at(&at))),
        Some(NOT_PERMITTED)
    );
    assert_eq!(
        errno(std::fs::remove_dir(tree.at("host"))),
        Some(NOT_PERMITTED)
    );
    // Reports of ages are allowed, because they change nothing on the host.
    tree.write(
        &format!("{at}/memory.workingset.refresh_interval"),
        "N0=500",
    );
    assert!(
        tree.read(&format!("{at}/memory.workingset.page_age"))
            .contains("anon=")
    );

    check_interval_after_restart(&mut tree, &at);

    // A reclaim of the root takes memory of tenants made by `serve` only, none of the host's.
    assert_eq!(tree.try_write("memory.reclaim", "8m"), Err(TRY_AGAIN));
    assert_eq!(first.status("VmSwap"), 0);
    tree.make("made");
    let made = IdleProgram::start(tree.inside("made"), 48);
    wait::until("it is known", SOON, || anon(&tree, "made") >= 48 * MIB);
    tree.write("memory.reclaim", "16m");
    assert!(made.status("VmSwap") > 8 * MIB);
    assert_eq!(first.status("VmSwap"), 0);
    let _ = (first.touch(), made.touch());
}

#[test]
fn with_manage_host_groups_of_the_host_are_managed_as_made_tenants() {
    let _serial = serial();
    let _swap = Swap::shared();
    let host = MemoryGroup::new();
    let group = host.below();
    let program = inside(&group, 64);
    let mut tree = Tree::serve_host(&host, &["--age-every", "500ms", "--manage-host"]);
    let at = format!("host/{}", name(&group));
    wait::until("its pages are known", SOON, || anon(&tree, &at) >= 64 * MIB);
    tree.write(&format!("{at}/memory.reclaim"), "16m");
    let stolen = tree.line(&format!("{at}/memory.stat"), "pgsteal_anon") * 4096;
    let out = program.status("VmSwap");
    assert!(
        stolen > 8 * MIB && out.abs_diff(stolen) * 50 <= stolen,
        "{out} of {stolen}"
    );
    // The limit is set in the kernel, and stays set when `serve` has ended.
    tree.write(&format!("{at}/memory.max"), "40m");
    let limit = || group.number("memory.limit_in_bytes");
    wait::until("its wall stands", SOON, || limit() == 40 * MIB);
    let _ = program.touch();
    tree.kill();
    assert_eq!(limit(), 40 * MIB);
    let _ = program.touch();
    tree.start();
    assert_eq!(tree.number(&format!("{at}/memory.max")), 40 * MIB);
    tree.write(&format!("{at}/memory.max"), "max");
    wait::until("it is lifted", SOON, || limit() > 1 << 60);
    // A group made through the mount is the host's, and can be removed there.
    tree.make("host/x");
    assert!(std::path::Path::new(&host.path()).join("x").is_dir());
    std::fs::remove_dir(tree.at("host/x")).expect("nobody is in it");
    assert!(!std::path::Path::new(&host.path()).join("x").exists());
}

/// Regression: with the right to change the host's groups, a policy of such a group silently did
/// nothing.
#[test]
fn a_policy_of_a_host_group_pages_out_its_cold_memory() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (host, folder) = (MemoryGroup::new(), TempDir::new());
    let (group, other) = (host.below(), host.below());
    let cold = "policy = { by = \"cold-age\", older-than = \"1s\", every = \"1s\" }";
    let text = format!(
        "age-every = \"500ms\"\nmanage-host = true\n{cold}\n[tenants.\"host/{}\"]\n{cold}\n[tenants.\"host/misspelt\"]\n{cold}\n",
        name(&group)
    );
    let config = configuration(&folder, &text);
    let (theirs, others) = (inside(&group, 32), inside(&other, 32));
    let tree = Tree::serve_host(&host, &["--config", &config]);
    // A group that is in the configuration but does not exist is reported at each start and reload.
    let is_missing = "/host/misspelt is not there";
    let said = |times| tree.stdout().matches(is_missing).count() == times;
    assert!(said(1), "{}", tree.stdout());
    let is_there = format!("/host/{} is not there", name(&group));
    assert!(!tree.stdout().contains(&is_there), "{}", tree.stdout());
    e2e::guard::send(tree.pid(), Signal::HUP);
    wait::until("it is told once more", SOON, || said(2));
    wait::until("what is cold has left", SOON, || {
        theirs.status("VmSwap") > 30 * MIB
    });
    assert_eq!(
        others.status("VmSwap"),
        0,
        "what all are given is not the host's"
    );
    let reported = format!("pages of /host/{}", name(&group));
    wait::until("it is said", SOON, || tree.stdout().contains(&reported));
    let _ = (theirs.touch(), others.touch());
}

/// Regression: setting one limit below `host/` wrote all limits, so the host's limit on memory and
/// swap together was lost.
///
/// Regression: after setting a soft limit, all limits were lost at the next start.
///
/// Regression: an old copy of the host's limit was restored over a limit that the host set later.
#[test]
fn settings_that_were_not_changed_stay_the_hosts() {
    const MAX: &str = "memory.limit_in_bytes";
    const BOTH: &str = "memory.memsw.limit_in_bytes";
    let _serial = serial();
    let host = MemoryGroup::new();
    let group = host.below();
    let give = |file: &str, mib: u64| {
        let path = format!("{}/{file}", group.path());
        std::fs::write(path, (mib * MIB).to_string()).expect("it is the test's");
    };
    give(MAX, 64);
    give(BOTH, 96);
    let mut tree = Tree::serve_host(&host, &["--age-every", "500ms", "--manage-host"]);
    let at = format!("host/{}", name(&group));
    let file = |name: &str| format!("{at}/{name}");
    assert_eq!(tree.number(&file("memory.max")), 64 * MIB);
    assert_eq!(tree.number(&file("memory.swap.max")), 32 * MIB);
    tree.write(&file("memory.low"), "8m");
    tree.write(&file("memory.soft_limit"), "16m");
    let now = || [MAX, BOTH].map(|file| group.number(file) / MIB);
    assert_eq!(now(), [64, 96]);
    tree.kill();
    give(BOTH, 200);
    give(MAX, 128);
    tree.start();
    assert_eq!(tree.number(&file("memory.low")), 8 * MIB);
    assert_eq!(tree.number(&file("memory.soft_limit")), 16 * MIB);
    assert_eq!(now(), [128, 200]);
    assert_eq!(tree.number(&file("memory.max")), 128 * MIB);
    // A limit set through pagetide changes no other, and the swap that it allows stays the same.
    tree.write(&file("memory.max"), "100m");
    assert_eq!(now(), [100, 172]);
    tree.kill();
    tree.start();
    assert_eq!(now(), [100, 172]);
    tree.write(&file("memory.max"), "max");
    assert!(group.number(MAX) > 1 << 60);
}

/// A `serve` that is killed during a reclaim by the kernel leaves a lowered limit and a swappiness
/// of 1 in the group. (The test sets both, as if it had been killed.)
///
/// Regression: the next `serve` did not restore them.
#[test]
fn a_limit_that_a_killed_serve_lowered_is_restored() {
    let _serial = serial();
    let host = MemoryGroup::new();
    let group = host.below();
    let usual = group.number("memory.swappiness");
    let leave = |note: &str| {
        for (file, value) in [
            ("memory.limit_in_bytes", "8388608"),
            ("memory.swappiness", "1"),
        ] {
            std::fs::write(format!("{}/{file}", group.path()), value).expect("it is the test's");
        }
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(
            group.path(),
            "trusted.pagetide.lowered",
            note.as_bytes(),
            flags,
        )
        .expect("it takes notes");
    };
    for (note, limit) in [
        (format!("{} {usual}", 64 * MIB), 64 * MIB),
        (format!("-1 {usual}"), 0x7fff_ffff_ffff_f000),
    ] {
        leave(&note);
        let tree = Tree::serve_host(&host, &["--age-every", "500ms"]);
        wait::until("it is found", SOON, || {
            tree.at(&format!("host/{}", name(&group))).exists()
        });
        assert_eq!(group.number("memory.limit_in_bytes"), limit);
        assert_eq!(group.number("memory.swappiness"), usual);
    }
}

/// The budget of the host counts all of its groups, if `serve` manages them.
///
/// Regression: it counted only tenants made by `serve`. Nothing was reclaimed from groups of the
/// host for it, and their protection had no effect (here `host` is their parent, and has no
/// protection to distribute).
#[test]
fn the_budget_counts_all_groups_of_a_managed_host() {
    let _serial = serial();
    let _swap = Swap::shared();
    for manages in [true, false] {
        let host = MemoryGroup::new();
        let [plain, kept] = [host.below(), host.below()];
        let (first, second) = (inside(&plain, 96), inside(&kept, 48));
        let mut options = vec!["--age-every", "500ms"];
        options.extend(manages.then_some("--manage-host"));
        let tree = Tree::serve_host(&host, &options);
        tree.make("made");
        let made = IdleProgram::start(tree.inside("made"), 96);
        let known = || anon(&tree, "made") >= 96 * MIB && anon(&tree, "host") >= 144 * MIB;
        wait::until("all are known", SOON, known);
        // At first pagetide does not know which pages of a new tenant are in use.
        wait::until("it is idle", SOON, || {
            tree.try_write("made/memory.reclaim", "8m").is_ok()
        });
        if manages {
            tree.write(&format!("host/{}/memory.low", name(&kept)), "64m");
        }
        // Used bytes: the charge of the group above all groups, counted once; where the host is
        // excluded, the root's own. (The limit is so low that no single tenant is large enough for
        // it: the memcg LRU reclaims from one tenant at a time.)
        let limit = if manages { 104 * MIB } else { 64 * MIB };
        let used = || match manages {
            true => host.number("memory.usage_in_bytes"),
            false => tree.number("made/memory.current"),
        };
        assert!(used() > limit, "{}", used());
        let all = [&first, &second, &made];
        let before = all.map(|one| one.status("VmSwap"));
        tree.write("memory.max", &limit.to_string());
        wait::until("the budget holds", SOON, || used() <= limit);
        let out = all.map(|one| one.status("VmSwap"));
        let gives = [0, 1, 2].map(|one| out[one] > before[one] + 8 * MIB);
        assert_eq!(gives, [manages, false, true], "{out:?} after {before:?}");
        assert!(manages || out[0] == 0, "{out:?}");
        let _ = (first.touch(), second.touch(), made.touch());
    }
}

/// On a host with a `serve`, only its own manager scans a program under `run`: if two processes
/// clear accessed bits, neither knows ages.
#[test]
fn a_program_with_its_own_manager_is_not_scanned() {
    let _serial = serial();
    let _swap = Swap::shared();
    let host = MemoryGroup::new();
    let group = host.below();
    let options = ["--memory-max", "1G", "--age-every", "500ms"];
    let run = pagetide::run(
        &options,
        &e2e::guard::Run::new([programs::c("sleeper"), "64".to_owned()]),
    );
    let running = group.run(&run).start();
    wait::until("it is filled", SOON, || running.stdout().contains("ready"));
    let other = inside(&group, 16);
    let tree = Tree::serve_host(&host, &["--age-every", "500ms"]);
    let at = format!("host/{}", name(&group));
    wait::until("the other is known", SOON, || anon(&tree, &at) >= 16 * MIB);
    std::thread::sleep(Duration::from_millis(1500));
    let seen = anon(&tree, "host");
    assert!(
        seen < 60 * MIB,
        "{seen} bytes: what is managed is looked at"
    );
    drop((other, running));
}

/// Regression: beside a `serve` that scans the whole host, `reclaim` of an idle program printed
/// "put out 0 B, stayed: all, accessed meanwhile". It had ended before the next scan, at which
/// `serve` releases the program.
#[test]
fn serve_releases_a_program_before_a_reclaim_command() {
    let _serial = serial();
    let _swap = Swap::shared();
    let host = MemoryGroup::new();
    let group = host.below();
    let program = inside(&group, 48);
    let tree = Tree::serve_host(&host, &["--age-every", "2s"]);
    let at = format!("host/{}", name(&group));
    wait::until("serve looks at it", SOON, || anon(&tree, &at) >= 48 * MIB);
    // Some of the paged-out pages are file pages, which are not in VmSwap.
    for (what, least) in [("16M", 15 * MIB), ("--all", 44 * MIB)] {
        let pid = program.pid().to_string();
        let outcome = pagetide::command(["reclaim", &pid, what]).finish(SOON);
        assert_eq!(outcome.status.code(), Some(0), "{what}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains("another pagetide scans pid"),
            "{what}: it had nothing to wait for: {}",
            outcome.stderr
        );
        let out = program.status("VmSwap");
        assert!(out >= least, "{what}: {out} bytes: {}", outcome.stdout);
        wait::until("serve has it again", SOON, || anon(&tree, &at) > 0);
        // Between the two commands `serve` must claim the program again.
        wait::until("serve has claimed it", SOON, || {
            proc::is_claimed(program.pid())
        });
    }
    let _ = program.touch();
}

/// A reclaim of the host's groups takes nothing from tenants that `serve` made below them.
#[test]
fn a_reclaim_of_the_host_keeps_page_cache_of_made_tenants() {
    let _serial = serial();
    let _swap = Swap::shared();
    let host = MemoryGroup::new();
    let tree = Tree::serve_host(&host, &["--age-every", "500ms", "--manage-host"]);
    tree.make("db");
    let folder = e2e::temp::TempDir::new();
    read_by(&tree, "db", &file(&folder, 48));
    tree.write("db/memory.low", "64m");
    // The same is true if reports are on, though page cache is then reclaimed first.
    tree.write("host/memory.workingset.refresh_interval", "N0=500");
    std::thread::sleep(Duration::from_secs(2));
    let _ = tree.try_write("host/memory.reclaim", "64m");
    let cache = tree.kernel_stat("db", "total_cache");
    assert!(cache > 44 * MIB, "{cache} bytes are left");
}

/// A reclaim of a group of the host takes nothing from the hard-limit cgroup of a `run` further
/// down, which is its manager's.
#[test]
fn a_reclaim_of_an_upper_group_excludes_a_hard_limit_cgroup_below() {
    let _serial = serial();
    let _swap = Swap::shared();
    let host = MemoryGroup::new();
    let upper = host.below();
    let group = upper.below();
    let folder = e2e::temp::TempDir::new();
    let script = format!("{}; echo ready; sleep 60", reading(&file(&folder, 48)));
    let program = Run::new(["sh", "-c", &script]);
    let managed = group.run(&pagetide::run(&["--memory-max", "200M"], &program));
    let managed = managed.start();
    wait::until("it has read", SOON, || managed.stdout().contains("ready"));
    let hard_limit = e2e::kills::hard_limit_of(managed.pid()).expect("it has one");
    let tree = Tree::serve_host(&host, &["--age-every", "500ms", "--manage-host"]);
    let file = format!("host/{}/memory.reclaim", name(&upper));
    wait::until("serve knows it", SOON, || tree.at(&file).exists());
    let _ = tree.try_write(&file, "64m");
    let text = std::fs::read_to_string(hard_limit.join("memory.stat")).expect("the kernel's");
    let cache = text
        .lines()
        .find_map(|line| line.strip_prefix("total_cache "));
    let cache: u64 = cache
        .and_then(|bytes| bytes.parse().ok())
        .expect("a number");
    assert!(cache > 44 * MIB, "{cache} bytes are left");
}

#[test]
fn a_root_elsewhere_is_refused_before_anything_is_made() {
    let _serial = serial();
    let host = MemoryGroup::new();
    let elsewhere = format!("pagetide-e2e-elsewhere-{}", std::process::id());
    let words = ["serve", "--host", &host.name(), "--root", &elsewhere];
    let outcome = pagetide::command(words).finish(SOON);
    assert_eq!(outcome.status.code(), Some(1), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("is not below"),
        "{}",
        outcome.stderr
    );
    let made = std::path::Path::new("/sys/fs/cgroup/memory").join(elsewhere);
    assert!(!made.exists());
}
