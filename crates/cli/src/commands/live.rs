//! Progress output: on a terminal, one line that is redrawn; elsewhere, a new line now and then.
//!
//! Invariant: never more than one line can still be redrawn; after [`Live::close`] the cursor is at
//! the start of an empty line. Errors of the output are ignored, as progress is not a result.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::terminal::Style;

/// Minimum time between two redraws of a terminal.
const FRAME: Duration = Duration::from_millis(100);

/// The progress line.
pub(crate) struct Live {
    style: Style,
    pace: Duration,
    last: Option<Instant>,
    drawn: bool,
}

impl Live {
    /// Returns an empty progress line. `plain_pace`: time between two lines if the output is no
    /// terminal.
    pub(crate) fn new(style: Style, plain_pace: Duration) -> Live {
        let pace = if style.live { FRAME } else { plain_pace };
        Live {
            style,
            pace,
            last: None,
            drawn: false,
        }
    }

    /// Prints a line that is not redrawn.
    pub(crate) fn say(&mut self, line: &str) {
        self.erase();
        put(&format!("{line}\n"));
    }

    /// Shows `line` as the progress, unless the previous one was shown too recently.
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

    /// Removes the progress line.
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
