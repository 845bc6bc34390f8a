//! Limits of tenants as the kernel has them: lowered below what is in use, beside page cache, and what it does not take.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use e2e::guard::Run;
use e2e::page_cache::{file, read_by};
use e2e::sleeper::Sleeper;
use e2e::swap_file::SwapFile;
use e2e::temp::{TempDir, serial};
use e2e::tenants::{Tree, WAITS};
use e2e::wait;
use e2e::zram::Swap;
use e2e::{proc, programs};

const MIB: u64 = 1 << 20;
/// What anything here may take beside a busy machine.
const SOON: Duration = Duration::from_secs(60);

const MAX: &str = "memory.limit_in_bytes";
const USAGE: &str = "memory.usage_in_bytes";

/// What a file of the tenant's group (version 1) says, bytes.
fn of_kernel(tree: &Tree, tenant: &str, file: &str) -> u64 {
    let text = std::fs::read_to_string(tree.group(tenant).join(file));
    let text = text.unwrap_or_else(|error| panic!("{tenant}/{file}: {error}"));
    text.trim().parse().expect("a number")
}

/// (The story: what a disk has taken is charged until somebody needs the memory, so all of a tenant went there for a limit that a part was over, by
/// whichever file it was given.)
#[test]
fn no_more_goes_to_a_disk_than_a_limit_asks_for() {
    let _serial = serial();
    let _swap = SwapFile::new(512);
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("a");
    let sleeper = Sleeper::start(tree.inside("a"), 192);
    let out = || sleeper.status("VmSwap") / MIB;
    for (file, limit) in [("a/memory.max", 160), ("a/memory.high", 112)] {
        tree.write(file, &format!("{limit}m"));
        wait::until("it is held", SOON, || {
            tree.number("a/memory.current") <= limit * MIB
        });
        // It is measured again and again.
        std::thread::sleep(Duration::from_secs(3));
        let most = 192 + 16 - limit + 32;
        assert!(out() <= most, "{} of {most} MiB are out", out());
    }
    drop(sleeper);
}

/// (The story: what was above a lowered limit was page cache, which was left to the kernel, to drop at its wall; and no wall was put, as too much was
/// charged. It was said to be limited, and grew without end.)
#[test]
fn a_lowered_limit_takes_its_place_where_cache_is_above_it() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (folder, tree) = (TempDir::new(), Tree::serve(&["--age-every", "1s"]));
    let file = file(&folder, 96);
    // What one with others below it has read itself is charged to none of these.
    ["a", "b", "b/c"].iter().for_each(|name| tree.make(name));
    for tenant in ["a", "b"] {
        let sleeper = Sleeper::start(tree.inside(tenant), 16);
        read_by(&tree, tenant, &file);
        assert!(of_kernel(&tree, tenant, USAGE) > 100 * MIB);
        tree.write(&format!("{tenant}/memory.max"), "48m");
        wait::until("its wall stands", SOON, || {
            of_kernel(&tree, tenant, MAX) == 48 * MIB
        });
        assert!(of_kernel(&tree, tenant, USAGE) <= 48 * MIB);
        let out = sleeper.status("VmSwap");
        assert!(out < 4 * MIB, "{out} bytes left though cache was there");
        let _ = sleeper.touch();
    }
}

/// The story: most of a database is shared memory that several of its processes map; the kernel skips it where one of them is asked for it, and the limit
/// never took its place.
#[test]
fn a_lowered_limit_takes_its_place_where_memory_is_shared() {
    // Its own, of the one above, or the budget of all.
    for tenant in ["a/b", "a", ""] {
        takes_its_place_where_memory_is_shared(tenant);
    }
}

