//! `pagetide run`.
//!
//! Invariant: standard output and error belong to the program: nothing is printed unless it cannot
//! be started. The report file is opened before the program starts, so that a path that cannot be
//! written is known before the work and not after it.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use pager::report::Report;

use crate::args::Knobs;
use crate::failure::Failure;

pub(super) fn run(
    knobs: &Knobs,
    report: Option<&Path>,
    command: &[OsString],
) -> Result<u8, Failure> {
    let options = knobs.options()?;
    let file = report.map(|path| create(path).map(|file| (path, file)));
    let file = file.transpose()?;
    let (report, code) = pager::manage::run(command, &options, &mut |_| {})?;
    if let Some((path, file)) = file {
        save(path, file, &report)?;
    }
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| unwritable(path, &error))
}

fn save(path: &Path, mut file: File, report: &Report) -> Result<(), Failure> {
    let mut text = serde_json::to_vec_pretty(report).unwrap_or_default();
    text.push(b'\n');
    file.write_all(&text)
        .map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("cannot write the report to {}: {error}", path.display()),
        "give another file with --report",
    )
}
