//! Commands that start other commands (such as sh, su or timeout), each run under `pagetide run`,
//! and the checks of each.
//!
//! Invariant: the innermost program waits for a word from the test, so each process that must be in
//! the report is alive when the report is requested.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::guard::{Run, Running};
use crate::notice::POLICY;
use crate::temp::TempDir;
use crate::{control, pagetide, proc, wait};

/// Time limit of each wait.
const SOON: Duration = Duration::from_secs(30);

/// The innermost program, a shell script: prints its user, waits for a word, and prints it.
const INNER: &str = "id -un; echo $$ >> $DIR/pids; read word < $DIR/go; echo answer $word; exit 7";

/// Name and command of each kind of start.
pub const KINDS: [(&str, &[&str]); 10] = [
    ("sh", &["sh", "-c", "sh -c \"$INNER\"; exit $?"]),
    ("su", &["su", "nobody", "-s", "/bin/sh", "-c", INNER]),
    ("setsid", &["setsid", "-w", "sh", "-c", INNER]),
    ("timeout", &["timeout", "60", "sh", "-c", INNER]),
    ("nice", &["nice", "-n", "3", "sh", "-c", INNER]),
    ("env", &["env", "X=1", "sh", "-c", INNER]),
    ("shim", &["sh", "-c", "exec sh -c 'exec sh -c \"$INNER\"'"]),
    (
        "orphan",
        &["sh", "-c", "sh -c \"$INNER\" & echo parent; exit 5"],
    ),
    // A program with the set-user-id bit of root, started by an ordinary user, who may not trace
    // it. `-p` makes the shell keep root's rights.
    (
        "setuid",
        &[
            "sh",
            "-c",
            "cp \"$(command -v env)\" $DIR/gains && chmod 4755 $DIR/gains && \
             exec setpriv --reuid=65534 --regid=65534 --clear-groups -- $DIR/gains sh -p -c \"$INNER\"",
        ],
    ),
    (
        "chain",
        &[
            "timeout", "60", "nice", "-n", "1", "env", "X=1", "setsid", "-w", "su", "nobody", "-s",
            "/bin/sh", "-c", INNER,
        ],
    ),
];

/// A directory that any user may use, with the pipe through which the innermost program gets its
/// word.
struct Stage {
    /// The directory; it holds the pipe `go` and the file `pids`.
    folder: TempDir,
}

impl Stage {
    /// Makes the directory, the pipe, and the file in which the innermost program writes its pid.
    fn set() -> Stage {
        let folder = TempDir::public();
        let made = Command::new("mkfifo").arg(folder.file("go")).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo");
        File::create(folder.path().join("pids")).expect("a file can be made");
        for name in ["go", "pids"] {
            let mode = fs::Permissions::from_mode(0o666);
            fs::set_permissions(folder.path().join(name), mode).expect("the mode can be set");
        }
        Stage { folder }
    }

    /// The command of a kind of start.
    fn command(&self, kind: &[&str]) -> Run {
        let dir = self.folder.path().to_string_lossy();
        Run::new(kind.iter().copied())
            .env("DIR", &dir)
            .env("INNER", INNER)
    }

    /// Waits until the innermost program runs; returns its pid.
    fn inner(&self) -> Result<u32, String> {
        let read = || {
            let text = fs::read_to_string(self.folder.path().join("pids")).ok()?;
            text.trim().parse().ok()
        };
        wait::poll(SOON, read).ok_or_else(|| "the innermost program does not run".to_owned())
    }

    /// Sends the word, and waits for the end of all programs. Returns their exit status and what
    /// they printed, in one text.
    fn end(&self, running: &mut Running, inner: u32) -> Result<String, String> {
        // Opened for reading and writing, so that open(2) does not wait for a reader.
        let path = self.folder.path().join("go");
        let go = OpenOptions::new().read(true).write(true).open(path);
        let mut go = go.expect("made above");
        go.write_all(b"yes\n").expect("a pipe has room");
        let over = || {
            let status = running.ended()?;
            (!proc::is_alive(inner)).then_some(status)
        };
        let status = wait::poll(SOON, over);
        let status = status.ok_or_else(|| format!("it does not end\n{}", running.state()))?;
        // A parent and a child that outlives it print in any order.
        let (stdout, stderr) = (running.stdout(), running.stderr());
        let mut lines: Vec<&str> = stdout.lines().collect();
        lines.sort_unstable();
        Ok(format!("{status} {lines:?} {stderr:?}"))
    }
}

/// Runs a kind of start without pagetide; returns its exit status and output, in one text.
///
/// # Errors
/// If it does not end.
pub fn alone(kind: &[&str]) -> Result<String, String> {
    let stage = Stage::set();
    let mut running = stage.command(kind).start();
    let inner = stage.inner()?;
    stage.end(&mut running, inner)
}

/// Text for the message if nothing of a process is swapped out: what the manager and the kernel
/// report of it.
fn why_not(manager: u32, pid: u32) -> String {
    let report = control::request(manager, r#"{"op":"report"}"#);
    let kernel = ["status", "smaps_rollup"].map(|name| {
        let text = fs::read_to_string(format!("/proc/{pid}/{name}"));
        text.unwrap_or_default()
    });
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    format!(
        "report: {}\n{}\n{swaps}",
        report.unwrap_or_default(),
        kernel.concat()
    )
}

/// Runs a kind of start under `pagetide run`, while all cold memory is swapped out. Checks that:
/// - exit status and output are `alone`, those of the run without pagetide;
/// - the innermost process is in the report while it lives;
/// - the innermost process has memory in swap by the kernel's count;
/// - the last report is written.
///
/// # Errors
/// Says which check failed.
pub fn managed(kind: &[&str], alone: &str) -> Result<(), String> {
    let stage = Stage::set();
    let report = stage.folder.file("report.json");
    let options = [&POLICY[..], &["--report", &report]].concat();
    let mut running = pagetide::run(&options, &stage.command(kind)).start();
    let pid = running.pid();
    let inner = stage
        .inner()
        .map_err(|why| format!("{why}\n{}", running.state()))?;
    let is_reported = || {
        let report = control::request(pid, r#"{"op":"report"}"#)?;
        let processes = report["report"]["processes"].as_array()?.clone();
        processes
            .iter()
            .any(|one| one["pid"] == inner)
            .then_some(())
    };
    let reported = wait::poll(SOON, is_reported);
    let is_out = || (proc::number(inner, "VmSwap")? > 0).then_some(());
    let left = wait::poll(SOON, is_out);
    let state = running.state();
    let why = left.map_or_else(|| why_not(pid, inner), |()| String::new());
    let said = stage.end(&mut running, inner)?;
    if reported.is_none() {
        return Err(format!("{inner} is not in the report of {pid}\n{state}"));
    }
    if left.is_none() {
        return Err(format!("nothing of {inner} has left\n{state}\n{why}"));
    }
    if said != alone {
        return Err(format!("{said} instead of {alone}"));
    }
    let last = || {
        let text = fs::read_to_string(&report).ok()?;
        serde_json::from_str::<Value>(&text).ok()
    };
    // The manager has the mark of its program, so it is killed if `running` is dropped before it
    // ends.
    let last = wait::poll(SOON, last)
        .ok_or_else(|| format!("the last report does not come\n{}", running.state()))?;
    match last["pid"] == pid {
        true => Ok(()),
        false => Err(format!("the last report is of another: {last}")),
    }
}