fn takes_its_place_where_memory_is_shared(tenant: &str) {
    const SHARED: &str = "\
import mmap, os, sys, time
memory = mmap.mmap(-1, 48 << 20)
pages = range(0, len(memory), 4096)
for at in pages: memory[at] = at >> 12 & 255
is_child = not os.fork()
right = all(memory[at] == at >> 12 & 255 for at in pages)
if is_child: print('ready', flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(.1)
right = right and all(memory[at] == at >> 12 & 255 for at in pages)
if is_child: os._exit(not right)
print('right' if right and os.wait()[1] == 0 else 'wrong', flush=True)
";
    let _serial = serial();
    let swap = Swap::new(256);
    let (folder, tree) = (TempDir::new(), Tree::serve(&["--age-every", "1s"]));
    ["a", "a/b"].iter().for_each(|name| tree.make(name));
    let at = |file: &str| Path::new(tenant).join(file).display().to_string();
    let end = folder.file("end");
    let shared = Run::new(["/usr/bin/python3", "-c", SHARED, &end]).under(tree.inside("a/b"));
    let shared = shared.start();
    wait::until("it is shared", SOON, || shared.stdout().contains("ready"));
    tree.write(&at("memory.max"), "32m");
    wait::until("its wall stands", SOON, || {
        of_kernel(&tree, tenant, MAX) == 32 * MIB
    });
    assert!(of_kernel(&tree, tenant, USAGE) <= 32 * MIB);
    assert!(swap.written() >= 16 * MIB, "{} written", swap.written());
    // (At its wall the kernel kills what several processes use now and then, with swap free.)
    tree.write(&at("memory.max"), "max");
    wait::until("its wall is gone", SOON, || {
        of_kernel(&tree, tenant, MAX) > 1 << 40
    });
    std::fs::write(&end, "").expect("the folder is ours");
    let outcome = shared.wait(SOON);
    assert!(outcome.stdout.contains("right"), "{outcome:?}");
}

/// (The story, of a reading: who polled the ages of a tenant that thrashed was woken before it did, and never while it lasted.)
fn is_told_of_pressure(tree: &Tree, tenant: &str) {
    let file = |name: &str| format!("{tenant}/memory.workingset.{name}");
    tree.write(&file("refresh_interval"), "N0=60000");
    tree.write(&file("report_threshold"), "N0=500");
    let path = tree.at(&file("page_age")).display().to_string();
    let waits = Run::new(["python3", "-c", WAITS, &path]).finish(SOON);
    assert_eq!(waits.stdout.lines().last(), Some("woken True"), "{waits:?}");
}

/// Who needs more than it may have is left to the kernel: what our hand takes then is wanted again at once. (The story: two redis under one wall
/// answered 64% of what they did under the kernel alone.)
#[test]
fn who_thrashes_is_left_to_its_wall() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "1s"]);
    tree.make("a");
    tree.write("a/memory.max", "192m");
    // It ends with its input.
    let script = format!(
        "sleep 600 | exec {} loop 256 200000 600",
        programs::c("paced")
    );
    let looping = Run::new(["sh", "-c", &script])
        .under(tree.inside("a"))
        .start();
    let back = || tree.of_kernel("a", "total_pgmajfault");
    wait::until("it goes around", SOON, || back() > 200_000);
    wait::until("it is said", SOON, || {
        tree.said().contains("/a is left to the kernel")
    });
    // From then on what is in its wall is the kernel's choice. (Each time that it is tried again, a little is ours.)
    let ours = || tree.line("a/memory.stat", "pgsteal_direct");
    let (came, took) = (back(), ours());
    wait::until("it goes on", SOON, || back() > came + 200_000);
    let (came, took) = (back() - came, ours() - took);
    assert!(took < came / 4, "{took} of {came} pages left by our hand");
    assert_eq!(tree.line("a/memory.events", "oom_kill"), 0);
    is_told_of_pressure(&tree, "a");
    drop(looping);
}

/// (The story: on Linux 6.1 a server that went through its 40 MiB each second was not brought under a limit of 28: what left was back before the limit was
/// looked at again.)
#[test]
fn a_lowered_limit_takes_its_place_where_all_is_in_use() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "1s"]);
    tree.make("a");
    // 24 MiB that all of them read, and 4 MiB that each writes, once a second.
    let words = [&programs::c("workers"), "4", "24", "1000"].map(str::to_owned);
    let mut busy = Run::new(tree.inside("a").into_iter().chain(words)).start();
    wait::until("all of it is there", SOON, || {
        of_kernel(&tree, "a", USAGE) > 38 * MIB
    });
    for _ in 0..4 {
        tree.write("a/memory.max", "28m");
        wait::until("its wall stands", SOON, || {
            of_kernel(&tree, "a", MAX) == 28 * MIB
        });
        assert!(of_kernel(&tree, "a", USAGE) <= 28 * MIB);
        tree.write("a/memory.max", "max");
        wait::until("all of it is back", SOON, || {
            of_kernel(&tree, "a", USAGE) > 38 * MIB
        });
    }
    // (The story: 162 lines a second of one that needs more than it may have.)
    tree.write("a/memory.max", "36m");
    std::thread::sleep(Duration::from_secs(3));
    let said = tree.said();
    let lines = said.lines().filter(|line| line.contains("of /a")).count();
    assert!(lines <= 12, "{lines}: {said}");
    assert!(busy.ended().is_none(), "{}", busy.stderr());
}

/// The kernel is asked for what our hand does not get where nothing else was forbidden.
#[test]
fn what_may_not_be_swapped_stays_whatever_limit_is_lowered() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    ["a", "a/b"].iter().for_each(|name| tree.make(name));
    tree.write("a/memory.swap.max", "0");
    let sleeper = Sleeper::start(tree.inside("a/b"), 64);
    tree.write("a/b/memory.max", "32m");
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(sleeper.status("VmSwap"), 0);
    let _ = sleeper.touch();
}

