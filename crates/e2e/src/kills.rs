//! Kills pagetide with SIGKILL at a random instant. Then checks that the program works, that
//! another manager can take it over, and that nothing remains on the host.
//!
//! Invariant: only processes of the trial are killed. They are found by the trial's mark or by its
//! control socket, and each is killed by its pid. Every trial removes its program, also when it
//! fails.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::guard::{Run, Running, send};
use crate::temp::TempDir;
use crate::wait::Chance;
use crate::{control, pagetide, proc, programs, wait};

/// Time limit for each event that a trial waits for.
const SOON: Duration = Duration::from_secs(30);
/// Memory of the program, MiB; a tenth of it is in constant use.
const MIB: u64 = 48;
/// Options by which pagetide scans and pages out ten times a second, far more often than users
/// choose.
const BUSY: [&str; 6] = [
    "--evict-older-than",
    "200ms",
    "--every",
    "100ms",
    "--age-every",
    "100ms",
];

/// Which processes of pagetide are killed, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kill {
    /// The manager; no limit is set, so there is no guard.
    Manager,
    /// The manager; its guard must remove the limit.
    WithLimit,
    /// The guard, then the manager: the hard-limit cgroup stays until pagetide is started again.
    Both,
    /// All processes of pagetide, within 150 ms of the start.
    Start,
}

/// All kinds of kill, in the order in which trials use them.
pub const KILLS: [Kill; 4] = [Kill::Manager, Kill::WithLimit, Kill::Both, Kill::Start];

/// Number of workers of the pre-fork server.
const WORKERS: u64 = 2;

/// The program whose manager is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// A program of one process.
    Single,
    /// A pre-fork server, whose workers access the memory.
    Forked,
}

/// The kill and the program of trial `number`. Kinds of kill take turns; for each of them every
/// fourth trial uses a pre-fork server.
#[must_use]
pub fn trial(number: usize) -> (Kill, Program) {
    let at = number % KILLS.len();
    let is_forked = (number / KILLS.len()) % 4 == at;
    let program = if is_forked {
        Program::Forked
    } else {
        Program::Single
    };
    (KILLS[at], program)
}

/// How fast the program accesses its memory, in accesses per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speed {
    /// Accesses per second of the program's own processor time.
    pub by_cpu: f64,
    /// Accesses per second of elapsed time, so time that the program waits counts.
    pub by_clock: f64,
}

/// Time over which a speed is measured.
const WINDOW: Duration = Duration::from_millis(300);

/// A running program, with its manager if it has one.
struct Trial {
    folder: TempDir,
    running: Running,
}

impl Trial {
    /// Starts the program: under `pagetide run OPTIONS` if `options` are given, else alone.
    fn start(program: Program, options: Option<&[&str]>) -> Trial {
        let folder = TempDir::new();
        let mut words = vec![
            programs::c("checked"),
            MIB.to_string(),
            folder.file("progress"),
        ];
        words.extend((program == Program::Forked).then(|| WORKERS.to_string()));
        let program = Run::new(words);
        let running = match options {
            Some(options) => pagetide::run(options, &program).start(),
            None => program.start(),
        };
        Trial { folder, running }
    }

    /// Pid of the program.
    fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Word `number` of the progress file: 0 is the number of accesses, 1 the processor time in ns,
    /// 2 is 1 once the program works.
    fn progress_word(&self, number: u64) -> u64 {
        let mut bytes = [0; 8];
        let read = File::open(self.folder.path().join("progress"))
            .and_then(|file| file.read_exact_at(&mut bytes, number * 8));
        read.map_or(0, |()| u64::from_ne_bytes(bytes))
    }

    /// Waits until the program works or has ended.
    fn wait_ready(&mut self) -> Result<(), String> {
        let running = &mut self.running;
        let path = self.folder.path().join("progress");
        let came = wait::poll(SOON, || {
            let bytes = std::fs::read(&path).unwrap_or_default();
            (bytes.get(16) == Some(&1) || running.ended().is_some()).then_some(())
        });
        came.ok_or_else(|| format!("the program does not work\n{}", self.running.state()))
    }

