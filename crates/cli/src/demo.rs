//! `pagetide demo`: the newcomer's first command.
//!
//! A workload runs twice as a separate, unmodified process: alone, to learn its peak and its speed,
//! then managed with half of that peak and the same number of operations.
//!
//! Invariant: the demo succeeds only if both runs gave the same checksum and the limit held by the
//! kernel's own measure; it prints what was measured, good or bad.

use std::ffi::OsString;
use std::time::Duration;

use pager::manage::Kernel;
use pager::options::Bytes;
use pager::report::Report;
use pager::vet::host::{Facts, State, judge};

use crate::args;
use crate::commands::Live;
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view;

mod alone;
mod outcome;
mod pages;
mod verdict;
mod workload;

use outcome::{Outcome, ResultFile};
use verdict::Verdict;

pub(crate) use workload::workload;

/// First argument of the workload's process. Not a command for people.
pub(crate) const WORKLOAD: &str = "__demo-workload";

/// Seconds that the workload touches its memory when it runs alone. All in all the demo takes three
/// to five times as long.
const SECONDS: u32 = 5;

/// MiB of the workload's data.
const SIZE_MIB: u32 = 192;

pub(crate) fn demo(json: bool) -> Result<u8, Failure> {
    check_host()?;
    let style = Style::of_stdout();
    let mut live = (!json).then(|| Live::new(style, Duration::from_secs(1)));
    say(
        &mut live,
        &format!("A program that keeps {SIZE_MIB} MiB of text, a fifth of it hot.\n"),
    );
    say(&mut live, &style.bold("1. Alone"));
    let alone = alone::run(SECONDS, &mut |resident, since| {
        if let Some(live) = &mut live {
            live.update(&format!("{}  resident {resident}", view::clock(since)));
        }
    })?;
    let limit = Bytes(alone.peak.0 / 2);
    let learnt = format!(
        "   peak {}, {} operations a second\n",
        alone.peak,
        view::count(alone.outcome.ops_per_s())
    );
    say(&mut live, &learnt);
    say(
        &mut live,
        &style.bold(&format!("2. Under pagetide, in {limit}")),
    );
    let managed = managed(limit, alone.outcome.ops, &mut |report| {
        if let Some(live) = &mut live {
            live.update(&view::status(report, style));
        }
    })?;
    let verdict = Verdict::new(&alone, managed, limit);
    if let Some(live) = live {
        live.close();
    }
    verdict.print(json, style)?;
    verdict.complain()?;
    Ok(0)
}

fn say(live: &mut Option<Live>, line: &str) {
    if let Some(live) = live {
        live.say(line);
    }
}

/// Missing things are told before anything starts.
fn check_host() -> Result<(), Failure> {
    let findings = judge(&Facts::gather(&Kernel));
    let Some(missing) = findings.into_iter().find(|f| f.state == State::Missing) else {
        return Ok(());
    };
    let hint = format!(
        "{}\n`pagetide doctor` shows everything that is missing",
        missing.remedy.unwrap_or_default()
    );
    let what = format!(
        "cannot manage memory here: {}: {}",
        missing.topic, missing.detail
    );
    Err(Failure::missing(what, hint))
}

/// The second run.
pub(super) struct Managed {
    /// What the workload said.
    outcome: Outcome,
    /// Its exit status.
    code: i32,
    /// The last report.
    report: Report,
    /// The report with the most in the store.
    fullest: Report,
}

fn managed(limit: Bytes, ops: u64, tick: &mut dyn FnMut(&Report)) -> Result<Managed, Failure> {
    let file = ResultFile::new()?;
    let options = args::with_max(limit);
    let command = command(&file, ["--ops".to_owned(), ops.to_string()])?;
    let mut fullest = Report::default();
    let (report, code) = pager::manage::run(&command, &options, &mut |report| {
        if report.stored_bytes >= fullest.stored_bytes {
            fullest = report.clone();
        }
        tick(report);
    })?;
    if code != 0 {
        return Err(failed(code));
    }
    Ok(Managed {
        outcome: file.read()?,
        code,
        report,
        fullest,
    })
}

fn failed(code: i32) -> Failure {
    Failure::new(
        format!("the demo's workload failed: it ended with {code}"),
        "this is a defect of pagetide: please report it with the lines above",
    )
}

/// The workload's command line: this very program.
fn command(file: &ResultFile, work: [String; 2]) -> Result<Vec<OsString>, Failure> {
    let exe = std::env::current_exe().map_err(|error| {
        let what = format!("cannot find pagetide's own program file: {error}");
        Failure::new(what, "is /proc mounted?")
    })?;
    let [what, how_much] = work;
    let fixed = [
        WORKLOAD.to_owned(),
        "--mib".to_owned(),
        SIZE_MIB.to_string(),
    ];
    let rest = [what, how_much, "--result-fd".to_owned(), file.number()];
    let args = fixed.into_iter().chain(rest).map(OsString::from);
    Ok(std::iter::once(exe.into_os_string()).chain(args).collect())
}
