//! The hard-limit cgroup around a program, on this host's cgroup version 1: the effects of its
//! limits and its reclaim by the kernel's figures, and what happens when its manager or its guard
//! is killed. The manager is the example `hard_limit` of crate host, which executes one command per
//! line of its input.
#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use e2e::guard::{Run, send};
use e2e::temp::{Serial, serial};
use e2e::wait::Chance;
use e2e::zram::Swap;
use e2e::{proc, programs, wait};
use rustix::process::Signal;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const MIB: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(30);
/// Number of starts of a program that the kernel kills each time if pagetide does not refresh the
/// kernel's counters.
const ROUNDS: usize = 6;
/// Number of attempts at a test that other tests may disturb, because they start pagetide at the
/// same time.
const TURNS: usize = 5;
/// Time within which a living guard lifts the limit after the end of its manager.
const PROMPT: Duration = Duration::from_secs(1);

/// A manager, its guard, its program and their control group; `Drop` removes all of them.
struct Managed {
    manager: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    dir: PathBuf,
    guard: u32,
    program: u32,
    _serial: Serial,
}

impl Managed {
    /// Starts a manager of `command`, and waits until it prints its group, guard and program.
    fn start(command: &[&str]) -> Managed {
        let serial = serial();
        let mut manager = Command::new(example())
            .arg("manage")
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example can be started");
        let answers = BufReader::new(manager.stdout.take().expect("it is piped"));
        let mut managed = Managed {
            orders: manager.stdin.take(),
            manager,
            answers,
            dir: PathBuf::new(),
            guard: 0,
            program: 0,
            _serial: serial,
        };
        let said = managed.answer();
        let words: Vec<&str> = said.split(' ').collect();
        let ["wall", dir, "guard", guard, "pid", pid] = words[..] else {
            panic!("it said: {said}");
        };
        managed.dir = dir.into();
        managed.guard = guard.parse().expect("a number");
        managed.program = pid.parse().expect("a number");
        managed
    }

    /// Returns the next line that the manager prints.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        line.trim().to_owned()
    }

    /// Sends a command to the manager; returns its answer.
    fn execute(&mut self, order: &str) -> String {
        let orders = self.orders.as_mut().expect("it listens");
        writeln!(orders, "{order}").expect("it listens");
        self.answer()
    }

    /// Sends `order` (`get` or `reclaim`); returns the number after `word` in the manager's answer.
    fn number(&mut self, order: &str, word: &str) -> u64 {
        let said = self.execute(order);
        let mut words = said.split(' ').skip_while(|one| *one != word);
        let number = words.nth(1).and_then(|text| text.parse().ok());
        number.unwrap_or_else(|| panic!("{order}: {said}"))
    }

    fn kill_manager(&mut self) {
        let _ = self.manager.kill();
        let _ = self.manager.wait();
    }

    fn limit(&self) -> u64 {
        limit(&self.dir)
    }

    /// Whether another start of pagetide now owns the hard-limit cgroup, by its ownership xattr.
    /// Any start may take over the cgroup of dead processes, and other tests start managers at the
    /// same time.
    fn is_anothers(&self) -> bool {
        let mut mark = [0; 128];
        let length = rustix::fs::getxattr(&self.dir, "trusted.pagetide.wall", &mut mark[..]);
        let mark = &mark[..length.expect("it is marked")];
        let own = format!("{} ", self.manager.id());
        !mark.starts_with(own.as_bytes())
    }
}

/// Runs a test with the hard-limit cgroup of a dead manager and guard; repeats it while `scene`
/// returns `None`, as another start took the cgroup over. Regression (of this test): within 300 ms
/// a test beside this one lifted the limit, as it should.
fn undisturbed(scene: impl Fn() -> Option<()>) {
    let done = (0..TURNS).find_map(|_| scene());
    done.expect("nobody else took it up");
}

