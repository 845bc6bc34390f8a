//! Limits of tenants in the kernel: limits set below the usage, also with page cache, and limits
//! that the kernel refuses.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::page_cache::{file, read_by};
use e2e::swap_file::SwapFile;
use e2e::temp::{TempDir, serial};
use e2e::tenants::{POLL_SCRIPT, Tree};
use e2e::wait;
use e2e::zram::Swap;
use e2e::{proc, programs};

const MIB: u64 = 1 << 20;
/// Longest time that a test waits for one event, also on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// File of the memory limit (cgroup version 1).
const LIMIT_FILE: &str = "memory.limit_in_bytes";
/// File of the charged memory (cgroup version 1).
const USAGE_FILE: &str = "memory.usage_in_bytes";

/// The number in a file of the tenant's control group (version 1), bytes.
fn kernel_number(tree: &Tree, tenant: &str, file: &str) -> u64 {
    let text = std::fs::read_to_string(tree.group(tenant).join(file));
    let text = text.unwrap_or_else(|error| panic!("{tenant}/{file}: {error}"));
    text.trim().parse().expect("a number")
}

/// Regression: pages swapped out to a disk stay charged until their memory is needed, so all of a
/// tenant was swapped out although it exceeded its limit by a part only. Tested for `memory.high`
/// and `memory.max`.
#[test]
fn no_more_is_swapped_to_a_disk_than_a_limit_requires() {
    let _serial = serial();
    let _swap = SwapFile::new(512);
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("a");
    let idle_program = IdleProgram::start(tree.inside("a"), 192);
    let out = || idle_program.status("VmSwap") / MIB;
    for (file, limit) in [("a/memory.max", 160), ("a/memory.high", 112)] {
        tree.write(file, &format!("{limit}m"));
        wait::until("it is held", SOON, || {
            tree.number("a/memory.current") <= limit * MIB
        });
        // During these seconds `serve` measures the usage again and again.
        std::thread::sleep(Duration::from_secs(3));
        let most = 192 + 16 - limit + 32;
        assert!(out() <= most, "{} of {most} MiB are out", out());
    }
    drop(idle_program);
}

/// Regression: the usage above a lowered limit was page cache, which the kernel was to drop at
/// `memory.max`. But `memory.max` was not set, because too much was charged. The tenant was
/// reported as limited, and grew without end.
#[test]
fn a_lowered_limit_is_set_where_page_cache_exceeds_it() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (folder, tree) = (TempDir::new(), Tree::serve(&["--age-every", "1s"]));
    let file = file(&folder, 96);
    // Page cache that the tenant `b` has read itself is not charged to its child.
    ["a", "b", "b/c"].iter().for_each(|name| tree.make(name));
    for tenant in ["a", "b"] {
        let idle_program = IdleProgram::start(tree.inside(tenant), 16);
        read_by(&tree, tenant, &file);
        assert!(kernel_number(&tree, tenant, USAGE_FILE) > 100 * MIB);
        tree.write(&format!("{tenant}/memory.max"), "48m");
        wait::until("its wall stands", SOON, || {
            kernel_number(&tree, tenant, LIMIT_FILE) == 48 * MIB
        });
        assert!(kernel_number(&tree, tenant, USAGE_FILE) <= 48 * MIB);
        let out = idle_program.status("VmSwap");
        assert!(out < 4 * MIB, "{out} bytes left though cache was there");
        let _ = idle_program.touch();
    }
}

/// Regression: most of a database is shared memory that several processes map. Page-out by process
/// (MADV_PAGEOUT) skips such pages, so the usage stayed above the limit, which was never set.
#[test]
fn a_lowered_limit_is_set_where_memory_is_shared() {
    // The limit is that of the tenant, of its parent, or of all tenants (the root's).
    for tenant in ["a/b", "a", ""] {
        check_limit_of_shared_memory(tenant);
    }
}

fn check_limit_of_shared_memory(tenant: &str) {
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
        kernel_number(&tree, tenant, LIMIT_FILE) == 32 * MIB
    });
    assert!(kernel_number(&tree, tenant, USAGE_FILE) <= 32 * MIB);
    assert!(swap.written() >= 16 * MIB, "{} written", swap.written());
    // (At `memory.max` the kernel sometimes kills processes that use shared memory, though swap is
    // free: so the limit is lifted first.)
    tree.write(&at("memory.max"), "max");
    wait::until("its wall is gone", SOON, || {
        kernel_number(&tree, tenant, LIMIT_FILE) > 1 << 40
    });
    std::fs::write(&end, "").expect("the folder is ours");
    let outcome = shared.wait(SOON);
    assert!(outcome.stdout.contains("right"), "{outcome:?}");
}

