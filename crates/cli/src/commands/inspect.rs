//! Commands that ask the manager of a target: `stat`, `reclaim`, `detach`, and `report` where there
//! is a manager to ask.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use pager::control::{ControlError, Request, Response, ask};
use pager::options::{Bytes, Millis};
use pager::report::Report;

use crate::args::Form;
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view;

/// A manager answers between two scans.
const QUICK: Duration = Duration::from_secs(5);
/// Gigabytes may have to come back, or to go.
const LONG: Duration = Duration::from_secs(600);

/// The manager's own report; `None` if nobody manages the process.
pub(super) fn report(pid: u32, watch: Option<Millis>, form: Form) -> Result<Option<u8>, Failure> {
    let mut report = match fetch(pid) {
        Ok(report) => report,
        Err(failure) if failure.is_gone() => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let style = Style::of_stdout();
    let mut out = io::stdout().lock();
    if form == Form::Csv {
        writeln!(out, "{}", view::csv::header())?;
    }
    loop {
        let screen = watch.is_some() && style.live && form == Form::Human;
        if screen {
            // Home, the report, and away with what was longer before.
            write!(out, "\x1b[H\x1b[2J")?;
        }
        match form {
            Form::Human => print(&mut out, &report, false, style)?,
            Form::Json if watch.is_some() => writeln!(out, "{}", json_line(&report))?,
            Form::Json => print(&mut out, &report, true, style)?,
            Form::Csv => writeln!(out, "{}", view::csv::row(&report))?,
        }
        if watch.is_some() && form == Form::Human && !screen {
            writeln!(out)?;
        }
        out.flush()?;
        let Some(period) = watch else {
            return Ok(Some(0));
        };
        std::thread::sleep(Duration::from_millis(period.0.max(50)));
        report = match fetch(pid) {
            Ok(report) => report,
            // That is how watching ends.
            Err(failure) if failure.is_gone() => {
                eprintln!("pid {pid} has ended, or is no longer managed");
                return Ok(Some(0));
            }
            Err(failure) => return Err(failure),
        };
    }
}

pub(super) fn stat(pid: u32, json: bool) -> Result<u8, Failure> {
    let Response::Stat(stat) = question(pid, Request::Stat {}, QUICK)? else {
        return Err(unexpected(pid));
    };
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", json_line(&stat))?;
    } else {
        write!(out, "{stat}")?;
    }
    Ok(0)
}

pub(super) fn reclaim(pid: u32, bytes: Bytes, json: bool) -> Result<u8, Failure> {
    let Response::Reclaimed { bytes: done } = question(pid, Request::Reclaim { bytes }, LONG)?
    else {
        return Err(unexpected(pid));
    };
    let mut out = io::stdout().lock();
    if json {
        let value = serde_json::json!({"requested_bytes": bytes, "reclaimed_bytes": done});
        writeln!(out, "{value}")?;
    } else {
        writeln!(out, "put out {done} of {bytes}")?;
    }
    if done < bytes {
        // As memory.reclaim does: less than asked is a failure (EAGAIN there).
        return Err(Failure::new(
            format!("cannot reclaim all of {bytes} from pid {pid}: {done} could leave"),
            format!("`pagetide report {pid}` says what cannot leave, and why"),
        ));
    }
    Ok(0)
}

pub(super) fn detach(pid: u32) -> Result<u8, Failure> {
    match question(pid, Request::Detach {}, LONG) {
        Ok(Response::Detached) => Ok(0),
        Ok(_) => Err(unexpected(pid)),
        // Its manager died: the keeper is still there to be told.
        Err(failure) if failure.is_gone() && alive(pid) => {
            pager::manage::detach(pid)?;
            Ok(0)
        }
        Err(failure) => Err(failure),
    }
}

/// A report, for people or as indented JSON.
pub(super) fn print(
    out: &mut impl Write,
    report: &Report,
    json: bool,
    style: Style,
) -> io::Result<()> {
    if json {
        let text = serde_json::to_string_pretty(report).unwrap_or_default();
        return writeln!(out, "{text}");
    }
    write!(out, "{}", view::report(report, style))
}

fn json_line(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn fetch(pid: u32) -> Result<Report, Failure> {
    match question(pid, Request::Report {}, QUICK)? {
        Response::Report(report) => Ok(*report),
        _ => Err(unexpected(pid)),
    }
}

fn question(pid: u32, request: Request, within: Duration) -> Result<Response, Failure> {
    ask(pid, request, within).map_err(|error| match error {
        ControlError::NotManaged { .. } if !alive(pid) => Failure::gone(
            format!("cannot ask about pid {pid}: no such process"),
            "see `ps -e` for what runs",
        ),
        ControlError::NotManaged { .. } => Failure::gone(error.to_string(), error.hint()),
        other => other.into(),
    })
}

fn alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn unexpected(pid: u32) -> Failure {
    Failure::new(
        format!("cannot understand the manager of pid {pid}: it answered another question"),
        "use the pagetide command of the same version",
    )
}
