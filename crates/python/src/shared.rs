//! The state that the thread of a call shares with Python's thread.
//!
//! Invariant: Python receives each byte of output once, in the order in which it was written, and
//! sees the end of the call only after all output.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Number of bytes of output above which the command waits until Python has taken them.
const FULL: usize = 1 << 20;
/// While a command waits to write: time between two checks whether the call was stopped.
const SLICE: Duration = Duration::from_millis(100);

/// How a call ended: the exit code that the command would have had (0 for success), what failed,
/// and a hint what to do about it. The texts are empty after a success.
pub(crate) type End = (u8, String, String);

/// Output, progress and end of a call that Python has not taken yet.
#[derive(Default)]
pub(crate) struct News {
    /// Output of the command.
    pub(crate) output: Vec<u8>,
    /// Name of the current activity, and its completed share (0 to 1; `None` if that is not known).
    /// `None` if nothing was reported since Python last took it.
    pub(crate) progress: Option<(String, Option<f64>)>,
    /// How the call ended; `None` while it runs.
    pub(crate) end: Option<End>,
}

/// The state that both threads share.
#[derive(Default)]
pub(crate) struct Shared {
    news: Mutex<News>,
    /// Wakes the thread that waits: Python's for news, or the command's for space for its output.
    reported: Condvar,
}

impl Shared {
    /// Locks the news for the calling thread.
    fn lock(&self) -> MutexGuard<'_, News> {
        // A panic while the lock is held cannot make the value inconsistent.
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the progress. Does not wake Python's thread, which takes the progress the next time it
    /// wakes.
    pub(crate) fn progress(&self, what: &str, share: Option<f64>) {
        self.lock().progress = Some((what.to_owned(), share));
    }

    /// Sets how the call ended, and wakes Python's thread.
    pub(crate) fn end(&self, end: End) {
        self.lock().end = Some(end);
        self.reported.notify_all();
    }

    /// Waits at most `time` for output or for the end of the call. Returns all news and removes
    /// them, except the end of the call: later calls return it again.
    pub(crate) fn wait(&self, time: Duration) -> News {
        let is_quiet = |news: &mut News| news.output.is_empty() && news.end.is_none();
        let waited = self
            .reported
            .wait_timeout_while(self.lock(), time, is_quiet);
        let (mut news, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.reported.notify_all();
        News {
            output: std::mem::take(&mut news.output),
            progress: news.progress.take(),
            end: news.end.clone(),
        }
    }
}

/// Where a command writes its output.
pub(crate) struct Output<'a> {
    pub(crate) shared: &'a Shared,
    /// Set when the call must stop: then writing never waits.
    pub(crate) stop: &'a AtomicBool,
}

impl Write for Output<'_> {
    /// Waits, like a write to a full pipe, until Python has taken enough output. So a command stops
    /// making reports while Python takes none.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_full =
            |news: &mut News| news.output.len() > FULL && !self.stop.load(Ordering::Relaxed);
        let mut news = self.shared.lock();
        while is_full(&mut news) {
            let waited = self
                .shared
                .reported
                .wait_timeout_while(news, SLICE, is_full);
            news = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        news.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Wakes Python's thread, so that it takes all output written so far.
    fn flush(&mut self) -> io::Result<()> {
        self.shared.reported.notify_all();
        Ok(())
    }
}
