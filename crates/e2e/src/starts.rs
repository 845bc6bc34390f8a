//! Programs that wrap programs, started under `pagetide run`, and what must be true of each start.
//!
//! Invariant: the innermost program waits for a word of ours, so who must stand in the report is alive when it
//! is asked for.

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

const SOON: Duration = Duration::from_secs(30);

/// The innermost program: says who it is, waits for a word, and answers.
const INNER: &str = "id -un; echo $$ >> $DIR/pids; read word < $DIR/go; echo answer $word; exit 7";

/// Each kind's name and its command.
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
    // A file of root's with the set-user-id bit, started by an ordinary user, who may not trace it; `-p` so that the shell keeps the rights.
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

/// A directory that any user may use, with the channel to the innermost program.
struct Stage {
    folder: TempDir,
}

impl Stage {
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

    fn command(&self, kind: &[&str]) -> Run {
        let dir = self.folder.path().to_string_lossy();
        Run::new(kind.iter().copied())
            .env("DIR", &dir)
            .env("INNER", INNER)
    }

    /// The innermost process, once it waits.
    fn inner(&self) -> Result<u32, String> {
        let read = || {
            let text = fs::read_to_string(self.folder.path().join("pids")).ok()?;
            text.trim().parse().ok()
        };
        wait::poll(SOON, read).ok_or_else(|| "the innermost program does not run".to_owned())
    }

    /// Lets the innermost program go on, and waits for the end of all; what they said and how they ended.
    fn end(&self, running: &mut Running, inner: u32) -> Result<String, String> {
        // Open for both ways nobody waits for the other end.
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
        // A parent and the child that outlives it speak in any order.
        let (stdout, stderr) = (running.stdout(), running.stderr());
        let mut lines: Vec<&str> = stdout.lines().collect();
        lines.sort_unstable();
        Ok(format!("{status} {lines:?} {stderr:?}"))
    }
}

/// What one start of a kind says without pagetide, and how it ends.
///
/// # Errors
/// It does not end.
pub fn alone(kind: &[&str]) -> Result<String, String> {
    let stage = Stage::set();
    let mut running = stage.command(kind).start();
    let inner = stage.inner()?;
    stage.end(&mut running, inner)
}

/// What the manager and the kernel know of a process of which nothing leaves.
fn why_not(manager: u32, pid: u32) -> String {
    let report = control::ask(manager, r#"{"op":"report"}"#);
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

/// One start of a kind under `pagetide run`, while everything cold leaves: its answer is that of the program alone, its innermost
/// process stands in the report while it lives, has memory in swap by the kernel's count, and the last report comes.
///
/// # Errors
/// What was not so.
pub fn managed(kind: &[&str], alone: &str) -> Result<(), String> {
    let stage = Stage::set();
    let report = stage.folder.file("report.json");
    let options = [&POLICY[..], &["--report", &report]].concat();
    let mut running = pagetide::run(&options, &stage.command(kind)).start();
    let pid = running.pid();
    let inner = stage
        .inner()
        .map_err(|why| format!("{why}\n{}", running.state()))?;
    let is_told = || {
        let report = control::ask(pid, r#"{"op":"report"}"#)?;
        let processes = report["report"]["processes"].as_array()?.clone();
        processes
            .iter()
            .any(|one| one["pid"] == inner)
            .then_some(())
    };
    let told = wait::poll(SOON, is_told);
    let is_out = || (proc::number(inner, "VmSwap")? > 0).then_some(());
    let left = wait::poll(SOON, is_out);
    let state = running.state();
    let why = left.map_or_else(|| why_not(pid, inner), |()| String::new());
    let said = stage.end(&mut running, inner)?;
    if told.is_none() {
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
    // The manager carries the mark of what it manages: it ends before that is dropped.
    let last = wait::poll(SOON, last)
        .ok_or_else(|| format!("the last report does not come\n{}", running.state()))?;
    match last["pid"] == pid {
        true => Ok(()),
        false => Err(format!("the last report is of another: {last}")),
    }
}