    /// Measures the program's speed during `window`.
    fn speed(&self, window: Duration) -> Speed {
        let (begin, clock) = (
            (self.progress_word(0), self.progress_word(1)),
            Instant::now(),
        );
        std::thread::sleep(window);
        let cpu = self.progress_word(1).saturating_sub(begin.1);
        let touches = (self.progress_word(0) - begin.0) as f64;
        Speed {
            by_cpu: touches / (cpu.max(1) as f64 / 1e9),
            by_clock: touches / clock.elapsed().as_secs_f64(),
        }
    }

    /// Pids of pagetide's processes beside the program, each with true for a guard, false for a
    /// manager.
    fn pagetide_processes(&self) -> Vec<(u32, bool)> {
        let of = |pid: u32| {
            let words = proc::read(pid, "cmdline")?;
            let mut words = words.split('\0').skip(1);
            let word = words.next()?;
            matches!(word, "__manager" | "__guard").then_some((pid, word == "__guard"))
        };
        self.running.tree().into_iter().filter_map(of).collect()
    }

    /// Kills guards, then managers, as `kill` says; returns the number of killed processes.
    ///
    /// Waits until the killed processes are gone. A process that is killed within a call that pages
    /// out first ends that call; while the machine also ran a build, that took more than 400 ms.
    fn kill(&self, kill: Kill) -> usize {
        let pagetide_processes = self.pagetide_processes();
        let of = |guards: bool| {
            pagetide_processes
                .iter()
                .filter(move |(_, is_guard)| *is_guard == guards)
        };
        let guards = of(true).filter(|_| matches!(kill, Kill::Both | Kill::Start));
        let victims: Vec<u32> = guards.chain(of(false)).map(|(pid, _)| *pid).collect();
        victims.iter().for_each(|pid| send(*pid, Signal::KILL));
        // A process that still exists after this wait makes the next check fail.
        let has_sockets = |pid: &u32| {
            let files = std::fs::read_dir(format!("/proc/{pid}/fd"));
            files.is_ok_and(|mut files| files.next().is_some())
        };
        let _ = wait::poll(SOON, || (!victims.iter().any(has_sockets)).then_some(()));
        victims.len()
    }

    /// Ends the program by SIGTERM, and checks its output, exit status and what remains of
    /// pagetide.
    fn end(mut self) -> Result<(), String> {
        self.running.signal(Signal::TERM);
        let running = &mut self.running;
        let status = wait::poll(SOON, || running.ended());
        let said = format!(
            "{:?} {:?} {:?}",
            status.and_then(|s| s.code()),
            self.running.stdout(),
            self.running.stderr()
        );
        let right = format!("Some(7) \"right {}\\n\" \"\"", MIB * 256);
        if said != right {
            return Err(format!("the answer is {said}\n{}", self.running.state()));
        }
        self.check_nothing_left()
    }

    /// Checks that nothing of pagetide remains once the program has ended.
    fn check_nothing_left(&self) -> Result<(), String> {
        let pid = self.pid();
        let left = || {
            let pagetide_processes = self.pagetide_processes();
            (pagetide_processes.is_empty() && !control::has_listener(pid)).then_some(())
        };
        let gone = wait::poll(SOON, left);
        gone.ok_or_else(|| {
            format!(
                "left behind: {:?}\n{}",
                self.pagetide_processes(),
                self.running.state()
            )
        })
    }
}

/// Path of the hard-limit cgroup that a process is in; `None` if it is in no such group.
#[must_use]
pub fn hard_limit_of(pid: u32) -> Option<PathBuf> {
    let text = proc::read(pid, "cgroup")?;
    let line = text.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers
            .split(',')
            .any(|one| one == "memory")
            .then_some(path)
    })?;
    let path = Path::new("/sys/fs/cgroup/memory").join(line.trim_start_matches('/'));
    let is_ours = path.file_name()?.to_str()?.starts_with("pagetide-");
    (is_ours && path.is_dir()).then_some(path)
}

