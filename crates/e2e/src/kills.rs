//! Pagetide killed with SIGKILL at a random instant, and what must be true of the program, of the next manager
//! and of what is left.
//!
//! Invariant: only processes of the round are killed, found by its mark or by its control socket, each by its
//! id. Every round removes its program, also when it goes wrong.

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

const SOON: Duration = Duration::from_secs(30);
/// Memory of the program; its hot part is a tenth.
const MIB: u64 = 48;
/// Looks and evictions, more often than anybody would have them.
const BUSY: [&str; 6] = [
    "--evict-older-than",
    "200ms",
    "--every",
    "100ms",
    "--age-every",
    "100ms",
];

/// Who is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kill {
    /// The manager, without a limit: there is no guard.
    Manager,
    /// The manager; its guard lifts the limit.
    Walled,
    /// The guard, then the manager: the wall stays until the next start.
    Both,
    /// All that is ours, within milliseconds of the start.
    Start,
}

/// All of them.
pub const KILLS: [Kill; 4] = [Kill::Manager, Kill::Walled, Kill::Both, Kill::Start];

/// Of the pre-fork server.
const WORKERS: u64 = 2;

/// Whose pagetide is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// One process.
    Single,
    /// A pre-fork server, whose workers do the work.
    Forked,
}

/// The kind and the program of a round: every fourth time a kind has a pre-fork server, and so has every fourth round.
#[must_use]
pub fn nth(number: usize) -> (Kill, Program) {
    let at = number % KILLS.len();
    let is_forked = (number / KILLS.len()) % 4 == at;
    let program = if is_forked {
        Program::Forked
    } else {
        Program::Single
    };
    (KILLS[at], program)
}

/// Touches a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speed {
    /// Of the program's own processor time.
    pub by_cpu: f64,
    /// Of the clock: what it waits for counts.
    pub by_clock: f64,
}

/// For one speed.
const WINDOW: Duration = Duration::from_millis(300);

/// The program of a round, its manager beside it.
struct Round {
    folder: TempDir,
    running: Running,
}

impl Round {
    /// Under `pagetide run`, or alone.
    fn start(program: Program, options: Option<&[&str]>) -> Round {
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
        Round { folder, running }
    }

    fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// A word of the program's progress.
    fn word(&self, number: u64) -> u64 {
        let mut bytes = [0; 8];
        let read = File::open(self.folder.path().join("progress"))
            .and_then(|file| file.read_exact_at(&mut bytes, number * 8));
        read.map_or(0, |()| u64::from_ne_bytes(bytes))
    }

    fn ready(&mut self) -> Result<(), String> {
        let running = &mut self.running;
        let path = self.folder.path().join("progress");
        let came = wait::poll(SOON, || {
            let bytes = std::fs::read(&path).unwrap_or_default();
            (bytes.get(16) == Some(&1) || running.ended().is_some()).then_some(())
        });
        came.ok_or_else(|| format!("the program does not work\n{}", self.running.state()))
    }

    /// For a while.
    fn speed(&self, window: Duration) -> Speed {
        let (begin, clock) = ((self.word(0), self.word(1)), Instant::now());
        std::thread::sleep(window);
        let cpu = self.word(1).saturating_sub(begin.1);
        let touches = (self.word(0) - begin.0) as f64;
        Speed {
            by_cpu: touches / (cpu.max(1) as f64 / 1e9),
            by_clock: touches / clock.elapsed().as_secs_f64(),
        }
    }

    /// Processes of ours beside the program: managers, guards, and who starts them.
    fn ours(&self) -> Vec<(u32, bool)> {
        let of = |pid: u32| {
            let words = proc::read(pid, "cmdline")?;
            let mut words = words.split('\0').skip(1);
            let word = words.next()?;
            matches!(word, "__manager" | "__guard").then_some((pid, word == "__guard"))
        };
        self.running.tree().into_iter().filter_map(of).collect()
    }

