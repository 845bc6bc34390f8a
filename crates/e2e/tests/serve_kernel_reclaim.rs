//! Reclaim by the kernel itself wakes clients that poll reports: reclaim at the limit of a group,
//! and reclaim of the whole host. The budget of the root is set, and is never reached.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use e2e::guard::{Run, Running};
use e2e::idle_program::IdleProgram;
use e2e::memcg::MemoryGroup;
use e2e::page_cache::{file, reading};
use e2e::temp::{TempDir, serial};
use e2e::tenants::{Tree, configuration};
use e2e::vmstat::Vmstat;
use e2e::wait;
use e2e::zram::Swap;

const MIB: u64 = 1 << 20;
/// Longest time that a test waits for one event, also on a busy machine.
const SOON: Duration = Duration::from_secs(60);
/// Time for which no client may be woken where nothing is reclaimed. Clients are woken within a
/// fifth of it otherwise.
const QUIET_TIME: Duration = Duration::from_secs(2);
/// Configuration of `serve` by which a host with little available memory wakes no client: only
/// `/proc/vmstat` is the test's own, the host's memory is not.
const CONFIG: &str = "age-every = \"500ms\"\n[pressure]\navailable-low = 0\n";

/// A Python script that polls the report in its first argument. At each wakeup it prints `woken`
/// and the time since it began to read the report, in milliseconds, and reads the report again.
const POLL_SCRIPT: &str = "
import select, sys, time
file = open(sys.argv[1])
poll = select.poll()
poll.register(file, select.POLLPRI)
begin = time.monotonic()
file.read()
print('polls', flush=True)
while True:
    poll.poll()
    print('woken', int((time.monotonic() - begin) * 1000), flush=True)
    try:
        file.seek(0)
        begin = time.monotonic()
        file.read()
    except OSError:
        break
";

/// The root's report of its first node.
const ROOT: &str = "node0/workingset_report/page_age";

/// A client that polls a report.
struct Client(Running);

impl Client {
    /// Switches a report on, with this threshold, and starts a client that polls it.
    fn start(tree: &Tree, report: &str, threshold_ms: u64) -> Client {
        let (prefix, node) = match report == ROOT {
            true => ("", ""),
            false => ("memory.workingset.", "N0="),
        };
        let folder = &report[..=report.rfind('/').expect("it is in a folder")];
        let set = |name: &str, ms: u64| {
            tree.write(&format!("{folder}{prefix}{name}"), &format!("{node}{ms}"));
        };
        set("refresh_interval", 200);
        set("report_threshold", threshold_ms);
        Client::start_unchanged(tree, report)
    }

    /// Starts a client that polls a report whose settings stay as they are.
    fn start_unchanged(tree: &Tree, report: &str) -> Client {
        let path = tree.at(report).display().to_string();
        let client = Run::new(["python3", "-c", POLL_SCRIPT, &path]).start();
        wait::until("it polls", SOON, || client.stdout().contains("polls"));
        Client(client)
    }

    /// Number of wakeups so far.
    fn woken(&self) -> usize {
        self.0.stdout().matches("woken").count()
    }

    /// Time from the client's first read of the report to its first wakeup, which has happened.
    fn first_wakeup(&self) -> Duration {
        let text = self.0.stdout();
        let mut times = text.lines().filter_map(|line| line.strip_prefix("woken "));
        let ms = times.next().and_then(|ms| ms.parse().ok());
        Duration::from_millis(ms.unwrap_or_else(|| panic!("no wakeup: {text}")))
    }
}

/// The report of a tenant.
fn report_path(tenant: &str) -> String {
    format!("{tenant}/memory.workingset.page_age")
}

/// The tenant of a group of the host.
fn tenant_path(group: &MemoryGroup) -> String {
    let name = group.name();
    format!("host/{}", name.rsplit('/').next().unwrap_or_default())
}

/// Checks that none of these clients is woken for a while.
fn check_quiet(clients: &[&Client]) {
    let before: Vec<usize> = clients.iter().map(|one| one.woken()).collect();
    std::thread::sleep(QUIET_TIME);
    let after: Vec<usize> = clients.iter().map(|one| one.woken()).collect();
    assert_eq!(before, after, "woken without reclaim");
}

/// Waits until each of these clients has been woken once more than `before`, and prints the time
/// that it took.
fn wait_for_wakeup(what: &str, clients: &[&Client], before: &[usize]) {
    let begin = Instant::now();
    wait::until(what, SOON, || {
        let mut all = clients.iter().zip(before);
        all.all(|(one, before)| one.woken() > *before)
    });
    eprintln!("{what}: {:?}", begin.elapsed());
}

/// Starts a process in a group that reads a file again and again. If the file is larger than the
/// group's limit, the kernel reclaims from the group without end.
fn start_reader(group: &MemoryGroup, file: &str) -> Running {
    let script = format!(
        "{}; while :; do cat {file} > /dev/null; done",
        reading(file)
    );
    group.run(&Run::new(["sh", "-c", &script])).start()
}

