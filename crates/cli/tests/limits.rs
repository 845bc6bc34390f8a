//! Commands under resource limits of their caller: each ends with an exit code, never by a signal
//! or a panic.
#![forbid(unsafe_code)]

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest accepted time of one command.
const LIMIT: Duration = Duration::from_secs(60);

/// A user id that only this test uses, so that no other process counts against its limits.
const USER: &str = "61357";

/// A small experiment of `pagetide sim`.
const SMALL: &str = "name = \"small\"\n[run]\nduration = \"1s\"\n[[tenant]]\nname = \"a\"\n\
    memory-max = \"1M\"\nwork = [{ pattern = \"zipf\", exponent = 1, size = \"2M\", rate = 200 }]\n\
    [sweep]\n\"run.seed\" = [1, 2, 3]\n";

/// A directory of one test; `Drop` removes it.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let name = format!("pagetide-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        std::fs::write(dir.join("small.toml"), SMALL).expect("written");
        let lines: String = (0..2000).map(|n| format!("{n}\n")).collect();
        std::fs::write(dir.join("trace.csv"), lines).expect("written");
        Self(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An idle process to report; `Drop` kills it.
struct IdleProgram(Child);

impl Drop for IdleProgram {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn idle_program() -> IdleProgram {
    IdleProgram(Command::new("sleep").arg("600").spawn().expect("sleep"))
}

/// Runs a command with files as its outputs. Returns its exit code (`None` if a signal ended it),
/// the signal (`None` if it exited), and its standard error.
fn ended(command: &mut Command, dir: &Path) -> (Option<i32>, Option<i32>, String) {
    let (out, err) = (dir.join("out"), dir.join("err"));
    let file = |path: &Path| File::create(path).expect("writable");
    command.stdin(Stdio::null()).current_dir(dir);
    let child = command.stdout(file(&out)).stderr(file(&err)).spawn();
    let mut child = child.expect("it starts");
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("ours") {
            break status;
        }
        if begin.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command:?} goes on");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let said = std::fs::read(err).expect("readable");
    let said = String::from_utf8_lossy(&said).into_owned();
    (status.code(), status.signal(), said)
}

/// Commands to run under each limit; `pid`: the process that they name.
fn commands(pid: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["completions", "bash"],
        vec!["doctor", "--json"],
        vec!["mrc", "--csv", "trace.csv"],
        vec!["mrc", "--html", "page.html", "trace.csv"],
        vec![
            "report",
            pid,
            "--for",
            "400ms",
            "--age-every",
            "100ms",
            "--json",
        ],
        vec!["sim", "small.toml"],
        vec!["sim", "--out", "results", "small.toml"],
        vec!["stat", pid],
    ]
}

/// Whether the kernel and the loader can start the program under this limit. If not, no test of the
/// program is possible.
fn begins(limit: &str, dir: &Path) -> bool {
    let mut loader = Command::new("prlimit");
    loader.args([limit, "--", "env", "LD_TRACE_LOADED_OBJECTS=1"]);
    ended(loader.arg(env!("CARGO_BIN_EXE_pagetide")), dir).0 == Some(0)
}

/// Regression: beyond a limit of file sizes each command was ended by SIGXFSZ; with a small stack
/// or little memory by SIGABRT.
#[test]
fn no_limit_ends_a_command_by_a_signal_or_a_panic() {
    let (dir, idle_program) = (Dir::new("limits"), idle_program());
    let pid = idle_program.0.id().to_string();
    let mut tried = 0;
    for limit in [
        "--fsize=0",
        "--fsize=1",
        "--fsize=4096",
        "--stack=65536",
        "--stack=200000",
        "--data=1000000",
        "--data=4000000",
        "--as=80000000",
        "--nofile=0",
        "--nofile=3",
        "--nofile=5",
        "--nofile=9",
        "--memlock=0",
        "--sigpending=0",
        "--msgqueue=0",
        "--locks=0",
        "--nice=0",
        "--rtprio=0",
        "--rttime=0",
        "--rss=0",
        "--core=0",
    ] {
        if !begins(limit, &dir.0) {
            continue;
        }
        tried += 1;
        for words in commands(&pid) {
            let mut command = Command::new("prlimit");
            command.args([limit, "--", env!("CARGO_BIN_EXE_pagetide")]);
            let (code, signal, said) = ended(command.args(&words), &dir.0);
            assert_eq!(signal, None, "{limit} {words:?}: {said}");
            assert!(
                code.is_some_and(|code| code <= 3),
                "{limit} {words:?}: {code:?} {said}"
            );
            assert!(!said.contains("panicked"), "{limit} {words:?}: {said}");
        }
    }
    assert!(
        tried > 12,
        "of most limits the loader knows nothing: {tried}"
    );
}

