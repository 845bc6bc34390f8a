//! Progress: one line that is redrawn on a terminal, a line now and then elsewhere.
//!
//! Invariant: never more than one line is pending; [`Live::close`] leaves the cursor at the start of
//! an empty line. Output that fails is dropped: progress is not a result.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::terminal::Style;

/// A terminal is redrawn at most this often.
const FRAME: Duration = Duration::from_millis(100);

/// A line that changes.
pub(crate) struct Live {
    style: Style,
    pace: Duration,
    last: Option<Instant>,
    drawn: bool,
}

impl Live {
    /// `plain_pace` is the time between two lines where nothing can be redrawn.
    pub(crate) fn new(style: Style, plain_pace: Duration) -> Live {
        let pace = if style.live { FRAME } else { plain_pace };
        Live {
            style,
            pace,
            last: None,
            drawn: false,
        }
    }

    /// A line that stays.
    pub(crate) fn say(&mut self, line: &str) {
        self.erase();
        put(&format!("{line}\n"));
    }

    /// The line as it is now; dropped if the last one is too fresh.
    pub(crate) fn update(&mut self, line: &str) {
        if self.last.is_some_and(|last| last.elapsed() < self.pace) {
            return;
        }
        self.last = Some(Instant::now());
        if self.style.live {
            put(&format!("\r{line}\x1b[K"));
            self.drawn = true;
        } else {
            put(&format!("{line}\n"));
        }
    }

    /// Takes the line away.
    pub(crate) fn close(mut self) {
        self.erase();
    }

    fn erase(&mut self) {
        if self.drawn {
            put("\r\x1b[K");
            self.drawn = false;
        }
    }
}

fn put(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
