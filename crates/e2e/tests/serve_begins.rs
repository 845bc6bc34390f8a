//! How `pagetide serve` begins, and how it is controlled by a configuration, by signals, and by the
//! service manager. A `serve` that cannot begin changes nothing.
#![forbid(unsafe_code)]

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::temp::{TempDir, serial};
use e2e::tenants::{Tree, configuration, start_scanned};
use e2e::web::ListenAddress;
use e2e::{pagetide, programs, wait};

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_configuration_makes_tenants_and_is_reloaded() {
    let _serial = serial();
    let folder = TempDir::new();
    let begin =
        "age-every = \"500ms\"\n[tenants.\"a/b\"]\nmemory-max = \"64M\"\nmemory-low = 1048576\n";
    let file = configuration(&folder, begin);
    let tree = Tree::serve(&["--config", &file]);
    assert_eq!(tree.number("a/b/memory.max"), 64 * MIB);
    assert_eq!(tree.number("a/b/memory.low"), MIB);
    assert_eq!(tree.read("a/memory.max"), "max\n");
    // Regression: a tenant that was removed and made again, as a CI runner does for each job, had
    // no limits.
    std::fs::remove_dir(tree.at("a/b")).expect("nobody is in it");
    tree.make("a/b");
    assert_eq!(tree.number("a/b/memory.max"), 64 * MIB);
    assert_eq!(tree.number("a/b/memory.low"), MIB);
    tree.write("a/b/memory.high", "32m");

    let later = "age-every = \"500ms\"\n[tenants.\"a/b\"]\nmemory-max = \"96M\"\n[tenants.c]\n";
    configuration(&folder, later);
    tree.reload();
    wait::until("it is read", SOON, || {
        tree.stdout().contains("read once more")
    });
    assert_eq!(tree.number("a/b/memory.max"), 96 * MIB);
    // Settings that the file does not name stay as they were set.
    assert_eq!(tree.number("a/b/memory.low"), MIB);
    assert_eq!(tree.number("a/b/memory.high"), 32 * MIB);
    assert!(tree.at("c").is_dir());

    configuration(&folder, "[tenants.d]\nmemory-mx = \"1G\"\n");
    tree.reload();
    wait::until("it is refused", SOON, || {
        tree.stdout().contains("nothing is changed")
    });
    let said = tree.stdout();
    assert!(
        said.contains("line 2") && said.contains("`memory-max`"),
        "{said}"
    );
    assert!(!tree.at("d").exists());

    let outcome = pagetide::command(["serve", "--config", &file]).finish(SOON);
    assert_eq!(outcome.status.code(), Some(2), "{}", outcome.stderr);
    let outcome = pagetide::command(["serve", "--config", "/nonexistent"]).finish(SOON);
    assert_eq!(outcome.status.code(), Some(2), "{}", outcome.stderr);
}

/// The test plays the service manager: it is notified when the tree is mounted, that `serve` is
/// alive, when it reloads, and when it ends.
#[test]
fn a_service_manager_is_notified() {
    let _serial = serial();
    let folder = TempDir::new();
    let socket = folder.file("notify");
    let hears = UnixDatagram::bind(&socket).expect("a socket can be made");
    let limit = Some(Duration::from_secs(20));
    hears.set_read_timeout(limit).expect("it has a limit");
    let next = |what: &str| {
        let mut all = String::new();
        wait::until(what, SOON, || {
            let mut text = [0; 512];
            let length = hears.recv(&mut text).unwrap_or(0);
            all += &String::from_utf8_lossy(&text[..length]);
            all.contains(what)
        });
        all
    };
    let root = format!("pagetide-e2e-told-{}", std::process::id());
    let words = ["serve", "--host", "none", "--root", &root];
    let serve = pagetide::command(words)
        .env("NOTIFY_SOCKET", &socket)
        .env("WATCHDOG_USEC", "1000000")
        .start();
    next("READY=1");
    next("WATCHDOG=1");
    check_is_idle(serve.pid());
    serve.signal(rustix::process::Signal::HUP);
    let said = next("READY=1");
    assert!(
        said.contains("RELOADING=1") && said.contains("MONOTONIC_USEC="),
        "{said}"
    );
    serve.signal(rustix::process::Signal::TERM);
    next("STOPPING=1");
    let outcome = serve.wait(SOON);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    assert!(
        !std::path::Path::new("/sys/fs/cgroup/memory")
            .join(root)
            .exists()
    );
}

/// Checks that an idle `serve` without a mount uses hardly any processor time.
///
/// Regression: without a mount the pipe that ends a wait had no writer, so every wait ended at
/// once, and `serve` used a whole processor.
fn check_is_idle(pid: u32) {
    let ticks = || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        let (_, words) = stat.rsplit_once(") ").expect("a name");
        let words = words.split(' ').skip(11).take(2);
        words.filter_map(|word| word.parse::<u64>().ok()).sum()
    };
    let before = ticks();
    std::thread::sleep(Duration::from_secs(2));
    let used = ticks() - before;
    assert!(used < 50, "{used} hundredths of a second of two seconds");
}

#[test]
fn commands_report_that_no_serve_runs() {
    let _serial = serial();
    let alone = pagetide::command(["stat", "/web", "--root", "nobody-serves-this"]).finish(SOON);
    assert_eq!(alone.status.code(), Some(1));
    assert!(alone.stderr.contains("pagetide serve"), "{}", alone.stderr);
}