impl Drop for Managed {
    fn drop(&mut self) {
        self.kill_manager();
        for pid in [self.program, self.guard] {
            if pid != 0 {
                send(pid, Signal::KILL);
            }
        }
        let gone = wait::poll(LIMIT, || {
            let _ = std::fs::remove_dir(&self.dir);
            (!self.dir.exists()).then_some(())
        });
        if gone.is_none() {
            eprintln!("cannot remove {}", self.dir.display());
        }
    }
}

/// Path of the example `hard_limit` of crate host.
fn example() -> String {
    programs::example("host", "hard_limit")
}

fn limit(dir: &Path) -> u64 {
    let text = std::fs::read_to_string(dir.join("memory.limit_in_bytes"));
    let text = text.expect("the group is there");
    text.trim().parse().expect("a number")
}

/// The swappiness of a control group: the kernel's preference for reclaim of anonymous memory. A
/// manager lowers it, and may be killed before it has restored it.
fn swappiness(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("memory.swappiness")).expect("the group is there")
}

fn is_lifted(dir: &Path) -> bool {
    limit(dir) > 1 << 60
}

/// Runs the example as `hard_limit left`, which lists groups of dead managers; returns the line
/// about this group. `None`: there is no such line.
fn left(dir: &Path, remove: bool) -> Option<String> {
    let mut command = Run::new([example(), "left".to_owned()]);
    if remove {
        let dir = dir.to_string_lossy().into_owned();
        command = Run::new([example(), "left".to_owned(), dir]);
    }
    let outcome = command.finish(LIMIT);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let about = format!("left {} ", dir.display());
    let line = outcome
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix(&about));
    line.map(str::to_owned)
}

#[test]
fn in_good_order_nothing_is_left() {
    let mut hard_limit = Managed::start(&["sleep", "300"]);
    let inside = std::fs::read_to_string(hard_limit.dir.join("cgroup.procs")).expect("it is there");
    assert_eq!(inside.trim(), hard_limit.program.to_string());
    assert!(hard_limit.dir.join("../cgroup.procs").exists());
    assert_eq!(hard_limit.execute("max 67108864"), "ok");
    assert_eq!(hard_limit.limit(), 64 * MIB);
    assert_eq!(hard_limit.number("get", "max"), 64 * MIB);
    assert_eq!(hard_limit.number("get", "oom"), 0);
    assert_eq!(hard_limit.execute("swap 1048576"), "ok");
    assert_eq!(
        hard_limit.execute("max 134217728"),
        "ok",
        "above both limits of before"
    );
    assert_eq!(hard_limit.execute("max 67108864"), "ok");
    let both = std::fs::read_to_string(hard_limit.dir.join("memory.memsw.limit_in_bytes"));
    assert_eq!(both.ok(), Some(format!("{}\n", 65 * MIB)));
    assert_eq!(hard_limit.execute("guard"), "true");
    // Regression: its name in `ps` was `exe`, as of a process that runs /proc/self/exe, and tests
    // took it for a program that had not ended.
    assert_eq!(proc::comm(hard_limit.guard).as_deref(), Some("pagetide"));
    // The guard has a session of its own and is no child of this process.
    let parent = proc::status(hard_limit.guard, "PPid");
    assert_ne!(parent, Some(hard_limit.manager.id().to_string()));
    assert_eq!(
        hard_limit.execute("remove"),
        "false",
        "the program is in it"
    );
    assert!(is_lifted(&hard_limit.dir));
    assert_eq!(left(&hard_limit.dir, false), None, "its manager lives");
    drop(hard_limit.orders.take());
    let ended = wait::poll(LIMIT, || hard_limit.manager.try_wait().ok().flatten());
    assert!(ended.is_some_and(|status| status.success()));
    assert!(!hard_limit.dir.exists());
    wait::until("the guard's end", LIMIT, || {
        !proc::is_alive(hard_limit.guard)
    });
}

