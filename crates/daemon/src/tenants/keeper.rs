//! Who puts the history on disk, now and then.
//!
//! Invariant: nobody who asks for a page waits for the disk: a thread of its own writes, one at a time. What is lost when we are
//! killed is what came since.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::history::History;
use super::history::file::save;

/// Between two writings.
const EVERY: Duration = Duration::from_secs(300);

/// See the module.
#[derive(Debug)]
pub(super) struct Keeper {
    /// None where it is not kept.
    path: Option<PathBuf>,
    next: Instant,
    writing: Option<JoinHandle<()>>,
    /// Who is told that it cannot be written: once.
    notes: Sender<String>,
    has_failed: Arc<AtomicBool>,
}

impl Keeper {
    pub(super) fn new(path: Option<PathBuf>, notes: Sender<String>) -> Keeper {
        Keeper {
            path,
            // At once: of a place that cannot be written is told while somebody looks.
            next: Instant::now(),
            writing: None,
            notes,
            has_failed: Arc::default(),
        }
    }

    /// How long nothing is due.
    pub(super) fn pause(&self) -> Duration {
        match self.path {
            Some(_) => self.next.saturating_duration_since(Instant::now()),
            None => EVERY,
        }
    }

    /// Has it written if that is due.
    pub(super) fn work(&mut self, history: &mut History) {
        if self.path.is_some() && self.pause().is_zero() {
            self.next = Instant::now() + EVERY;
            // A disk that is slow is not asked for more.
            if self.writing.as_ref().is_none_or(JoinHandle::is_finished) {
                self.write(history);
            }
        }
    }

    /// Has it written now, and waits for that.
    pub(super) fn finish(mut self, history: &mut History) {
        self.wait();
        self.write(history);
        self.wait();
    }

    fn wait(&mut self) {
        if let Some(writing) = self.writing.take() {
            let _ = writing.join();
        }
    }

    fn write(&mut self, history: &mut History) {
        let Some(path) = self.path.clone() else {
            return;
        };
        history.forget_names();
        let (bytes, notes) = (history.encode(), self.notes.clone());
        let has_failed = Arc::clone(&self.has_failed);
        let write = move || match save(&path, &bytes) {
            Ok(()) => has_failed.store(false, Ordering::Relaxed),
            Err(error) => {
                let place = path.display();
                let note = format!(
                    "cannot keep the history in {place}: {error}; give another file with --history, or `none`"
                );
                if !has_failed.swap(true, Ordering::Relaxed) {
                    // Nobody may be there to hear it any more.
                    let _ = notes.send(note);
                }
            }
        };
        let thread = std::thread::Builder::new().name("history".to_owned());
        self.writing = thread.spawn(write).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_cannot_be_written_is_told_once() {
        let (sender, notes) = channel();
        let mut keeper = Keeper::new(Some("/proc/pagetide/history".into()), sender);
        let mut history = History::default();
        for _ in 0..3 {
            keeper.write(&mut history);
            keeper.wait();
        }
        let note = notes.try_recv().expect("it is told");
        assert!(
            note.contains("/proc/pagetide/history") && note.contains("--history"),
            "{note}"
        );
        assert!(notes.try_recv().is_err(), "once");
        let path = std::env::temp_dir().join(format!("pagetide-keeper-{}", std::process::id()));
        let (sender, notes) = channel();
        Keeper::new(Some(path.clone()), sender).finish(&mut history);
        assert!(notes.try_recv().is_err());
        let loaded = crate::tenants::history::file::load(&path);
        assert_eq!(loaded.expect("ours"), (history, None));
        std::fs::remove_file(path).expect("ours");
    }
}
