//! `run`: becoming a program, with a manager beside it.
//!
//! Invariant: the program starts as it would alone: same pid, parent, terminal, session, signals, limits,
//! environment and descriptors; no child of ours is left that it could wait for. All that can be checked is
//! checked before it starts; after that nothing of ours stops it.

mod companion;
mod find;
mod report;
mod restore;

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
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// How to manage it.
    pub options: &'a Options,
    /// Where the last report goes.
    pub report: Option<&'a Path>,
    /// Where what looks find is recorded, and the most bytes of it.
    pub record: Option<(&'a Path, u64)>,
}

/// Becomes the program; comes back only with why not. `tell` is told what `--best-effort` does without.
pub fn run(launch: &Launch<'_>, tell: &mut dyn FnMut(&str)) -> Error {
    match prepare(launch, tell) {
        Err(error) => error,
        Ok(argv) => {
            let error = start::become_program(&argv);
            find::refused(&launch.command[0], &error)
        }
    }
}

/// Everything up to the exec: the words of the command line.
fn prepare(launch: &Launch<'_>, tell: &mut dyn FnMut(&str)) -> Result<Vec<CString>, Error> {
    let before = Before::note();
    if geteuid() != getuid() {
        let what =
            "cannot run a program: pagetide's file is setuid, and the program would be root's";
        let hint = "give it file capabilities instead; `pagetide doctor` says which";
        return Err(Error::missing(what, hint));
    }
    launch.options.check()?;
    // From here on files and programs are opened with the user's own rights.
    rights::drop_capabilities_of_file()?;
    let Some(program) = launch.command.first() else {
        let what = "cannot run a program: none is named";
        return Err(Error::ending(ExitCode::Usage, what, "pagetide run -- CMD"));
    };
    find::check(program)?;
    let argv = words(launch.command)?;
    let mut notes = Vec::new();
    let wanted = match launch.report.map(report::has_a_writer).transpose() {
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
            // Of a program that nobody manages there is no report, and an earlier one is not its own.
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

/// Whether both are one file, by whatever names. (The story: the report was written over the recording.)
fn is_one_file(one: &File, other: &File) -> bool {
    let place = |file: &File| file.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    place(one).is_some_and(|found| place(other) == Some(found))
}

fn words(command: &[OsString]) -> Result<Vec<CString>, Error> {
    let words = command.iter().map(|word| CString::new(word.as_bytes()));
    words.collect::<Result<_, _>>().map_err(|error| {
        // Our own arguments came without one.
        Error::failed(
            format!("cannot run a program: {error}"),
            "give another command",
        )
    })
}