/// Reclaim takes about the requested amount, and then the limit is as before; the limit is in force
/// all the time. Which pages the kernel chose is only printed, as nothing is promised about that.
#[test]
fn reclaim_takes_the_requested_amount() {
    let hotset = programs::c("hotset");
    // `swap` is declared first, so that the group is removed before it.
    let swap = Swap::shared();
    let mut hard_limit = Managed::start(&[&hotset, "200", "60", "120", "--rate", "200000"]);
    let filled = || proc::rss_anon(hard_limit.program).unwrap_or(0) > 199 * MIB;
    wait::until("filled", LIMIT, filled);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(hard_limit.execute("max 314572800"), "ok");
    let major = |pid| proc::stat(pid, 12).unwrap_or(0);
    let (before, faults) = (
        hard_limit.number("get", "charged"),
        major(hard_limit.program),
    );
    let begin = Instant::now();
    let fell = hard_limit.number(&format!("reclaim {} 100", 100 * MIB), "fell");
    let took = begin.elapsed();
    let after = hard_limit.number("get", "charged");
    std::thread::sleep(Duration::from_secs(2));
    let back = major(hard_limit.program) - faults;
    eprintln!(
        "reclaim of 100 MiB: {took:?}, fell by {fell}; {back} of the 15360 hot pages were read back within 2 s"
    );
    assert!(fell > 80 * MIB && fell < 120 * MIB, "{fell}");
    assert!(before - after > 70 * MIB, "{before} {after}");
    assert_eq!(hard_limit.limit(), 300 * MIB, "the limit is put back");
    assert_eq!(hard_limit.number("get", "oom"), 0);
    // A limit below the charge reclaims, too; then a large `reclaim` takes all that it can.
    assert_eq!(hard_limit.execute("max 83886080"), "ok");
    assert!(hard_limit.number("get", "charged") <= 80 * MIB);
    // Regression: while the counters were refreshed, the kernel always found some page that the
    // program had just refaulted, and this reclaim ended only when the program did.
    let fell = hard_limit.number(&format!("reclaim {} 100", 1000 * MIB), "fell");
    eprintln!("all that can go: {fell}");
    assert_eq!(
        (hard_limit.limit(), hard_limit.number("get", "oom")),
        (80 * MIB, 0)
    );
    assert!(proc::is_alive(hard_limit.program));
    drop(hard_limit);
    drop(swap);
}

#[test]
fn the_guard_of_a_killed_manager_lifts_the_limit() {
    let mut hard_limit = Managed::start(&["sleep", "300"]);
    assert_eq!(hard_limit.execute("max 67108864"), "ok");
    std::fs::write(hard_limit.dir.join("memory.swappiness"), "1").expect("it is ours");
    let begin = Instant::now();
    hard_limit.kill_manager();
    wait::until("lifted", LIMIT, || is_lifted(&hard_limit.dir));
    eprintln!("lifted {:?} after the kill", begin.elapsed());
    wait::until("the guard's end", LIMIT, || {
        !proc::is_alive(hard_limit.guard)
    });
    assert_eq!(
        swappiness(&hard_limit.dir),
        swappiness(&hard_limit.dir.join(".."))
    );
    assert!(proc::is_alive(hard_limit.program));
    let said = left(&hard_limit.dir, false).expect("it is left");
    assert_eq!(said, "pids 1 max none gone false");
    send(hard_limit.program, Signal::KILL);
    wait::until("the program's end", LIMIT, || {
        !proc::is_alive(hard_limit.program)
    });
    let said = left(&hard_limit.dir, true).expect("it is left");
    assert_eq!(said, "pids 0 max none gone true");
    assert!(!hard_limit.dir.exists());
}

