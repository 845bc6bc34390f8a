//! `pagetide mrc`: miss-ratio curves of a trace.
//!
//! Invariant: progress goes to standard error, and only to a terminal; the page is opened before the
//! work, so that a path that cannot be written is known at once.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use sim::trace::TraceError;

use crate::args::Mrc;
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::{bar, count, curves};

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Failure {
        let what = format!("cannot read the trace {error}");
        Failure::new(what, error.remedy)
    }
}

pub(super) fn mrc(args: &Mrc) -> Result<u8, Failure> {
    let mut progress = Progress::new();
    let told = &mut |what: &str, share, n| progress.update(what, share, n);
    let text = text_of(args, Style::of_stdout(), told);
    progress.close();
    io::stdout().write_all(text?.as_bytes())?;
    Ok(0)
}

/// What the command prints; a page that was asked for is written on the way. `told` hears what is done, how much of it
/// (0 to 1, if known), and references so far.
///
/// # Errors
/// The trace cannot be read, or the page not be written.
pub(crate) fn text_of(
    args: &Mrc,
    style: Style,
    told: &mut sim::mrc::Progress<'_>,
) -> Result<String, Failure> {
    let page = args.html.as_deref();
    let page = page.map(|path| create(path).map(|file| (path, file)));
    let page = page.transpose()?;
    let result = args.job().run(&args.file, &args.trace(), told)?;
    let name = args.file.display().to_string();
    if let Some((path, mut file)) = page {
        let text = curves::html(&name, &result);
        let written = file.write_all(text.as_bytes());
        written.map_err(|error| unwritable(path, &error))?;
    }
    Ok(match (args.json, args.csv) {
        (true, _) => curves::json(&name, &result),
        (_, true) => curves::csv(&result),
        _ => curves::human(&name, &result, style),
    })
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        format!("cannot write the page to {}: {error}", path.display()),
        "give another file with --html",
    )
}

/// A bar on standard error.
struct Progress {
    shown: bool,
    drawn: bool,
    last: Instant,
}

impl Progress {
    fn new() -> Progress {
        Progress {
            shown: io::stderr().is_terminal(),
            drawn: false,
            last: Instant::now(),
        }
    }

    fn update(&mut self, what: &str, share: Option<f64>, references: u64) {
        if !self.shown || self.last.elapsed() < Duration::from_millis(100) {
            return;
        }
        (self.last, self.drawn) = (Instant::now(), true);
        let bar = share.map_or(String::new(), |share| bar(share, 30, false));
        let line = format!("{what:13} {bar} {} references", count(references));
        // Progress is no result: nobody misses it where it cannot be shown.
        let _ = write!(io::stderr(), "\r{line}\x1b[K");
    }

    fn close(&self) {
        if self.drawn {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