/// A Python program with 60 child processes, which end when their parent ends.
const FAMILY: &str = "
import os, time
first = os.getpid()
some = b'x' * (4 << 20)
for number in range(60):
    if os.fork() == 0:
        break
if os.getpid() == first:
    print(flush=True)
while os.getpid() == first or os.getppid() == first:
    time.sleep(.2)
";

/// Regression: with a limit of real-time processor time (ulimit -R) the kernel killed `report`,
/// which reads small processes at real-time priority, if a timer tick came meanwhile.
#[test]
fn a_limit_of_real_time_does_not_kill_a_report() {
    let dir = Dir::new("real-time");
    let family = Command::new("python3")
        .args(["-c", FAMILY])
        .stdout(Stdio::piped())
        .spawn();
    let mut family = IdleProgram(family.expect("python3"));
    let said = family.0.stdout.as_mut().expect("piped");
    std::io::Read::read_exact(said, &mut [0]).expect("it has begun");
    let pid = family.0.id().to_string();
    for limit in ["--rttime=0", "--rttime=1000"] {
        let mut command = Command::new("prlimit");
        command.args([limit, "--", env!("CARGO_BIN_EXE_pagetide"), "report", &pid]);
        command.args(["--for", "1s", "--age-every", "100ms", "--json"]);
        let (code, signal, said) = ended(&mut command, &dir.0);
        assert_eq!((code, signal), (Some(0), None), "{limit}: {said}");
    }
}

/// Regression: when no more threads could be started (ulimit -u), `sim` and `report` panicked or
/// never ended.
#[test]
fn without_threads_commands_do_their_work_or_say_why_not() {
    let dir = Dir::new("threads");
    let program = dir.0.join("pagetide");
    // `cp` makes the copy: a program that a test starts meanwhile would inherit our descriptor for
    // writing, and then the copy could not be executed.
    let mut copy = Command::new("cp");
    copy.arg(env!("CARGO_BIN_EXE_pagetide")).arg(&program);
    assert!(copy.status().expect("cp").success());
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&dir.0, open).expect("ours");
    let run = |words: &[&str]| {
        let mut command = Command::new("prlimit");
        command.args([
            "--nproc=1",
            "--",
            "setpriv",
            "--reuid",
            USER,
            "--regid",
            USER,
        ]);
        command.args(["--clear-groups", "--inh-caps=-all", "--"]);
        ended(command.arg(&program).args(words), &dir.0)
    };
    for (words, codes) in [
        (&["sim", "small.toml"][..], &[0][..]),
        (&["sim", "memcg-lru", "--scale", "2048"], &[0, 1]),
        (&["mrc", "--csv", "trace.csv"], &[0]),
        (
            &["report", "1", "--for", "400ms", "--age-every", "100ms"],
            &[1, 3],
        ),
        (&["doctor"], &[0, 1, 3]),
    ] {
        let (code, signal, said) = run(words);
        assert_eq!(signal, None, "{words:?}: {said}");
        assert!(
            code.is_some_and(|code| codes.contains(&code)),
            "{words:?}: {code:?} {said}"
        );
        assert!(!said.contains("panicked"), "{words:?}: {said}");
    }
}