/// Regression: a process that polled the ages of a thrashing tenant was woken before the thrashing
/// began, and never during it.
fn check_pressure_wakes(tree: &Tree, tenant: &str) {
    let file = |name: &str| format!("{tenant}/memory.workingset.{name}");
    tree.write(&file("refresh_interval"), "N0=60000");
    tree.write(&file("report_threshold"), "N0=500");
    let path = tree.at(&file("page_age")).display().to_string();
    let waits = Run::new(["python3", "-c", POLL_SCRIPT, &path]).finish(SOON);
    assert_eq!(waits.stdout.lines().last(), Some("woken True"), "{waits:?}");
}

/// If a tenant needs more memory than its limit, only the kernel reclaims from it: pages that
/// pagetide reclaims refault at once.
///
/// Regression: two redis servers under one hard limit served 64% of the requests that they served
/// when only the kernel enforced the limit.
#[test]
fn a_thrashing_tenant_is_left_to_the_kernel() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "1s"]);
    tree.make("a");
    tree.write("a/memory.max", "192m");
    // The program ends when its input ends.
    let script = format!(
        "sleep 600 | exec {} loop 256 200000 600",
        programs::c("paced")
    );
    let looping = Run::new(["sh", "-c", &script])
        .under(tree.inside("a"))
        .start();
    let back = || tree.kernel_stat("a", "total_pgmajfault");
    wait::until("it goes around", SOON, || back() > 200_000);
    wait::until("it is said", SOON, || {
        tree.stdout().contains("/a is thrashing")
    });
    // From now on the kernel chooses what is reclaimed, at `memory.max`. (At each retry, pagetide
    // reclaims a little.)
    let ours = || tree.line("a/memory.stat", "pgsteal_direct");
    let (came, took) = (back(), ours());
    wait::until("it goes on", SOON, || back() > came + 200_000);
    let (came, took) = (back() - came, ours() - took);
    assert!(took < came / 4, "{took} of {came} pages left by our hand");
    assert_eq!(tree.line("a/memory.events", "oom_kill"), 0);
    check_pressure_wakes(&tree, "a");
    drop(looping);
}

/// Regression: on Linux 6.1 a limit of 28 MiB was never set for a server that used its 40 MiB each
/// second: reclaimed pages had refaulted before the usage was compared with the limit again.
#[test]
fn a_lowered_limit_is_set_where_all_memory_is_in_use() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "1s"]);
    tree.make("a");
    // Per second, all workers read 24 MiB that they share, and each worker writes 4 MiB of its own.
    let words = [&programs::c("workers"), "4", "24", "1000"].map(str::to_owned);
    let mut busy = Run::new(tree.inside("a").into_iter().chain(words)).start();
    wait::until("all of it is there", SOON, || {
        kernel_number(&tree, "a", USAGE_FILE) > 38 * MIB
    });
    for _ in 0..4 {
        tree.write("a/memory.max", "28m");
        wait::until("its wall stands", SOON, || {
            kernel_number(&tree, "a", LIMIT_FILE) == 28 * MIB
        });
        assert!(kernel_number(&tree, "a", USAGE_FILE) <= 28 * MIB);
        tree.write("a/memory.max", "max");
        wait::until("all of it is back", SOON, || {
            kernel_number(&tree, "a", USAGE_FILE) > 38 * MIB
        });
    }
    // (Regression: `serve` printed 162 lines a second about a tenant that needs more than its
    // limit.)
    tree.write("a/memory.max", "36m");
    std::thread::sleep(Duration::from_secs(3));
    let said = tree.stdout();
    let lines = said.lines().filter(|line| line.contains("of /a")).count();
    assert!(lines <= 12, "{lines}: {said}");
    assert!(busy.ended().is_none(), "{}", busy.stderr());
}

/// `serve` has the kernel reclaim the rest of the usage only if that is allowed; here swapping is
/// not.
#[test]
fn memory_that_may_not_be_swapped_stays_when_a_limit_is_lowered() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    ["a", "a/b"].iter().for_each(|name| tree.make(name));
    tree.write("a/memory.swap.max", "0");
    let idle_program = IdleProgram::start(tree.inside("a/b"), 64);
    tree.write("a/b/memory.max", "32m");
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(idle_program.status("VmSwap"), 0);
    let _ = idle_program.touch();
}

/// A budget (the limit of all tenants together) below the usage is set, too, where page cache
/// exceeds it.
#[test]
fn a_lowered_budget_is_set_where_page_cache_exceeds_it() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (folder, tree) = (TempDir::new(), Tree::serve(&["--age-every", "1s"]));
    let file = file(&folder, 96);
    ["a", "b"].iter().for_each(|name| tree.make(name));
    let idle_program = IdleProgram::start(tree.inside("a"), 16);
    read_by(&tree, "b", &file);
    tree.write("memory.max", "48m");
    wait::until("its wall stands", SOON, || {
        kernel_number(&tree, "", LIMIT_FILE) == 48 * MIB
    });
    let out = idle_program.status("VmSwap");
    assert!(out < 4 * MIB, "{out} bytes left though cache was there");
    let _ = idle_program.touch();
}

