//! `pagetide mrc`: miss-ratio curves of a trace.
//!
//! Invariant: progress goes to standard error, and only to a terminal. The HTML page is opened
//! before the work, so that a path that cannot be written fails at once. An existing page stays
//! until the new one is complete.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use sim::memory_bound::MemoryBound;
use sim::trace::TraceError;

use crate::args::Mrc;
use crate::failure::Failure;
use crate::terminal::Style;
use crate::used_memory::used_bytes;
use crate::view::{bar, count, curves};

use super::page::Page;

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Failure {
        let what = format!("cannot read the trace {error}");
        Failure::new(what, error.remedy)
    }
}

pub(super) fn mrc(args: &Mrc) -> Result<u8, Failure> {
    let mut bar = Progress::new();
    let progress = &mut |what: &str, share, n| bar.update(what, share, n);
    let text = text_of(args, Style::of_stdout(), progress);
    bar.close();
    io::stdout().write_all(text?.as_bytes())?;
    Ok(0)
}

/// Returns what the command prints, and writes the HTML page if one is requested. `progress`
/// receives a name for the current step, the part of it that is done (0 to 1, if known), and the
/// number of references so far.
///
/// # Errors
/// The trace cannot be read, or the page cannot be written.
pub(crate) fn text_of(
    args: &Mrc,
    style: Style,
    progress: &mut sim::mrc::Progress<'_>,
) -> Result<String, Failure> {
    let page = args.html.as_deref();
    if page.is_some_and(|page| is_same(page, &args.file)) {
        return Err(Failure::new(
            format!(
                "cannot write the page to {}: that is the trace",
                args.file.display()
            ),
            "give another file with --html",
        ));
    }
    let page = page.map(Page::open).transpose()?;
    // Memory that the caller uses already is not counted as memory for the trace.
    let bound = MemoryBound::of(args.memory_max(), used_bytes);
    let trace = (args.file.as_path(), &args.trace());
    let result = args.job().run(trace, bound, progress)?;
    let name = args.file.display().to_string();
    if let Some(page) = page {
        page.write(&curves::html(&name, &result))?;
    }
    Ok(match (args.json, args.csv) {
        (true, _) => curves::json(&name, &result),
        (_, true) => curves::csv(&result),
        _ => curves::human(&name, &result, style),
    })
}

/// Returns whether two paths lead to the same regular file. (A page must not overwrite the
/// recording from which it is made.)
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some((metadata.dev(), metadata.ino()))
    };
    file(one).is_some_and(|found| Some(found) == file(other))
}

/// A progress bar on standard error.
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
        // Progress is not a result, so a failed write is ignored.
        let _ = write!(io::stderr(), "\r{line}\x1b[K");
    }

    fn close(&self) {
        if self.drawn {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{self, Command};

    fn run(words: &[&str]) -> Result<String, Failure> {
        let words: Vec<_> = ["mrc"].iter().chain(words).map(Into::into).collect();
        let Command::Mrc(args) = args::parse_words(&words)? else {
            panic!("not of mrc: {words:?}");
        };
        text_of(&args, Style::PLAIN, &mut |_, _, _| {})
    }

    /// Regression: a typo in the trace's name, or ^C, emptied last week's page; and if the trace
    /// was named as the page, the trace itself.
    #[test]
    fn a_page_stays_until_the_new_one_is_whole() {
        let name = format!("pagetide-mrc-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a temporary directory");
        let path = |name: &str| dir.join(name).to_string_lossy().into_owned();
        let (page, trace, link) = (path("page.html"), path("trace.lis"), path("link"));
        fs::write(&page, "old").expect("written");
        fs::write(&trace, "0 4 0 0\n").expect("written");
        std::os::unix::fs::symlink(&trace, &link).expect("a link");
        let text = |path: &str| fs::read_to_string(path).expect("there");

        assert!(run(&[&path("trase.lis"), "--html", &page]).is_err());
        assert_eq!(text(&page), "old");
        let progress = run(&[&trace, "--html", &link]).expect_err("the trace");
        assert!(
            format!("{progress:?}").contains("that is the trace"),
            "{progress:?}"
        );
        assert_eq!(text(&trace), "0 4 0 0\n");
        run(&[&trace, "--html", &page]).expect("written");
        assert!(text(&page).contains("<html"), "{}", text(&page));
        fs::remove_dir_all(dir).expect("ours");
    }
}
