//! `pagetide run`.
//!
//! Invariant: standard output and error belong to the program: nothing is printed unless it cannot
//! be started. The report file is opened before the program starts, so that a path that cannot be
//! written is known before the work and not after it.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use pager::record::Recorder;
use pager::report::Report;

use crate::args::Knobs;
use crate::failure::Failure;

pub(super) fn run(
    knobs: &Knobs,
    (report, record): (Option<&Path>, Option<&Path>),
    command: &[OsString],
) -> Result<u8, Failure> {
    let options = knobs.options()?;
    let file = report.map(|path| create(path).map(|file| (path, file)));
    let file = file.transpose()?;
    let log = record.map(|path| begin_log(path).map(|log| (path, log)));
    let log = log.transpose()?;
    let recorder = log.as_ref().map(|(_, recorder)| recorder.clone());
    let (report, code) = pager::manage::run_recorded(command, &options, recorder, None)?;
    if let Some((path, log)) = log {
        log.finish().map_err(|error| unrecorded(path, &error))?;
    }
    if let Some((path, file)) = file {
        save(path, file, &report)?;
    }
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

fn begin_log(path: &Path) -> Result<Recorder, Failure> {
    Recorder::create(path).map_err(|error| unrecorded(path, &error))
}

fn unrecorded(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        format!("cannot write the event log to {}: {error}", path.display()),
        "give another file with --record",
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use pager::record::Event;
    use sim::trace::{Trace, TraceOptions};

    #[test]
    fn what_is_recorded_can_be_read() {
        let name = format!("pagetide-record-{}.log", std::process::id());
        let path = std::env::temp_dir().join(name);
        let one = begin_log(&path).expect("a temporary file");
        let two = one.another();
        // Enough for several writes.
        for page in 0..10_000 {
            one.note(Event::FirstTouch, page);
            two.note(Event::Refault, page);
            one.note(Event::Evicted, page);
            one.write();
        }
        two.note(Event::Touched, u64::MAX);
        one.finish().expect("there is room");
        let mut trace = Trace::open(&path, &TraceOptions::default()).expect("a log");
        let (mut batch, mut pages) = (Vec::new(), Vec::new());
        while trace.fill(&mut batch).expect("a whole log") {
            pages.extend(batch.iter().map(|reference| reference.page));
        }
        std::fs::remove_file(&path).expect("still there");
        let space = 1u64 << 45;
        let want: Vec<u64> = (0..10_000).flat_map(|page| [page, space | page]).collect();
        assert_eq!(pages[..20_000], want);
        assert_eq!(pages[20_000..], [2 * space - 1]);
        assert_eq!(trace.left_out(), 10_000);
    }

    #[test]
    fn a_log_that_cannot_be_written_is_told() {
        let full = begin_log(Path::new("/dev/full"));
        let told = format!("{:?}", full.expect_err("full"));
        assert!(
            told.contains("cannot write the event log to /dev/full"),
            "{told}"
        );
    }
}