/// Memory limit of the hard-limit cgroup, bytes; `None` if it has no limit or does not exist.
fn limit(hard_limit: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(hard_limit.join("memory.limit_in_bytes")).ok()?;
    let bytes: u64 = text.trim().parse().ok()?;
    (bytes < 1 << 60).then_some(bytes)
}

/// Runs one trial; returns the program's speed after the kill, or `None` for [`Kill::Start`], where
/// no speed is measured.
///
/// # Errors
/// Says which check failed.
pub fn run_trial(
    kill: Kill,
    program: Program,
    chance: &mut Chance,
) -> Result<Option<Speed>, String> {
    match kill {
        Kill::Start => at_start(program, chance).map(|()| None),
        kill => in_the_middle(kill, program, chance).map(Some),
    }
}

/// Measures the program's speed without pagetide.
///
/// # Errors
/// If the program does not work.
pub fn speed_alone(program: Program) -> Result<Speed, String> {
    let mut run_trial = Trial::start(program, None);
    run_trial.wait_ready()?;
    std::thread::sleep(Duration::from_millis(100));
    let speed = run_trial.speed(WINDOW);
    run_trial.end().map(|()| speed)
}

/// Kills pagetide before, during or right after the start of the program. If it was before, `run`
/// must report an error and not run the program; otherwise the program must go on undisturbed.
fn at_start(program: Program, chance: &mut Chance) -> Result<(), String> {
    let limited = chance.below(2) == 0;
    let options: &[&str] = if limited {
        &["--memory-max", "40M"]
    } else {
        &[]
    };
    let mut run_trial = Trial::start(program, Some(options));
    let instant = Instant::now() + Duration::from_micros(chance.below(150_000));
    while Instant::now() < instant {
        std::hint::spin_loop();
    }
    // A process that is just being started is not in the list yet, so the list must be empty three
    // times in a row. Regression: a process in the middle of its exec, when it has no command line,
    // was not killed.
    let (mut killed, mut empty) = (0, 0);
    let end = Instant::now() + Duration::from_millis(500);
    while Instant::now() < end && empty < 3 {
        let more = run_trial.kill(Kill::Start);
        killed += more;
        empty = if killed == 0 || more > 0 {
            0
        } else {
            empty + 1
        };
        if empty > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    if killed == 0 {
        return Err("nobody was killed".to_owned());
    }
    run_trial.wait_ready()?;
    if let Some(status) = run_trial.running.ended() {
        let said = run_trial.running.stderr();
        let refused =
            status.code() == Some(1) && said.contains("cannot run") && said.contains("hint:");
        let ran = run_trial.progress_word(2) == 1 || !run_trial.running.stdout().is_empty();
        if ran || !refused {
            return Err(format!("ended with {status} instead of an error: {said}"));
        }
        return run_trial.check_nothing_left();
    }
    attach_again(&run_trial, &[], chance)?;
    run_trial.end()
}

/// Kills pagetide at a random instant while the program works; returns the program's speed after
/// that.
fn in_the_middle(kill: Kill, program: Program, chance: &mut Chance) -> Result<Speed, String> {
    let mut options = BUSY.to_vec();
    if kill != Kill::Manager {
        options.extend(["--memory-max", "40M"]);
    }
    let mut run_trial = Trial::start(program, Some(&options));
    run_trial.wait_ready()?;
    let pid = run_trial.pid();
    std::thread::sleep(chance.millis(20, 1200));
    if chance.below(2) == 0 {
        change_limits(pid, kill)?;
    }
    let hard_limit = hard_limit_of(pid);
    if hard_limit.is_some() != (kill != Kill::Manager) {
        return Err(format!("{kill:?}: the wall is {hard_limit:?}"));
    }
    if run_trial.kill(kill) == 0 {
        return Err(format!("nobody to kill\n{}", run_trial.running.state()));
    }
    if let (Kill::WithLimit, Some(hard_limit)) = (kill, &hard_limit) {
        let lifted = wait::poll(SOON, || limit(hard_limit).is_none().then_some(()));
        lifted.ok_or_else(|| format!("{} keeps its limit", hard_limit.display()))?;
    }
    if let (Kill::Both, Some(hard_limit)) = (kill, &hard_limit)
        && limit(hard_limit).is_none()
    {
        return Err(format!(
            "{} has no limit, and nobody lifted it",
            hard_limit.display()
        ));
    }
    // During this time the pages in use that were swapped out are swapped in.
    std::thread::sleep(Duration::from_millis(100));
    let after = run_trial.speed(WINDOW);
    attach_again(&run_trial, &["--memory-high", "44M"], chance)?;
    run_trial.end()?;
    match hard_limit.filter(|hard_limit| hard_limit.exists()) {
        Some(hard_limit) => next_start_removes(&hard_limit).map(|()| after),
        None => Ok(after),
    }
}

/// Sets another limit, 42 MiB, by the control socket, and checks that it is in force.
fn change_limits(pid: u32, kill: Kill) -> Result<(), String> {
    let limits = |line: &str| Some(control::request(pid, line)?["limits"].clone());
    let mut now = limits(r#"{"op":"limits"}"#).ok_or("no answer about limits")?;
    let other = if kill == Kill::Manager { "high" } else { "max" };
    now[other] = json!(42 << 20);
    let reported = limits(&json!({"op": "limits", "set": now}).to_string());
    let is_set = reported
        .as_ref()
        .is_some_and(|reported| *reported != Value::Null);
    if !is_set {
        return Err(format!("limits {now} were answered by {reported:?}"));
    }
    let Some(hard_limit) = hard_limit_of(pid) else {
        return Ok(());
    };
    let changed = wait::poll(SOON, || {
        (limit(&hard_limit) == Some(42 << 20)).then_some(())
    });
    changed.ok_or_else(|| format!("{} has {:?}", hard_limit.display(), limit(&hard_limit)))
}

/// Attaches the next manager, and checks that it has the limits in `options` and no others. Then
/// kills or detaches it, by chance.
fn attach_again(run_trial: &Trial, options: &[&str], chance: &mut Chance) -> Result<(), String> {
    let pid = run_trial.pid();
    let words = ["attach", "--age-every", "100ms"].map(str::to_owned);
    let more = options.iter().map(|word| (*word).to_owned());
    let manager = pagetide::command(words.into_iter().chain(more).chain([pid.to_string()]));
    let mut manager = manager.start();
    let limits = wait::poll(SOON, || {
        if let Some(status) = manager.ended() {
            return Some(Err(format!("attach: {status}: {}", manager.stderr())));
        }
        Some(Ok(
            control::request(pid, r#"{"op":"limits"}"#)?["limits"].clone()
        ))
    });
    let limits = limits.ok_or_else(|| format!("attach is silent\n{}", manager.state()))??;
    let is_given = |name: &str| limits[name] != "max";
    if is_given("max") || is_given("high") == options.is_empty() {
        return Err(format!(
            "the next manager has {limits}, and was given {options:?}"
        ));
    }
    if chance.below(2) == 0 {
        manager.kill_and_reap();
        return Ok(());
    }
    let detached = pagetide::on("detach", pid);
    match detached.status.success() {
        true => Ok(()),
        false => Err(format!("detach: {}", detached.stderr)),
    }
}

/// Checks that the next start with a limit removes the cgroup that a killed manager did not remove.
fn next_start_removes(hard_limit: &Path) -> Result<(), String> {
    let next = pagetide::run(&["--memory-max", "64M"], &Run::new(["true"]));
    let outcome = next.finish(SOON);
    let gone = wait::poll(SOON, || (!hard_limit.exists()).then_some(()));
    gone.ok_or_else(|| {
        format!(
            "{} is left by the next start: {}",
            hard_limit.display(),
            outcome.stderr
        )
    })
}