/// A Python program that adds 8 MiB every 20 ms, up to 1 GiB.
const GROW_SCRIPT: &str = "
import time
print('ready', flush=True)
held = []
for _ in range(128):
    held.append(b'x' * (8 << 20))
    time.sleep(0.02)
time.sleep(60)
";

/// Regression: while the usage was above a lowered limit, no limit was set at all, so a tenant that
/// grew faster than pagetide reclaimed grew on.
#[test]
fn a_tenant_above_a_lowered_limit_does_not_grow_on() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "1s"]);
    tree.make("a");
    let words = ["python3", "-c", GROW_SCRIPT].map(str::to_owned);
    let grows = Run::new(tree.inside("a").into_iter().chain(words)).start();
    wait::until("it has grown", SOON, || {
        kernel_number(&tree, "a", USAGE_FILE) > 200 * MIB
    });
    tree.write("a/memory.max", "100m");
    assert_eq!(
        tree.number("a/memory.max"),
        100 * MIB,
        "it reads as it was asked for"
    );
    let most = kernel_number(&tree, "a", USAGE_FILE) + 64 * MIB;
    wait::until("its wall stands", SOON, || {
        let (usage, max) = (
            kernel_number(&tree, "a", USAGE_FILE),
            kernel_number(&tree, "a", LIMIT_FILE),
        );
        assert!(
            usage < most && max < most,
            "{usage} bytes, limited to {max}"
        );
        max == 100 * MIB
    });
    assert!(proc::is_alive(grows.pid()));
}

/// Regression: a swap limit below the swap in use dropped all page cache of the tenant, was refused
/// by the kernel, and was forgotten.
#[test]
fn a_swap_limit_below_the_swap_in_use_is_set_later() {
    const BOTH: &str = "memory.memsw.limit_in_bytes";
    let _serial = serial();
    let _swap = Swap::shared();
    let (folder, tree) = (TempDir::new(), Tree::serve(&["--age-every", "1s"]));
    let file = file(&folder, 16);
    tree.make("a");
    let idle_program = IdleProgram::start(tree.inside("a"), 96);
    tree.write("a/memory.max", "48m");
    wait::until("its wall stands", SOON, || {
        kernel_number(&tree, "a", LIMIT_FILE) == 48 * MIB
    });
    wait::until("the rest is in swap", SOON, || {
        idle_program.status("VmSwap") > 44 * MIB
    });
    let cached = || tree.kernel_stat("a", "total_cache");
    // On a busy machine one reclaim may free too little.
    wait::until("the file is cached", SOON, || {
        tree.write("a/memory.reclaim", "20m");
        read_by(&tree, "a", &file);
        cached() > 14 * MIB
    });
    let before = kernel_number(&tree, "a", BOTH);
    tree.write("a/memory.swap.max", "20m");
    std::thread::sleep(Duration::from_secs(3));
    assert!(cached() > 14 * MIB, "{} bytes are cached still", cached());
    assert_eq!(kernel_number(&tree, "a", BOTH), before);
    drop(idle_program);
    wait::until("it stands", SOON, || {
        kernel_number(&tree, "a", BOTH) == 68 * MIB
    });
}

/// Regression: a tenant was delegated to a user as cgroup v2 documents it: the user owns the
/// directory, and root owns its limit files. At the next start `serve` no longer trusted the xattrs
/// on the directory, and removed the limits.
#[test]
fn a_restart_keeps_the_limits_of_a_delegated_tenant() {
    let _serial = serial();
    let mut tree = Tree::serve(&[]);
    tree.make("a");
    tree.write("a/memory.max", "64m");
    assert_eq!(kernel_number(&tree, "a", LIMIT_FILE), 64 * MIB);
    tree.kill();
    let given = std::os::unix::fs::chown(tree.group("a"), Some(65534), None);
    given.expect("it is ours to give");
    tree.start();
    assert_eq!(kernel_number(&tree, "a", LIMIT_FILE), 64 * MIB);
    assert_eq!(tree.number("a/memory.max"), 64 * MIB);
}

/// Regression: if the kernel refused a setting, that was not reported, and the file of the setting
/// had the new value as if it were in force.
#[test]
fn settings_that_the_kernel_refuses_are_reported() {
    let _serial = serial();
    let tree = Tree::serve(&[]);
    tree.make("a");
    // On version 1 swap alone cannot be limited, only memory and swap together.
    tree.write("a/memory.swap.max", "100m");
    wait::until("it is told", SOON, || {
        tree.stdout()
            .contains("the kernel refused memory.swap.max of /a")
    });
    tree.write("a/memory.max", "200m");
    let both = kernel_number(&tree, "a", "memory.memsw.limit_in_bytes");
    assert_eq!(both, 300 * MIB);
}
