//! The `pagetide` binary under test, and its commands.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::guard::{Outcome, Run};
use crate::temp::{TempDir, target_dir};

/// Time limit for a command that ends on its own at once.
pub const PROMPT: Duration = Duration::from_secs(60);

/// Options that scan every 20 ms and page out all memory that was not accessed for 1 ms.
pub const EVICT_FAST: [&str; 6] = [
    "--evict-older-than",
    "1ms",
    "--every",
    "20ms",
    "--age-every",
    "20ms",
];

/// Path of the `pagetide` binary: `PAGETIDE_BIN`, or else the release build, or else the debug
/// build.
///
/// # Panics
/// If there is no such file.
#[must_use]
pub fn binary() -> String {
    let built = ["release/pagetide", "debug/pagetide"].map(|name| target_dir().join(name));
    let given = std::env::var_os("PAGETIDE_BIN").map(PathBuf::from);
    let found = given.into_iter().chain(built).find(|path| path.is_file());
    let found = found.expect("no pagetide binary: cargo build --release, or set PAGETIDE_BIN");
    found.to_string_lossy().into_owned()
}

/// A copy of [`binary`] in `folder` that each user can run: the target directory may lie under a
/// private home directory.
///
/// # Panics
/// If there is no room for it.
#[must_use]
pub fn public_copy(folder: &TempDir) -> String {
    let copy = folder.file("pagetide");
    std::fs::copy(binary(), &copy).expect("room for a copy");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&copy, mode).expect("the mode can be set");
    copy
}

/// Checks that a command ended with this exit code, and that its error has these words and a hint.
///
/// # Panics
/// If it does not hold.
#[track_caller]
pub fn assert_refused(outcome: &Outcome, code: i32, words: &[&str]) {
    let said = &outcome.stderr;
    assert_eq!(outcome.status.code(), Some(code), "{said}");
    for word in words.iter().chain(&["hint:"]) {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

/// The command `pagetide ARGS`.
#[must_use]
pub fn command<S: Into<String>>(args: impl IntoIterator<Item = S>) -> Run {
    Run::new(std::iter::once(binary()).chain(args.into_iter().map(Into::into)))
}

/// The command `pagetide run OPTIONS -- COMMAND`.
#[must_use]
pub fn run(options: &[&str], command: &Run) -> Run {
    let mut prefix = vec![binary(), "run".to_owned()];
    prefix.extend(options.iter().map(|word| (*word).to_owned()));
    prefix.push("--".to_owned());
    command.under(prefix)
}

/// Runs `pagetide VERB PID` to its end.
#[must_use]
pub fn on(verb: &str, pid: u32) -> Outcome {
    command([verb, &pid.to_string()]).finish(PROMPT)
}

/// Runs `pagetide report PID --json` for a managed process; returns the report.
///
/// # Panics
/// If it fails or prints no JSON.
#[must_use]
pub fn report(pid: u32) -> Value {
    let outcome = command(["report", &pid.to_string(), "--json"]).finish(PROMPT);
    assert!(outcome.status.success(), "report {pid}: {}", outcome.stderr);
    serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("report {pid}: {error}: {}", outcome.stdout))
}

/// Runs `pagetide stat PID --json`; returns what it prints, or `None` if it fails.
#[must_use]
pub fn stat(pid: u32) -> Option<Value> {
    let outcome = command(["stat", &pid.to_string(), "--json"]).finish(PROMPT);
    let stat: Option<Value> = serde_json::from_str(&outcome.stdout).ok();
    stat.filter(|_| outcome.status.success())
}

/// Like [`report`], but returns `None` if the process is not managed yet, or if `report` fails.
/// `stat` is tried first: for an unmanaged process `report` takes ten seconds, and reports only its
/// page ages.
#[must_use]
pub fn try_report(pid: u32) -> Option<Value> {
    if !on("stat", pid).status.success() {
        return None;
    }
    let outcome = command(["report", &pid.to_string(), "--json"]).finish(PROMPT);
    let report: Option<Value> = serde_json::from_str(&outcome.stdout).ok();
    report.filter(|_| outcome.status.success())
}
