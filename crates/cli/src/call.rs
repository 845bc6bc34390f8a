//! Commands as functions for other programs: the output is written to a writer of the caller.
//!
//! Invariant: a call does the work of the command and writes the same bytes that `pagetide` would
//! print. It writes nothing to the process's standard output or standard error, handles no signal,
//! and changes no other state of the process.

use std::ffi::OsString;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
#[cfg(feature = "simulator")]
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::args::{self, Command, Report};
use crate::commands::report;
use crate::commands::scans::Open;
#[cfg(feature = "simulator")]
use crate::commands::{mrc, sim};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::watching;

/// Receives progress: the name of the work, and the share of it that is done (0 to 1; `None` if
/// unknown).
pub type Progress<'a> = dyn FnMut(&str, Option<f64>) + 'a;

/// Payload of the unwinding that ends the work once `stop` is set.
#[cfg(feature = "simulator")]
struct Stopped;

/// Runs the command in `words` (`report 1234 --json`): `report`, or with the feature `simulator`
/// also `mrc` and `sim`.
///
/// If the caller sets `stop`, a report ends as on ^C: with the result so far. The other commands
/// end without a result: they unwind when they next report progress, so call them in a thread of
/// their own.
///
/// # Errors
/// The error that the command would have printed on standard error. If claims of `sim` do not hold,
/// that is an error, too, after the output was written.
pub fn call(
    words: &[OsString],
    stop: &Arc<AtomicBool>,
    progress: &mut Progress<'_>,
    out: impl Write,
) -> Result<(), Failure> {
    match args::parse_words(words)? {
        Command::Report(args) => reports(&args, stop, progress, out),
        #[cfg(feature = "simulator")]
        Command::Mrc(args) => {
            let mut progress = unwinding_progress(stop, progress);
            let text = mrc::text_of(&args, Style::PLAIN, &mut |what, share, _| {
                progress(what, share)
            });
            written(&text?, out)
        }
        #[cfg(feature = "simulator")]
        Command::Sim(args) => {
            let mut progress = unwinding_progress(stop, progress);
            let (text, unmet) =
                sim::printed(&args, &mut |done| progress("simulating", Some(done)))?;
            written(&text, out)?;
            unmet.map_or(Ok(()), Err)
        }
        #[cfg(not(feature = "simulator"))]
        Command::Mrc(args) => Err(args.failure("mrc")),
        #[cfg(not(feature = "simulator"))]
        Command::Sim(args) => Err(args.failure("sim")),
        _ => Err(Failure::usage(
            "cannot be called: only report, mrc and sim can",
            "start the program `pagetide` for the other commands",
        )),
    }
}

fn reports(
    args: &Report,
    stop: &Arc<AtomicBool>,
    progress: &mut Progress<'_>,
    out: impl Write,
) -> Result<(), Failure> {
    let plan = args.plan()?;
    let share = |passed: Duration| {
        let time = plan.time?;
        Some((passed.as_secs_f64() / time.as_secs_f64()).min(1.0))
    };
    let progress = &mut |passed: Option<Duration>, _: &str| {
        if let Some(passed) = passed {
            progress("watching", share(passed));
        }
    };
    let output = (args.form(), (|| Style::PLAIN) as fn() -> Style);
    let how = (watching::open_as_guest as Open, stop);
    report::write_to(args, &plan, how, output, progress, out)
}

#[cfg(feature = "simulator")]
fn written(text: &str, mut out: impl Write) -> Result<(), Failure> {
    Ok(out.write_all(text.as_bytes())?)
}

/// Wraps `progress` so that it unwinds once `stop` is set, as there is no other way to end an
/// experiment early.
#[cfg(feature = "simulator")]
fn unwinding_progress<'a>(
    stop: &'a AtomicBool,
    progress: &'a mut Progress<'_>,
) -> impl FnMut(&str, Option<f64>) + 'a {
    move |what, share| {
        if stop.load(Ordering::Relaxed) {
            // This does not call the panic hook, because stopping is no error.
            std::panic::resume_unwind(Box::new(Stopped));
        }
        progress(what, share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(words: &str, stop: bool) -> (Result<(), Failure>, String) {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let (mut out, stop) = (Vec::new(), Arc::new(AtomicBool::new(stop)));
        let ended = call(&words, &stop, &mut |_, _| (), &mut out);
        (ended, String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn a_called_command_writes_to_its_caller() {
        let (ended, text) = called("sim --list --json", false);
        ended.expect("it is listed");
        assert!(text.starts_with('[') && text.ends_with("]\n"), "{text}");
    }

    #[test]
    fn mistakes_are_returned_and_nothing_ends_the_process() {
        for (words, what) in [
            ("mrc", "FILE"),
            ("mrc --help", "mrc"),
            ("--version", "pagetide"),
            ("swap on", "cannot be called"),
            ("sim no-such-experiment", "no experiment is called"),
            ("report --json", "no process is given"),
        ] {
            let (ended, text) = called(words, false);
            let failure = ended.expect_err(words);
            assert_eq!((failure.exit(), text.as_str()), (2, ""), "{words}");
            let all = format!("{} {}", failure.what(), failure.hint());
            assert!(all.contains(what), "{words}: {all}");
        }
    }

    #[test]
    fn a_stopped_call_unwinds() {
        let unwound = std::panic::catch_unwind(|| called("sim memcg-lru --scale 256", true));
        let why = unwound.expect_err("it was not wanted");
        assert!(why.is::<Stopped>());
        // `report` returns when `stop` is set; it does not unwind.
        let (ended, _) = called("report 1 --json", true);
        assert!(
            ended
                .expect_err("it was stopped")
                .what()
                .contains("stopped before")
        );
    }
}
