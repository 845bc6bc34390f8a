//! The binary under test and its commands.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::guard::{Outcome, Run};
use crate::temp::target_dir;

/// What a command that does its work at once may take.
pub const PROMPT: Duration = Duration::from_secs(60);

/// Evicts everything that was not touched for a moment, as fast as it can.
pub const EVICT_FAST: [&str; 6] = [
    "--evict-older-than",
    "1ms",
    "--every",
    "20ms",
    "--age-every",
    "20ms",
];

/// `PAGETIDE_BIN`, or the release or debug build beside the tests.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn binary() -> String {
    let built = ["release/pagetide", "debug/pagetide"].map(|name| target_dir().join(name));
    let given = std::env::var_os("PAGETIDE_BIN").map(PathBuf::from);
    let found = given.into_iter().chain(built).find(|path| path.is_file());
    let found = found.expect("no pagetide binary: cargo build --release, or set PAGETIDE_BIN");
    found.to_string_lossy().into_owned()
}

/// `pagetide` with these arguments.
#[must_use]
pub fn command<S: Into<String>>(args: impl IntoIterator<Item = S>) -> Run {
    Run::new(std::iter::once(binary()).chain(args.into_iter().map(Into::into)))
}

/// `pagetide run OPTIONS -- COMMAND`.
#[must_use]
pub fn run(options: &[&str], command: &Run) -> Run {
    let mut prefix = vec![binary(), "run".to_owned()];
    prefix.extend(options.iter().map(|word| (*word).to_owned()));
    prefix.push("--".to_owned());
    command.under(prefix)
}

/// `pagetide VERB PID`, done.
#[must_use]
pub fn on(verb: &str, pid: u32) -> Outcome {
    command([verb, &pid.to_string()]).finish(PROMPT)
}

/// `pagetide report PID --json` of a managed process.
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

/// `pagetide stat PID --json`; none if there is nothing to tell.
#[must_use]
pub fn stat(pid: u32) -> Option<Value> {
    let outcome = command(["stat", &pid.to_string(), "--json"]).finish(PROMPT);
    let stat: Option<Value> = serde_json::from_str(&outcome.stdout).ok();
    stat.filter(|_| outcome.status.success())
}

/// Like [`report`], but `None` while the process is not (yet) managed: nobody's process has a report,
/// too, of its ages alone, and that one takes ten seconds.
#[must_use]
pub fn try_report(pid: u32) -> Option<Value> {
    if !on("stat", pid).status.success() {
        return None;
    }
    let outcome = command(["report", &pid.to_string(), "--json"]).finish(PROMPT);
    let report: Option<Value> = serde_json::from_str(&outcome.stdout).ok();
    report.filter(|_| outcome.status.success())
}