/// The manager is killed at any moment: before a limit is set, while the limit is lowered for
/// reclaim, or while it is restored.
#[test]
fn a_manager_killed_at_any_moment_leaves_no_limit() {
    let mut chance = Chance::from_env("wall kills");
    let hotset = programs::c("hotset");
    let swap = Swap::shared();
    let mut slowest = Duration::ZERO;
    for round in 0..12 {
        let mut hard_limit = Managed::start(&[&hotset, "48", "4", "60", "--rate", "1000"]);
        let filled = || proc::rss_anon(hard_limit.program).unwrap_or(0) > 47 * MIB;
        wait::until("filled", LIMIT, filled);
        let orders = hard_limit.orders.as_mut().expect("it listens");
        for order in [
            "max 60000000",
            "reclaim 30000000 100",
            "max 20000000",
            "lift",
        ] {
            writeln!(orders, "{order}").expect("it listens");
        }
        std::thread::sleep(chance.millis(0, 250));
        let begin = Instant::now();
        hard_limit.kill_manager();
        // A limit may be in force or not; without the guard it would stay.
        wait::until("the guard's end", LIMIT, || {
            !proc::is_alive(hard_limit.guard)
        });
        slowest = slowest.max(begin.elapsed());
        assert!(
            is_lifted(&hard_limit.dir),
            "round {round}: {}",
            hard_limit.limit()
        );
        assert!(proc::is_alive(hard_limit.program), "round {round}");
    }
    eprintln!("the slowest guard ended {slowest:?} after the kill");
    drop(swap);
}

#[test]
fn without_manager_and_guard_the_limit_stays_until_the_next_start() {
    undisturbed(killed_guard);
}

/// Kills the guard and then the manager: the limit stays until the next start. `None`: another
/// start took the cgroup over.
fn killed_guard() -> Option<()> {
    let mut hard_limit = Managed::start(&["sleep", "300"]);
    assert_eq!(hard_limit.execute("max 67108864"), "ok");
    send(hard_limit.guard, Signal::KILL);
    wait::until("the guard's end", LIMIT, || {
        !proc::is_alive(hard_limit.guard)
    });
    assert_eq!(hard_limit.execute("guard"), "false", "its manager can tell");
    hard_limit.kill_manager();
    std::thread::sleep(PROMPT);
    let limit = hard_limit.limit();
    if hard_limit.is_anothers() {
        return None;
    }
    assert_eq!(limit, 64 * MIB);
    // The dead manager's pid is now that of a living process.
    let later = hard_limit
        .dir
        .with_file_name(format!("pagetide-{}-1", std::process::id()));
    std::fs::rename(&hard_limit.dir, &later).expect("version 1 renames groups");
    hard_limit.dir = later;
    let said = left(&hard_limit.dir, true);
    // Another start of pagetide has taken over the cgroup.
    if said.as_deref().is_none_or(|said| said.contains("max none")) {
        return None;
    }
    assert_eq!(said.as_deref(), Some("pids 1 max 67108864 gone false"));
    assert!(is_lifted(&hard_limit.dir) && proc::is_alive(hard_limit.program));
    Some(())
}

#[test]
fn a_dismissed_guard_keeps_the_limit() {
    undisturbed(dismissed_guard);
}

fn dismissed_guard() -> Option<()> {
    let mut hard_limit = Managed::start(&["sleep", "300"]);
    assert_eq!(hard_limit.execute("max 67108864"), "ok");
    assert_eq!(hard_limit.execute("dismiss"), "ok");
    wait::until("the guard's end", LIMIT, || {
        !proc::is_alive(hard_limit.guard)
    });
    hard_limit.kill_manager();
    std::thread::sleep(Duration::from_millis(300));
    let limit = hard_limit.limit();
    if hard_limit.is_anothers() {
        return None;
    }
    assert_eq!(limit, 64 * MIB);
    Some(())
}

