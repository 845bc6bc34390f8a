//! `pagetide serve` on a host where users make very many control groups, side by side or one inside
//! the other: other tenants are served as before.
#![forbid(unsafe_code)]

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::memcg::MemoryGroup;
use e2e::temp::serial;
use e2e::tenants::Tree;
use e2e::{pagetide, proc, wait};
use rustix::fs::{AtFlags, Mode, OFlags};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);
/// Longest accepted time until a request is answered beside such groups, on the busiest machine.
const ANSWERED: Duration = Duration::from_secs(5);

/// Opens the directory `name` in the directory `above`.
fn open_below(above: &OwnedFd, name: &str) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(above, name, flags, Mode::empty()).expect("a control group")
}

/// Opens a directory by its absolute path, of any length.
fn open(path: &Path) -> OwnedFd {
    open_below(
        &OwnedFd::from(std::fs::File::open("/").expect("the root")),
        &path.to_string_lossy(),
    )
}

/// A chain of groups, each inside the one before, all with the same name. `Drop` removes the
/// deepest first. Its path may be longer than the kernel accepts.
struct NestedGroups {
    top: PathBuf,
    name: String,
    depth: usize,
}

impl NestedGroups {
    fn new(top: &str, name: &str, depth: usize) -> NestedGroups {
        let chain = NestedGroups {
            top: top.into(),
            name: name.to_owned(),
            depth,
        };
        let mut dir = open(&chain.top);
        for _ in 0..depth {
            rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o755)).expect("we may");
            dir = open_below(&dir, name);
        }
        chain
    }

    /// Opens the deepest group of the chain.
    fn last(&self) -> OwnedFd {
        (0..self.depth).fold(open(&self.top), |dir, _| open_below(&dir, &self.name))
    }

    /// Moves a process to the deepest group.
    fn enter(&self, pid: u32) {
        let last = self.last();
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let procs = rustix::fs::openat(&last, "cgroup.procs", flags, Mode::empty());
        let procs = procs.expect("its file");
        rustix::io::write(&procs, pid.to_string().as_bytes()).expect("it is taken");
    }
}

impl Drop for NestedGroups {
    fn drop(&mut self) {
        let mut dir = self.last();
        for _ in 0..self.depth {
            dir = open_below(&dir, "..");
            // A process that has just ended may remain in the group for a moment.
            let is_gone =
                || rustix::fs::unlinkat(&dir, self.name.as_str(), AtFlags::REMOVEDIR).is_ok();
            wait::poll(Duration::from_secs(2), || is_gone().then_some(()));
        }
    }
}

/// Paths of groups side by side; `Drop` removes them.
struct SiblingGroups(Vec<PathBuf>);

impl SiblingGroups {
    fn new(top: &str, count: usize) -> SiblingGroups {
        let paths = (0..count).map(|number| Path::new(top).join(format!("g{number}")));
        let flat = SiblingGroups(paths.collect());
        for path in &flat.0 {
            std::fs::create_dir(path).expect("we may");
        }
        flat
    }
}

impl Drop for SiblingGroups {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_dir(path);
        }
    }
}

