//! Commands as functions of another program: what they write to standard output goes where the caller says.
//!
//! Invariant: the work, its words and what is written are the command's own, so the bytes are those that `pagetide` prints.
//! Nothing is written to standard output or standard error, no signal is handled,
//! and the process is left as it is: all that is the caller's.

use std::ffi::OsString;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::args::{self, Command, Report};
use crate::commands::looks::Open;
use crate::commands::{mrc, report, sim};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::watching;

/// Told what is being done, and how much of it is done (0 to 1, if known).
pub type Told<'a> = dyn FnMut(&str, Option<f64>) + 'a;

/// What unwinds through work that is no longer wanted.
struct Unwanted;

/// Does what `words` ask for (`report 1234 --json`): one of `report`, `mrc` and `sim`.
///
/// `stop` ends a report as ^C does: what was seen until then is the result. The others give no result then: they unwind
/// when they next tell of their progress, so the call is for a thread of its own.
///
/// # Errors
/// What the command would have told on standard error. Of `sim` claims that do not hold are one, after the output.
pub fn call(
    words: &[OsString],
    stop: &Arc<AtomicBool>,
    told: &mut Told<'_>,
    mut out: impl Write,
) -> Result<(), Failure> {
    match args::parse_words(words)? {
        Command::Report(args) => reports(&args, stop, told, out),
        Command::Mrc(args) => {
            let mut told = wanted(stop, told);
            let text = mrc::text_of(&args, Style::PLAIN, &mut |what, share, _| told(what, share));
            Ok(out.write_all(text?.as_bytes())?)
        }
        Command::Sim(args) => {
            let mut told = wanted(stop, told);
            let (text, unmet) = sim::printed(&args, &mut |done| told("simulating", Some(done)))?;
            out.write_all(text.as_bytes())?;
            unmet.map_or(Ok(()), Err)
        }
        _ => Err(Failure::usage(
            "cannot be called: only report, mrc and sim can",
            "start the program `pagetide` for the other commands",
        )),
    }
}

fn reports(
    args: &Report,
    stop: &Arc<AtomicBool>,
    told: &mut Told<'_>,
    out: impl Write,
) -> Result<(), Failure> {
    let plan = args.plan()?;
    let share = |passed: Duration| {
        let time = plan.time?;
        Some((passed.as_secs_f64() / time.as_secs_f64()).min(1.0))
    };
    let told = &mut |passed: Option<Duration>, _: &str| {
        if let Some(passed) = passed {
            told("watching", share(passed));
        }
    };
    let output = (args.form(), (|| Style::PLAIN) as fn() -> Style);
    let how = (watching::open_as_guest as Open, stop);
    report::write_to(args, &plan, how, output, told, out)
}

/// `told`, which unwinds once the result is no longer wanted: experiments have no other way out.
fn wanted<'a>(stop: &'a AtomicBool, told: &'a mut Told<'_>) -> impl FnMut(&str, Option<f64>) + 'a {
    move |what, share| {
        if stop.load(Ordering::Relaxed) {
            // No panic hook: nothing is wrong.
            std::panic::resume_unwind(Box::new(Unwanted));
        }
        told(what, share);
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
    fn what_is_called_writes_to_its_caller() {
        let (ended, text) = called("sim --list --json", false);
        ended.expect("it is listed");
        assert!(text.starts_with('[') && text.ends_with("]\n"), "{text}");
    }

    #[test]
    fn mistakes_come_back_and_nothing_ends_the_process() {
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
    fn what_is_no_longer_wanted_unwinds() {
        let unwound = std::panic::catch_unwind(|| called("sim memcg-lru --scale 256", true));
        let why = unwound.expect_err("it was not wanted");
        assert!(why.is::<Unwanted>());
        // The caller's own reports end without it.
        let (ended, _) = called("report 1 --json", true);
        assert!(
            ended
                .expect_err("no look")
                .what()
                .contains("stopped before")
        );
    }
}