#[test]
fn without_a_writable_hierarchy_nothing_is_started() {
    let _serial = serial();
    let marker = std::env::temp_dir().join(format!("pagetide-wall-{}", std::process::id()));
    let marker = marker.to_string_lossy().into_owned();
    let run = |wrap: &[&str]| {
        let command = [&example(), "manage", "touch", &marker].map(str::to_owned);
        Run::new(wrap.iter().map(|word| (*word).to_owned()).chain(command)).finish(LIMIT)
    };
    let setup = "mount -o remount,bind,ro /sys/fs/cgroup/memory && exec \"$@\"";
    let outcome = run(&["unshare", "--mount", "sh", "-c", setup, "sh"]);
    assert_eq!(outcome.status.code(), Some(3), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("mounted read-only"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("remount,rw"), "{}", outcome.stderr);
    let outcome = run(&["setpriv", "--reuid", "65534", "--clear-groups"]);
    assert_eq!(outcome.status.code(), Some(3), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("Permission denied"),
        "{}",
        outcome.stderr
    );
    let setup = "umount /sys/fs/cgroup/memory && exec \"$@\"";
    let outcome = run(&["unshare", "--mount", "sh", "-c", setup, "sh"]);
    assert_eq!(outcome.status.code(), Some(3), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("no memory controller"),
        "{}",
        outcome.stderr
    );
    assert!(!Path::new(&marker).exists(), "the program ran");
}

/// Delay of the thread that refreshes the kernel's counters from which on the kernel may use stale
/// counters (docs/known-gaps.md: the thread must run in time).
const LATE: Duration = Duration::from_millis(10);

/// Calls `done`; returns the longest time that a sleep of 1 ms took meanwhile, on any processor, in
/// a thread with the priority of the one that refreshes the counters.
fn longest_delay(done: impl FnOnce()) -> Duration {
    let (stop, ours) = (
        AtomicBool::new(false),
        sched_getaffinity(None).expect("ours"),
    );
    let beats = |place: usize| {
        let mut only = CpuSet::new();
        only.set(place);
        sched_setaffinity(None, &only).expect("one of ours");
        rustix::process::setpriority_process(None, -20).expect("tests run as root");
        let mut longest = Duration::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let begin = Instant::now();
            std::thread::sleep(Duration::from_millis(1));
            longest = longest.max(begin.elapsed());
        }
        longest
    };
    std::thread::scope(|scope| {
        let places = (0..CpuSet::MAX_CPU).filter(|place| ours.is_set(*place));
        let all: Vec<_> = places
            .map(|place| scope.spawn(move || beats(place)))
            .collect();
        done();
        stop.store(true, Ordering::Relaxed);
        let ended = all.into_iter().map(|one| one.join().expect("it sleeps"));
        ended.max().unwrap_or_default()
    })
}

/// Regression: in one of ten runs of all tests, the kernel killed a program at its limit a second
/// after its start, with its swap nearly empty. The kernel sums the sizes of its LRU lists every
/// two seconds. If a program uses all of its memory within that time, the whole inactive list is
/// empty, and the kernel does not know that it must refill it (`host::hard_limit::fresh`).
#[test]
fn no_program_is_killed_while_swap_is_free() {
    let command = format!("exec {} 32 >&2", programs::c("sleeper"));
    let mut killed = Vec::new();
    for _ in 0..5 * ROUNDS {
        if killed.len() == ROUNDS {
            break;
        }
        let swap = Swap::shared();
        let mut hard_limit = Managed::start(&["sh", "-c", &command]);
        let filled =
            || proc::number(hard_limit.program, "VmRSS").is_some_and(|bytes| bytes >= 32 * MIB);
        wait::until("it is filled", LIMIT, filled);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(hard_limit.execute("max 16777216"), "ok");
        // Reading the file refreshes the counters; within the next second only pagetide refreshes
        // them.
        let counted = std::fs::read_to_string(hard_limit.dir.join("memory.stat"));
        assert!(counted.is_ok(), "{counted:?}");
        let late = longest_delay(|| {
            for _ in 0..3 {
                send(hard_limit.program, Signal::USR2);
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        match hard_limit.number("get", "oom") {
            kills if kills > 0 && late > LATE => {
                eprintln!("killed, and a processor was away for {late:?}");
            }
            kills => killed.push(kills),
        }
        drop(hard_limit);
        drop(swap);
    }
    assert_eq!(killed, [0; ROUNDS]);
}