/// Starts an idle program of `mib` MiB in a group.
fn inside(group: &MemoryGroup, mib: u64) -> IdleProgram {
    let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
    let path = group.path();
    IdleProgram::start(["sh", "-c", script, &path].map(str::to_owned), mib)
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

/// Whether `serve` has printed this text.
fn has_reported(tree: &Tree, what: &str) -> bool {
    tree.stdout().contains(what) || tree.stderr().contains(what)
}

/// Sets the soft limit of open files of a process.
fn limit_files(pid: u32, most: u64) {
    let words = [
        "prlimit",
        &format!("--nofile={most}:"),
        "--pid",
        &pid.to_string(),
    ];
    let done = Run::new(words).finish(SOON);
    assert!(done.status.success(), "{}", done.stderr);
}

/// Reads a tenant's file and sends requests to the control socket until `time` has passed; returns
/// the longest answer time.
fn longest_answer(tree: &Tree, tenant: &str, time: Duration) -> Duration {
    let (end, mut longest) = (Instant::now() + time, Duration::ZERO);
    while Instant::now() < end {
        let begin = Instant::now();
        assert!(tree.read(&format!("{tenant}/memory.stat")).contains("anon"));
        longest = longest.max(begin.elapsed());
        std::thread::sleep(Duration::from_millis(50));
    }
    let at = format!("/{tenant}");
    let outcome = pagetide::command(["stat", &at, "--root", tree.root()]).finish(SOON);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    longest
}

/// Regression: pagetide kept one descriptor open for each group of the host. With a limit of 1,024
/// files, 2,000 groups ended `serve`. With a higher limit its socket, files and metrics did not
/// answer, and it used a whole processor, even after the groups were removed.
#[test]
fn serve_works_with_more_groups_than_descriptors() {
    let _serial = serial();
    let host = MemoryGroup::new();
    let (other, crowd) = (host.below(), host.below());
    let idle_program = inside(&other, 16);
    let tree = Tree::serve_host(&host, &["--age-every", "500ms"]);
    let at = format!("host/{}", name(&other));
    wait::until("its pages are known", SOON, || anon(&tree, &at) >= 16 * MIB);
    let before = proc::open_files(tree.pid());
    // Some of the 40 descriptors are for requests and for the files that requests need.
    limit_files(tree.pid(), before as u64 + 40);
    let memory = proc::number(tree.pid(), "VmRSS").unwrap_or(0);
    let flat = SiblingGroups::new(&crowd.path(), 3000);
    let in_crowd = IdleProgram::start(
        [
            "sh",
            "-c",
            "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"",
            &flat.0[2999].to_string_lossy(),
        ]
        .map(str::to_owned),
        8,
    );
    let at_crowd = format!("host/{}", name(&crowd));
    // The memory counts for the group above, in whichever group below that it is charged.
    wait::until("all of it is known", SOON, || {
        anon(&tree, &at_crowd) >= 8 * MIB
    });
    wait::until("it says what it leaves out", SOON, || {
        has_reported(&tree, "have no figures of their own")
    });
    let longest = longest_answer(&tree, &at, Duration::from_secs(3));
    assert!(longest < ANSWERED, "{longest:?}");
    let grown = proc::number(tree.pid(), "VmRSS")
        .unwrap_or(0)
        .saturating_sub(memory);
    assert!(grown < 64 * MIB, "{grown} bytes for them");
    assert!(proc::open_files(tree.pid()) <= before + 24);
    let words = ["report", &format!("/{at_crowd}"), "--root", tree.root()];
    let report = pagetide::command(words).finish(SOON);
    let is_reported = report.stdout.contains("have no figures of their own");
    assert!(is_reported, "{} {}", report.stdout, report.stderr);
    // A process that moves to a group of its own has its own figures all the same.
    let late = host.below();
    let second = inside(&late, 16);
    let at_late = format!("host/{}", name(&late));
    wait::until("it is found", SOON, || {
        tree.at(&at_late).is_dir() && anon(&tree, &at_late) >= 16 * MIB
    });
    drop((second, in_crowd));
    drop(flat);
    wait::until("all are told again", SOON, || {
        has_reported(&tree, "have figures of their own again")
    });
    let longest = longest_answer(&tree, &at, Duration::from_secs(1));
    assert!(longest < ANSWERED, "{longest:?}");
    let _ = idle_program.touch();
}

/// Regression: a group beyond PATH_MAX could not be opened by its path, and its processes were
/// silently skipped. And each group in a chain of 1,900 was opened by its whole path, so a start
/// took 15 s.
#[test]
fn processes_in_groups_beyond_path_max_are_scanned() {
    let _serial = serial();
    let host = MemoryGroup::new();
    let (other, deep) = (host.below(), host.below());
    let idle_program = inside(&other, 16);
    let chain = NestedGroups::new(&deep.path(), &"n".repeat(200), 30);
    let narrow = NestedGroups::new(&deep.path(), "c", 400);
    let hidden = inside(&deep, 24);
    chain.enter(hidden.pid());
    let begin = Instant::now();
    let tree = Tree::serve_host(&host, &["--age-every", "500ms"]);
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "{:?}",
        begin.elapsed()
    );
    let [at, at_deep] = [&other, &deep].map(|group| format!("host/{}", name(group)));
    wait::until("the process is known", SOON, || {
        anon(&tree, "host") >= 40 * MIB
    });
    assert!(anon(&tree, &at) >= 16 * MIB);
    wait::until("it says what it leaves out", SOON, || {
        has_reported(&tree, "have no figures of their own")
    });
    assert!(tree.at(&format!("{at_deep}/c/c/c")).is_dir());
    assert!(longest_answer(&tree, &at, Duration::from_secs(1)) < ANSWERED);
    // A report on the group by its path, without `serve`.
    let words = ["report", "--cgroup", &deep.path(), "--json", "--for", "1s"];
    let outcome = pagetide::command(words).finish(SOON);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
    let pids = report["processes"].as_array().into_iter().flatten();
    let mut pids = pids.filter_map(|one| one["pid"].as_u64());
    assert!(
        pids.any(|pid| pid == u64::from(hidden.pid())),
        "{outcome:?}"
    );
    drop((hidden, chain, narrow));
    let _ = idle_program.touch();
}