/// The same for all tenants together: of their budget.
#[test]
fn a_lowered_budget_takes_its_place_where_cache_is_above_it() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (folder, tree) = (TempDir::new(), Tree::serve(&["--age-every", "1s"]));
    let file = file(&folder, 96);
    ["a", "b"].iter().for_each(|name| tree.make(name));
    let sleeper = Sleeper::start(tree.inside("a"), 16);
    read_by(&tree, "b", &file);
    tree.write("memory.max", "48m");
    wait::until("its wall stands", SOON, || {
        of_kernel(&tree, "", MAX) == 48 * MIB
    });
    let out = sleeper.status("VmSwap");
    assert!(out < 4 * MIB, "{out} bytes left though cache was there");
    let _ = sleeper.touch();
}

/// 8 MiB more each 20 ms, up to a gibibyte.
const GROWS: &str = "
import time
print('ready', flush=True)
held = []
for _ in range(128):
    held.append(b'x' * (8 << 20))
    time.sleep(0.02)
time.sleep(60)
";

/// (The story: while more was in use than a lowered limit allowed no limit stood at all, and who grew faster than reclaim grew on.)
#[test]
fn who_is_over_a_lowered_limit_does_not_grow_on() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "1s"]);
    tree.make("a");
    let words = ["python3", "-c", GROWS].map(str::to_owned);
    let grows = Run::new(tree.inside("a").into_iter().chain(words)).start();
    wait::until("it has grown", SOON, || {
        of_kernel(&tree, "a", USAGE) > 200 * MIB
    });
    tree.write("a/memory.max", "100m");
    assert_eq!(
        tree.number("a/memory.max"),
        100 * MIB,
        "it reads as it was asked for"
    );
    let most = of_kernel(&tree, "a", USAGE) + 64 * MIB;
    wait::until("its wall stands", SOON, || {
        let (usage, max) = (of_kernel(&tree, "a", USAGE), of_kernel(&tree, "a", MAX));
        assert!(
            usage < most && max < most,
            "{usage} bytes, limited to {max}"
        );
        max == 100 * MIB
    });
    assert!(proc::is_alive(grows.pid()));
}

/// (The story: a limit of swap below what was in swap threw out all page cache of the tenant, was refused, and forgotten.)
#[test]
fn a_limit_of_swap_below_what_is_in_swap_waits_for_it() {
    const BOTH: &str = "memory.memsw.limit_in_bytes";
    let _serial = serial();
    let _swap = Swap::shared();
    let (folder, tree) = (TempDir::new(), Tree::serve(&["--age-every", "1s"]));
    let file = file(&folder, 16);
    tree.make("a");
    let sleeper = Sleeper::start(tree.inside("a"), 96);
    tree.write("a/memory.max", "48m");
    wait::until("its wall stands", SOON, || {
        of_kernel(&tree, "a", MAX) == 48 * MIB
    });
    wait::until("the rest is in swap", SOON, || {
        sleeper.status("VmSwap") > 44 * MIB
    });
    let cached = || tree.of_kernel("a", "total_cache");
    // On a busy machine one reclaim may make too little room.
    wait::until("the file is cached", SOON, || {
        tree.write("a/memory.reclaim", "20m");
        read_by(&tree, "a", &file);
        cached() > 14 * MIB
    });
    let before = of_kernel(&tree, "a", BOTH);
    tree.write("a/memory.swap.max", "20m");
    std::thread::sleep(Duration::from_secs(3));
    assert!(cached() > 14 * MIB, "{} bytes are cached still", cached());
    assert_eq!(of_kernel(&tree, "a", BOTH), before);
    drop(sleeper);
    wait::until("it stands", SOON, || {
        of_kernel(&tree, "a", BOTH) == 68 * MIB
    });
}

/// (The story: a tenant was given to a user as cgroup v2 documents it: the directory is the user's, its limits stay root's. What stood on it was
/// believed no more at the next start, and the limits were lifted.)
#[test]
fn a_restart_leaves_the_limits_of_who_was_given_away() {
    let _serial = serial();
    let mut tree = Tree::serve(&[]);
    tree.make("a");
    tree.write("a/memory.max", "64m");
    assert_eq!(of_kernel(&tree, "a", MAX), 64 * MIB);
    tree.kill();
    let given = std::os::unix::fs::chown(tree.group("a"), Some(65534), None);
    given.expect("it is ours to give");
    tree.start();
    assert_eq!(of_kernel(&tree, "a", MAX), 64 * MIB);
    assert_eq!(tree.number("a/memory.max"), 64 * MIB);
}

/// (The story: what the kernel refused was told to nobody, and read as if it stood.)
#[test]
fn what_the_kernel_does_not_take_is_told() {
    let _serial = serial();
    let tree = Tree::serve(&[]);
    tree.make("a");
    // Version 1 limits swap only together with memory.
    tree.write("a/memory.swap.max", "100m");
    wait::until("it is told", SOON, || {
        tree.said().contains("does not take memory.swap.max of /a")
    });
    tree.write("a/memory.max", "200m");
    let both = of_kernel(&tree, "a", "memory.memsw.limit_in_bytes");
    assert_eq!(both, 300 * MIB);
}
