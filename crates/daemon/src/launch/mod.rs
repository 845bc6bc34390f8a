//! `run`: this process becomes the program, with a manager beside it.
//!
//! Invariant: the program starts as it would alone: with the same pid, parent, terminal, session,
//! signals, limits, environment and descriptors, and without a child of ours that it could wait
//! for. Everything that can be checked is checked before it starts; after that nothing of ours
//! stops it.

mod find;
mod report;
mod restore;

mod companion;

use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use host::system::start;
use rustix::process::{geteuid, getuid};

use crate::error::{Error, ExitCode};
use crate::options::Options;
use crate::record::{self, About};
use crate::rights;
use restore::Before;

/// What to start, and how to manage it.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The program's name or path, then its arguments.
    pub command: &'a [OsString],
    /// The options of the manager.
    pub options: &'a Options,
    /// The file for the report that the manager writes at the end; `None` for no report.
    pub report: Option<&'a Path>,
    /// The file to which scans are recorded, and its size limit in bytes; `None` for no recording.
    pub record: Option<(&'a Path, u64)>,
}

/// Replaces this process by the program; returns only if that fails, with the error. `tell`
/// receives notes about what the host lacks, if `--best-effort` allows to go on.
pub fn run(launch: &Launch<'_>, tell: &mut dyn FnMut(&str)) -> Error {
    match prepare(launch, tell) {
        Err(error) => error,
        Ok(argv) => {
            let error = start::become_program(&argv);
            find::refused(&launch.command[0], &error)
        }
    }
}

/// Does everything up to the exec; returns the program's arguments.
fn prepare(launch: &Launch<'_>, tell: &mut dyn FnMut(&str)) -> Result<Vec<CString>, Error> {
    let before = Before::note();
    if geteuid() != getuid() {
        let what =
            "cannot run a program: pagetide's file is setuid, and the program would be root's";
        let hint = "give it file capabilities instead; `pagetide doctor` says which";
        return Err(Error::missing(what, hint));
    }
    launch.options.check()?;
    // From here on files and programs are opened without the capabilities of our file.
    rights::drop_capabilities_of_file()?;
    let Some(program) = launch.command.first() else {
        let what = "cannot run a program: none is named";
        return Err(Error::ending(ExitCode::Usage, what, "pagetide run -- CMD"));
    };
    find::check(program)?;
    let argv = c_strings(launch.command)?;
    let mut notes = Vec::new();
    let wanted = match launch.report.map(report::require_writer).transpose() {
        Err(error) if launch.options.best_effort => {
            notes.push(error.to_string());
            None
        }
        other => other?,
    };
    let report = wanted.map(report::create).transpose()?;
    let record = launch.record.map(|(path, max_bytes)| {
        let about = About::command(launch.command, max_bytes);
        record::create(path).map(|file| (file, about))
    });
    let record = record.transpose()?;
    if let (Some(report), Some((record, _))) = (&report, &record)
        && is_one_file(&report.file, record)
    {
        let what = "cannot write a report and a recording: --report and --record name one file";
        return Err(Error::ending(ExitCode::Usage, what, "give them two names"));
    }
    let is_own = report.as_ref().is_some_and(|report| report.is_own);
    let found = match companion::start(launch.options, report, record) {
        Ok(notes) => notes,
        Err(error) if launch.options.best_effort => {
            // A program without a manager has no report; an earlier run's report must not be taken
            // for its report.
            let _ = wanted.filter(|_| is_own).map(File::create);
            vec![error.to_string()]
        }
        Err(error) => {
            let wanted = format!("cannot run {}", program.display());
            return Err(error.wanting(&wanted));
        }
    };
    for note in notes.iter().chain(&found) {
        tell(note);
    }
    before.restore();
    Ok(argv)
}

/// Whether the report and the recording are the same file, also under different names: then the
/// report would overwrite the recording.
fn is_one_file(one: &File, other: &File) -> bool {
    let place = |file: &File| file.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    place(one).is_some_and(|found| place(other) == Some(found))
}

/// Converts a command's arguments for execve(2).
fn c_strings(command: &[OsString]) -> Result<Vec<CString>, Error> {
    let words = command.iter().map(|word| CString::new(word.as_bytes()));
    words.collect::<Result<_, _>>().map_err(|error| {
        // Arguments that the kernel passed to us contain no NUL.
        Error::failed(
            format!("cannot run a program: {error}"),
            "give another command",
        )
    })
}