/// Regression: without a free descriptor, `serve` ended when it could not read a process in a scan,
/// and used a whole processor when it could not accept a connection.
#[test]
fn serve_survives_a_time_without_free_descriptors() {
    let _serial = serial();
    let host = MemoryGroup::new();
    let other = host.below();
    let idle_program = inside(&other, 16);
    let mut tree = Tree::serve_host(&host, &["--age-every", "300ms"]);
    let at = format!("host/{}", name(&other));
    wait::until("its pages are known", SOON, || anon(&tree, &at) >= 16 * MIB);
    limit_files(tree.pid(), 8);
    let asks = format!("/{at}");
    let waiting = pagetide::command(["stat", &asks, "--root", tree.root()]).start();
    wait::until("it says what is lacking", SOON, || {
        has_reported(&tree, "scans wait")
    });
    let (begin, before) = (Instant::now(), proc::processor_seconds(tree.pid()));
    std::thread::sleep(Duration::from_secs(1));
    let used = proc::processor_seconds(tree.pid()).zip(before);
    let used = used.map_or(f64::MAX, |(after, before)| after - before);
    // A loop that never waits would use all of a processor, except what other programs take.
    assert!(used < begin.elapsed().as_secs_f64() / 2.0, "{used} s");
    limit_files(tree.pid(), 1024);
    // The request may have been served, or have failed.
    let _ = waiting.wait(SOON);
    let answered = pagetide::command(["stat", &asks, "--root", tree.root()]).finish(SOON);
    assert!(answered.status.success(), "{}", answered.stderr);
    let late = host.below();
    let second = inside(&late, 16);
    let at_late = format!("host/{}", name(&late));
    wait::until("scans go on", SOON, || {
        tree.at(&at_late).is_dir() && anon(&tree, &at_late) >= 16 * MIB
    });
    drop(second);
    let _ = (idle_program.touch(), tree.end());
}

/// Regression: when the search for control groups met the limit of open files, the error was "no
/// memory controller".
#[test]
fn too_few_descriptors_are_reported_as_such() {
    let _serial = serial();
    for most in ["8", "10", "12"] {
        let limit = format!("--nofile={most}:{most}");
        let command = pagetide::command(["report", "--cgroup", "/", "--for", "1s"]);
        let outcome = command.under(["prlimit".to_owned(), limit]).finish(SOON);
        assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
        assert!(
            outcome.stderr.contains("Too many open files"),
            "{outcome:?}"
        );
        assert!(
            !outcome.stderr.contains("no memory controller"),
            "{outcome:?}"
        );
    }
}
