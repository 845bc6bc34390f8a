//! What the thread of a call and Python tell each other.
//!
//! Invariant: output is taken once, in the order in which it was written; the end is known only when all of it is there.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that wait to be taken, beyond which whoever writes waits, too.
const FULL: usize = 1 << 20;
/// So often it looks whether it was stopped.
const SLICE: Duration = Duration::from_millis(100);

/// How a call ended: the exit code that the command would have had, what failed, and what to do. 0 of a success.
pub(crate) type End = (u8, String, String);

/// What is new since Python asked last.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) output: Vec<u8>,
    /// What is being done, and how much of it is done, 0 to 1.
    pub(crate) progress: Option<(String, Option<f64>)>,
    pub(crate) end: Option<End>,
}

/// Between the two threads.
#[derive(Default)]
pub(crate) struct Shared {
    news: Mutex<News>,
    told: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, News> {
        // Nothing under the lock can leave it half done.
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far it is. Wakes nobody: who waits sees it soon enough.
    pub(crate) fn progress(&self, what: &str, share: Option<f64>) {
        self.lock().progress = Some((what.to_owned(), share));
    }

    /// It is over.
    pub(crate) fn end(&self, end: End) {
        self.lock().end = Some(end);
        self.told.notify_all();
    }

    /// Waits for output or the end, `time` at most, and takes what is new; the end stays.
    pub(crate) fn wait(&self, time: Duration) -> News {
        let is_quiet = |news: &mut News| news.output.is_empty() && news.end.is_none();
        let waited = self.told.wait_timeout_while(self.lock(), time, is_quiet);
        let (mut news, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.told.notify_all();
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
    /// Nobody takes any of it any more.
    pub(crate) stop: &'a AtomicBool,
}

impl Write for Output<'_> {
    /// Waits, as at a pipe, while so much was not taken yet: who does not ask for the next report gets none meanwhile.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_full =
            |news: &mut News| news.output.len() > FULL && !self.stop.load(Ordering::Relaxed);
        let mut news = self.shared.lock();
        while is_full(&mut news) {
            let waited = self.shared.told.wait_timeout_while(news, SLICE, is_full);
            news = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        news.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// What was written until here may be used.
    fn flush(&mut self) -> io::Result<()> {
        self.shared.told.notify_all();
        Ok(())
    }
}