/// Regression: busybox's cat (of Alpine or an initramfs) calls sendfile(2), which reads no more
/// than the file's size. With a size of 0 it read nothing, and after a write of two bytes it read
/// two bytes.
#[test]
fn sendfile_and_reads_from_the_end_return_the_same() {
    let _serial = serial();
    let folder = TempDir::new();
    let tree = Tree::serve(&[]);
    tree.make("a");
    let idle_program = IdleProgram::start(tree.inside("a"), 8);
    for value in ["2m", "268435456", "1g"] {
        tree.write("a/memory.low", value);
        for name in ["memory.low", "cgroup.procs", "memory.stat", "memory.max"] {
            let file = tree.at(&format!("a/{name}"));
            let from = std::fs::File::open(&file).expect("it is there");
            let to = std::fs::File::create(folder.file("to")).expect("it can be made");
            while rustix::fs::sendfile(&to, &from, None, 1 << 20).expect("it is read") > 0 {}
            let sent = std::fs::read_to_string(folder.file("to")).expect("it is there");
            if name == "memory.stat" {
                let lines = tree.read("a/memory.stat").lines().count();
                assert_eq!(sent.lines().count(), lines, "{sent}");
            } else {
                assert_eq!(sent, tree.read(&format!("a/{name}")), "{name}");
            }
            let mut tail = std::process::Command::new("tail");
            let last = tail.args(["-n", "1"]).arg(&file).output();
            let last = last.expect("there is a tail").stdout;
            // The counters in memory.stat change between two reads, so only the name in the last
            // line is compared.
            let name_of_last =
                |text: &str| text.lines().last()?.split(' ').next().map(str::to_owned);
            let last = String::from_utf8_lossy(&last);
            assert_eq!(last.lines().count(), 1, "{last}");
            if name == "memory.stat" {
                assert_eq!(name_of_last(&last), name_of_last(&sent));
            } else {
                assert!(sent.ends_with(&*last), "{sent}: {last}");
            }
        }
    }
    drop(idle_program);
}

/// The number of scans, and the seconds that reading page tables took in all of them.
fn scan_totals(place: &ListenAddress) -> (f64, f64) {
    let text = place.get("/metrics").body;
    let value = |name: &str| -> f64 {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(found, _)| found.ends_with(name) && found.contains("walk"));
        let value = found.and_then(|(_, value)| value.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    (value("_count"), value("_sum"))
}

/// Scans take at most the configured share of a processor, also after a SIGHUP; idle processes need
/// none of it.
#[test]
fn scans_are_as_rare_as_their_budget_requires() {
    const LONG: Duration = Duration::from_secs(4);
    let _serial = serial();
    let folder = TempDir::new();
    let socket = folder.file("metrics.sock");
    let text = |budget: &str| {
        format!("age-every = \"100ms\"\nlook-budget = \"{budget}\"\nlisten = \"unix:{socket}\"\n")
    };
    let file = configuration(&folder, &text("100%"));
    let tree = Tree::serve(&["--config", &file]);
    for name in ["idle", "busy"] {
        tree.make(name);
    }
    let place = ListenAddress::Unix(socket.clone().into());
    let during = |time: Duration| {
        let before = scan_totals(&place);
        std::thread::sleep(time);
        let after = scan_totals(&place);
        (after.0 - before.0, after.1 - before.1)
    };
    let idle = start_scanned(&tree, "idle", 256);
    let (rest, read_resting) = during(LONG / 2);
    let toucher = programs::c("toucher");
    let words = [
        &toucher,
        "--mib",
        "256",
        "--seconds",
        "600",
        "--think-us",
        "50",
        "uniform",
    ];
    let busy = Run::new(words).under(tree.inside("busy")).start();
    wait::until("it is known", SOON, || {
        tree.line("busy/memory.stat", "anon") >= 256 * MIB
    });
    let (many, read) = during(LONG);
    configuration(&folder, &text("0.1%"));
    tree.reload();
    wait::until("it is read", SOON, || {
        tree.stdout().contains("read once more")
    });
    let (few, _) = during(LONG);
    eprintln!("{rest} looks at idle ones, {read_resting} s; {many}, {read} s; with 0.1% {few}");
    assert!(few * 4.0 <= many, "{few} of {many}");
    // A scan of an idle process of the same size costs at most half.
    assert!(rest > 0.0 && read_resting * many * 2.0 <= read * rest);
    drop(busy);
    let _ = idle.touch();

    for share in ["0%", "much", "5"] {
        configuration(&folder, &text(share));
        let outcome = pagetide::command(["serve", "--config", &file]).finish(SOON);
        assert_eq!(outcome.status.code(), Some(2), "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("share of one processor"),
            "{}",
            outcome.stderr
        );
    }
}

/// Regression: a `serve` that could not start, because its directory did not exist, set its limit
/// on the root, and the next `serve` had that limit.
#[test]
fn a_serve_that_cannot_begin_changes_nothing() {
    let _serial = serial();
    let root = format!("pagetide-e2e-never-{}", std::process::id());
    let _groups = e2e::tenants::Groups::named(&root);
    let words = [
        "serve",
        "--host",
        "none",
        "--root",
        &root,
        "--memory-max",
        "64M",
    ];
    let mount = ["--mount", "/nowhere/tenants"];
    let outcome = pagetide::command(words.into_iter().chain(mount)).finish(SOON);
    assert_eq!(outcome.status.code(), Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("mkdir -p"), "{}", outcome.stderr);
    let group = std::path::Path::new("/sys/fs/cgroup/memory").join(&root);
    assert!(!group.exists());
}