    /// Kills guards, then managers, as `kill` says; how many. Who is killed within a call that pages out ends that call
    /// first, and has its name until then: beside a build, one had it for more than 400 ms.
    fn kill(&self, kill: Kill) -> usize {
        let ours = self.ours();
        let of = |guards: bool| ours.iter().filter(move |(_, is_guard)| *is_guard == guards);
        let guards = of(true).filter(|_| matches!(kill, Kill::Both | Kill::Start));
        let victims: Vec<u32> = guards.chain(of(false)).map(|(pid, _)| *pid).collect();
        victims.iter().for_each(|pid| send(*pid, Signal::KILL));
        // What is still there then is found by what is asked next.
        let has_sockets = |pid: &u32| {
            let files = std::fs::read_dir(format!("/proc/{pid}/fd"));
            files.is_ok_and(|mut files| files.next().is_some())
        };
        let _ = wait::poll(SOON, || (!victims.iter().any(has_sockets)).then_some(()));
        victims.len()
    }

    /// Ends the program in order: its answer is right.
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
        self.clean()
    }

    /// Nothing is left once the program has ended.
    fn clean(&self) -> Result<(), String> {
        let pid = self.pid();
        let left = || {
            let ours = self.ours();
            (ours.is_empty() && !control::is_there(pid)).then_some(())
        };
        let gone = wait::poll(SOON, left);
        gone.ok_or_else(|| format!("left behind: {:?}\n{}", self.ours(), self.running.state()))
    }
}