/// Regression: only pagetide's own reclaim woke clients. If the kernel reclaimed at the limit of a
/// group, or for the whole host, agents that wait for pressure were not woken.
#[test]
fn reclaim_at_a_limit_wakes_clients_of_the_group_and_of_those_above() {
    let _serial = serial();
    let (host, folder, vmstat) = (MemoryGroup::new(), TempDir::new(), Vmstat::new());
    let file = file(&folder, 96);
    let [limited, other] = [host.below(), host.below()];
    let tree = Tree::serve_host_after(
        &vmstat.mount(),
        &host,
        &["--config", &configuration(&folder, CONFIG)],
    );
    tree.write("memory.max", "4g");
    let start = |at: &str, threshold| Client::start(&tree, at, threshold);
    for group in [&limited, &other] {
        wait::until("it is found", SOON, || {
            tree.at(&tenant_path(group)).exists()
        });
    }
    let own = start(&report_path(&tenant_path(&limited)), 500);
    let second = Client::start_unchanged(&tree, &report_path(&tenant_path(&limited)));
    let (above, root) = (start(&report_path("host"), 500), start(ROOT, 500));
    let beside = start(&report_path(&tenant_path(&other)), 500);
    let all = [&own, &second, &above, &root, &beside];
    check_quiet(&all);
    // Without reclaim, a group that takes memory below its limit wakes no client.
    limited.limit(256 * MIB);
    let small = start_reader(&limited, &file);
    wait::until("it has read", SOON, || {
        limited.line("memory.stat", "cache ") >= 90 * MIB
    });
    check_quiet(&all);
    drop(small);
    let woken = [&own, &second, &above, &root];
    let before = woken.map(Client::woken);
    // (The kernel reclaims what is above a new limit within the write, and counts no hit for that.)
    limited.limit(48 * MIB);
    let _eater = start_reader(&limited, &file);
    wait_for_wakeup("reclaim at the limit of a group", &woken, &before);
    // Under lasting pressure clients are woken again.
    wait_for_wakeup("reclaim that lasts", &woken, &woken.map(Client::woken));
    assert_eq!(beside.woken(), 0, "nothing was reclaimed from it");
}

/// A limit above the tenants makes the kernel reclaim from all of them.
#[test]
fn reclaim_at_a_limit_above_the_tenants_wakes_their_clients() {
    let _serial = serial();
    let (host, folder, vmstat) = (MemoryGroup::new(), TempDir::new(), Vmstat::new());
    let file = file(&folder, 96);
    let outside = host.below();
    let tree = Tree::serve_host_after(
        &vmstat.mount(),
        &host,
        &["--config", &configuration(&folder, CONFIG)],
    );
    tree.write("memory.max", "4g");
    tree.make("made");
    tree.make("silent");
    let made = Client::start(&tree, &report_path("made"), 500);
    // A threshold of 0 means that no client is notified.
    let silent = Client::start(&tree, &report_path("silent"), 0);
    check_quiet(&[&made, &silent]);
    host.limit(64 * MIB);
    let before = [made.woken()];
    let _eater = start_reader(&outside, &file);
    wait_for_wakeup("reclaim at a limit above", &[&made], &before);
    // The client of a tenant that ends meanwhile is woken by that.
    tree.make("ends");
    let ends = Client::start(&tree, &report_path("ends"), 3_600_000);
    std::fs::remove_dir(tree.at("ends")).expect("no process is in it");
    wait_for_wakeup("the end of a tenant", &[&ends], &[0]);
    wait_for_wakeup("others go on", &[&made], &[made.woken()]);
    assert_eq!(silent.woken(), 0, "its threshold is 0");
}

/// As in a container with a limit: the group above the tenants is no tenant.
#[test]
fn reclaim_at_a_limit_of_a_group_that_is_no_tenant_wakes_clients() {
    let _serial = serial();
    let (above, folder, vmstat) = (MemoryGroup::new(), TempDir::new(), Vmstat::new());
    let file = file(&folder, 96);
    let outside = above.below();
    let tree = Tree::serve_below(
        &vmstat.mount(),
        &above,
        &["--config", &configuration(&folder, CONFIG)],
    );
    tree.make("made");
    let clients = [&report_path("made"), ROOT].map(|at| Client::start(&tree, at, 500));
    let all: Vec<&Client> = clients.iter().collect();
    check_quiet(&all);
    above.limit(64 * MIB);
    let before = clients.each_ref().map(Client::woken);
    let _eater = start_reader(&outside, &file);
    wait_for_wakeup("reclaim at the limit of a container", &all, &before);
}

/// The kernel's counters of reclaim of the whole host. Those of proactive reclaim, and the sums
/// that also count reclaim at limits of groups, are not pressure of the host.
#[test]
fn reclaim_of_the_whole_host_wakes_all_clients() {
    let _serial = serial();
    let (host, folder, mut vmstat) = (MemoryGroup::new(), TempDir::new(), Vmstat::new());
    let mut tree = Tree::serve_host_after(
        &vmstat.mount(),
        &host,
        &["--config", &configuration(&folder, CONFIG)],
    );
    tree.write("memory.max", "4g");
    for name in ["a", "a/b", "silent"] {
        tree.make(name);
    }
    let start = |at: &str, threshold| Client::start(&tree, at, threshold);
    let clients = [
        start(ROOT, 300),
        start(&report_path("host"), 300),
        start(&report_path("a/b"), 300),
    ];
    let silent = start(&report_path("silent"), 0);
    let all: Vec<&Client> = clients.iter().collect();
    check_quiet(&all);
    for name in ["pgscan_proactive", "pgscan_anon", "pgscan_file", "pswpout"] {
        vmstat.add(name, 5000);
    }
    check_quiet(&all);
    for name in ["pgscan_kswapd", "pgscan_direct", "pgscan_khugepaged"] {
        let before: Vec<usize> = all.iter().map(|one| one.woken()).collect();
        vmstat.add(name, 32);
        wait_for_wakeup(name, &all, &before);
        // One reclaim is reported once.
        check_quiet(&all);
    }
    assert_eq!(silent.woken(), 0, "its threshold is 0");
    // The next manager goes by the settings that the last one noted.
    drop(clients);
    tree.kill();
    tree.start();
    let again = Client::start_unchanged(&tree, &report_path("a/b"));
    check_quiet(&[&again]);
    vmstat.add("pgscan_kswapd", 32);
    wait_for_wakeup("after a restart", &[&again], &[0]);
}

/// A reclaim that comes sooner than the threshold after a report is reported when the threshold has
/// passed.
#[test]
fn reclaim_before_the_threshold_is_reported_at_the_threshold() {
    let _serial = serial();
    let (host, folder, mut vmstat) = (MemoryGroup::new(), TempDir::new(), Vmstat::new());
    let tree = Tree::serve_host_after(
        &vmstat.mount(),
        &host,
        &["--config", &configuration(&folder, CONFIG)],
    );
    let root = Client::start(&tree, ROOT, 4000);
    vmstat.add("pgscan_direct", 32);
    wait_for_wakeup("its threshold", &[&root], &[0]);
    // The report is made after the client begins to read it. A busy machine wakes the client later,
    // never earlier. (`serve` takes times in whole milliseconds.)
    let waited = root.first_wakeup();
    assert!(waited >= Duration::from_millis(3990), "after {waited:?}");
}

/// What a user requests is not pressure.
#[test]
fn reclaim_on_request_wakes_no_client() {
    let _serial = serial();
    let (host, folder, vmstat) = (MemoryGroup::new(), TempDir::new(), Vmstat::new());
    let file = file(&folder, 96);
    let tree = Tree::serve_host_after(
        &vmstat.mount(),
        &host,
        &["--config", &configuration(&folder, CONFIG)],
    );
    tree.make("a");
    let clients = [
        Client::start(&tree, &report_path("a"), 200),
        Client::start(&tree, ROOT, 200),
    ];
    let script = format!("while :; do cat {file} > /dev/null; sleep .1; done");
    let words = ["sh", "-c", &script].map(str::to_owned);
    let _reader = Run::new(tree.inside("a").into_iter().chain(words)).start();
    let cached = || tree.kernel_stat("a", "total_cache");
    for _ in 0..5 {
        wait::until("it has read", SOON, || cached() > 90 * MIB);
        let _ = tree.try_write("a/memory.reclaim", "64m");
    }
    std::thread::sleep(QUIET_TIME);
    assert_eq!(clients.each_ref().map(Client::woken), [0, 0]);
}

/// Regression: if the root had a budget, the host's lack of memory was reported to no client, even
/// if the budget was not reached.
#[test]
fn a_host_that_lacks_memory_is_reported_although_there_is_a_budget() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (host, folder, vmstat) = (MemoryGroup::new(), TempDir::new(), Vmstat::new());
    let text = |low: &str| format!("age-every = \"500ms\"\n[pressure]\navailable-low = {low}\n");
    let config = configuration(&folder, &text("0"));
    let tree = Tree::serve_host_after(&vmstat.mount(), &host, &["--config", &config]);
    tree.make("a");
    let idle = IdleProgram::start(tree.inside("a"), 32);
    wait::until("its pages are known", SOON, || {
        tree.line("a/memory.stat", "anon") >= 32 * MIB
    });
    tree.write("memory.max", "4g");
    let clients = [ROOT, &report_path("host")].map(|at| Client::start(&tree, at, 500));
    let child = Client::start(&tree, &report_path("a"), 500);
    let all: Vec<&Client> = clients.iter().collect();
    check_quiet(&all);
    configuration(&folder, &text("\"100%\""));
    tree.reload();
    wait_for_wakeup("the host lacks memory", &all, &[0, 0]);
    wait_for_wakeup(
        "it still does",
        &all,
        &[clients[0].woken(), clients[1].woken()],
    );
    assert_eq!(child.woken(), 0, "nothing is reclaimed from it");
    assert_eq!(idle.status("VmSwap"), 0, "the budget is not reached");
    configuration(&folder, &text("0"));
    tree.reload();
    wait::until("it is read", SOON, || {
        tree.stdout().matches("once more").count() == 2
    });
    check_quiet(&all);
    let _ = idle.touch();
}