/// The control group of ours that a process is in.
#[must_use]
pub fn wall_of(pid: u32) -> Option<PathBuf> {
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

/// Its limit; none for none.
fn limit(wall: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(wall.join("memory.limit_in_bytes")).ok()?;
    let bytes: u64 = text.trim().parse().ok()?;
    (bytes < 1 << 60).then_some(bytes)
}

/// One round; the program's speed after the kill, if that was measured.
///
/// # Errors
/// What was not as it must be.
pub fn round(kill: Kill, program: Program, chance: &mut Chance) -> Result<Option<Speed>, String> {
    match kill {
        Kill::Start => at_start(program, chance).map(|()| None),
        kill => in_the_middle(kill, program, chance).map(Some),
    }
}

/// The program's speed when it was never managed.
///
/// # Errors
/// It does not work.
pub fn alone(program: Program) -> Result<Speed, String> {
    let mut round = Round::start(program, None);
    round.ready()?;
    std::thread::sleep(Duration::from_millis(100));
    let speed = round.speed(WINDOW);
    round.end().map(|()| speed)
}

/// Killed before, at or right after the program's own start. Before it, `run` says so and starts nothing;
/// after it, the program does not notice.
fn at_start(program: Program, chance: &mut Chance) -> Result<(), String> {
    let limited = chance.below(2) == 0;
    let options: &[&str] = if limited {
        &["--memory-max", "40M"]
    } else {
        &[]
    };
    let mut round = Round::start(program, Some(options));
    let instant = Instant::now() + Duration::from_micros(chance.below(150_000));
    while Instant::now() < instant {
        std::hint::spin_loop();
    }
    // Who is being started just now is not in the list yet: it is empty three times in a row. (The story: one that was in the middle of its exec,
    // when it has no words, lived on.)
    let (mut killed, mut empty) = (0, 0);
    let end = Instant::now() + Duration::from_millis(500);
    while Instant::now() < end && empty < 3 {
        let more = round.kill(Kill::Start);
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
    round.ready()?;
    if let Some(status) = round.running.ended() {
        let said = round.running.stderr();
        let refused =
            status.code() == Some(1) && said.contains("cannot run") && said.contains("hint:");
        let ran = round.word(2) == 1 || !round.running.stdout().is_empty();
        if ran || !refused {
            return Err(format!("ended with {status} instead of an error: {said}"));
        }
        return round.clean();
    }
    attach_again(&round, &[], chance)?;
    round.end()
}

fn in_the_middle(kill: Kill, program: Program, chance: &mut Chance) -> Result<Speed, String> {
    let mut options = BUSY.to_vec();
    if kill != Kill::Manager {
        options.extend(["--memory-max", "40M"]);
    }
    let mut round = Round::start(program, Some(&options));
    round.ready()?;
    let pid = round.pid();
    std::thread::sleep(chance.millis(20, 1200));
    if chance.below(2) == 0 {
        change_limits(pid, kill)?;
    }
    let wall = wall_of(pid);
    if wall.is_some() != (kill != Kill::Manager) {
        return Err(format!("{kill:?}: the wall is {wall:?}"));
    }
    if round.kill(kill) == 0 {
        return Err(format!("nobody to kill\n{}", round.running.state()));
    }
    if let (Kill::Walled, Some(wall)) = (kill, &wall) {
        let lifted = wait::poll(SOON, || limit(wall).is_none().then_some(()));
        lifted.ok_or_else(|| format!("{} keeps its limit", wall.display()))?;
    }
    if let (Kill::Both, Some(wall)) = (kill, &wall)
        && limit(wall).is_none()
    {
        return Err(format!(
            "{} has no limit, and nobody lifted it",
            wall.display()
        ));
    }
    // What was out and is used comes back in this time.
    std::thread::sleep(Duration::from_millis(100));
    let after = round.speed(WINDOW);
    attach_again(&round, &["--memory-high", "44M"], chance)?;
    round.end()?;
    match wall.filter(|wall| wall.exists()) {
        Some(wall) => next_start_removes(&wall).map(|()| after),
        None => Ok(after),
    }
}

/// Other limits, over the control socket.
fn change_limits(pid: u32, kill: Kill) -> Result<(), String> {
    let limits = |line: &str| Some(control::ask(pid, line)?["limits"].clone());
    let mut now = limits(r#"{"op":"limits"}"#).ok_or("no answer about limits")?;
    let other = if kill == Kill::Manager { "high" } else { "max" };
    now[other] = json!(42 << 20);
    let told = limits(&json!({"op": "limits", "set": now}).to_string());
    let is_set = told.as_ref().is_some_and(|told| *told != Value::Null);
    if !is_set {
        return Err(format!("limits {now} were answered by {told:?}"));
    }
    let Some(wall) = wall_of(pid) else {
        return Ok(());
    };
    let changed = wait::poll(SOON, || (limit(&wall) == Some(42 << 20)).then_some(()));
    changed.ok_or_else(|| format!("{} has {:?}", wall.display(), limit(&wall)))
}

/// The next manager: it has the limits that it is given and no others, it works, and it is killed or lets go.
fn attach_again(round: &Round, options: &[&str], chance: &mut Chance) -> Result<(), String> {
    let pid = round.pid();
    let words = ["attach", "--age-every", "100ms"].map(str::to_owned);
    let more = options.iter().map(|word| (*word).to_owned());
    let manager = pagetide::command(words.into_iter().chain(more).chain([pid.to_string()]));
    let mut manager = manager.start();
    let limits = wait::poll(SOON, || {
        if let Some(status) = manager.ended() {
            return Some(Err(format!("attach: {status}: {}", manager.stderr())));
        }
        Some(Ok(
            control::ask(pid, r#"{"op":"limits"}"#)?["limits"].clone()
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

/// What a killed manager left is named in the documents, and the next start with a limit removes it.
fn next_start_removes(wall: &Path) -> Result<(), String> {
    let next = pagetide::run(&["--memory-max", "64M"], &Run::new(["true"]));
    let outcome = next.finish(SOON);
    let gone = wait::poll(SOON, || (!wall.exists()).then_some(()));
    gone.ok_or_else(|| {
        format!(
            "{} is left by the next start: {}",
            wall.display(),
            outcome.stderr
        )
    })
}
