//! Writes the history to disk every few minutes.
//!
//! Invariant: no request waits for the disk: a separate thread writes, one history at a time. That
//! thread reads no untrusted data and keeps only privileges for files. It can change files only
//! beneath the directory that the history's path led to first. If the manager is killed, the data
//! since the last write is lost.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::history::History;
use super::history::file::save;

/// Time between two writes.
const EVERY: Duration = Duration::from_secs(300);

/// The writing thread, and the time of the next write.
#[derive(Debug)]
pub(super) struct Keeper {
    /// `None` if the history is not written to disk.
    writer: Option<Writer>,
    next_write: Instant,
}

/// The thread that writes histories; it ends when `bytes` is dropped.
#[derive(Debug)]
struct Writer {
    /// Channel for encoded histories; at most one waits in it.
    bytes: SyncSender<Vec<u8>>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Starts the thread that writes to `path`; without a path starts no thread. When the file
    /// cannot be written, a line of text is sent to `notes`.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn new(path: Option<PathBuf>, notes: Sender<String>) -> io::Result<Keeper> {
        let start = |path: PathBuf| {
            let (bytes, histories) = sync_channel(1);
            let thread = std::thread::Builder::new().name("history".to_owned());
            let thread = thread.spawn(move || write_all(&path, &histories, &notes))?;
            Ok::<_, io::Error>(Writer { bytes, thread })
        };
        Ok(Keeper {
            writer: path.map(start).transpose()?,
            // The first write is at once, so that an unwritable path is reported while the user is
            // still there.
            next_write: Instant::now(),
        })
    }

    /// Returns the time until the next write.
    pub(super) fn pause(&self) -> Duration {
        match self.writer {
            Some(_) => self.next_write.saturating_duration_since(Instant::now()),
            None => EVERY,
        }
    }

    /// Sends the history to the thread if it is time for a write.
    pub(super) fn work(&mut self, history: &mut History) {
        if let (Some(writer), true) = (&self.writer, self.pause().is_zero()) {
            self.next_write = Instant::now() + EVERY;
            // If the thread is still writing, this history is dropped: the next one has all data.
            let _ = writer.bytes.try_send(encoded(history));
        }
    }

    /// Writes the history now, and waits until it is written.
    pub(super) fn finish(self, history: &mut History) {
        if let Some(Writer { bytes, thread }) = self.writer {
            let _ = bytes.send(encoded(history));
            drop(bytes);
            let _ = thread.join();
        }
    }
}

fn encoded(history: &mut History) -> Vec<u8> {
    history.forget_names();
    history.encode()
}

/// Writes each history that arrives, until the channel is closed. A failure is reported once; after
/// a success the next failure is reported again.
fn write_all(path: &Path, histories: &Receiver<Vec<u8>>, notes: &Sender<String>) {
    host::confine::keep_rights_to_files();
    let mut has_failed = false;
    let mut is_confined = false;
    for bytes in histories {
        is_confined = is_confined || confine_beneath(path);
        let written = save(path, &bytes);
        let failed_before = std::mem::replace(&mut has_failed, written.is_err());
        if let (Err(error), false) = (written, failed_before) {
            let place = path.display();
            // The receiver may have ended.
            let _ = notes.send(format!(
                "cannot keep the history in {place}: {error}; give another file with --history, or `none`"
            ));
        }
    }
}

/// Restricts this thread to files beneath the history's directory, once that directory exists.
/// Returns true if the thread is restricted, or cannot be because the kernel has no Landlock.
fn confine_beneath(path: &Path) -> bool {
    let directory = match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => return true,
    };
    let is_there = std::fs::create_dir_all(directory).is_ok();
    if is_there {
        // On a kernel without Landlock this fails, and the thread is not restricted.
        let _ = host::confine::change_files_beneath(directory);
    }
    is_there
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_write_failure_is_reported_once() {
        let (sender, notes) = channel();
        let keeper = |path: PathBuf, sender| Keeper::new(Some(path), sender).expect("a thread");
        let nowhere = keeper("/proc/pagetide/history".into(), sender);
        let mut history = History::default();
        let writer = nowhere.writer.as_ref().expect("it is kept");
        for _ in 0..3 {
            writer.bytes.send(encoded(&mut history)).expect("it runs");
        }
        nowhere.finish(&mut history);
        let note = notes.try_recv().expect("it is told");
        assert!(
            note.contains("/proc/pagetide/history") && note.contains("--history"),
            "{note}"
        );
        assert!(notes.try_recv().is_err(), "once");
        let path = std::env::temp_dir().join(format!("pagetide-keeper-{}", std::process::id()));
        let (sender, notes) = channel();
        keeper(path.clone(), sender).finish(&mut history);
        assert!(notes.try_recv().is_err());
        let loaded = crate::tenants::history::file::load(&path);
        assert_eq!(loaded.expect("ours"), (history, None));
        std::fs::remove_file(path).expect("ours");
    }
    /// Regression: the history's directory was replaced by a link, and the manager wrote to the
    /// link's target, with root's rights to files.
    #[test]
    fn a_directory_that_becomes_a_link_leads_to_no_other_file() {
        let base = std::env::temp_dir().join(format!("pagetide-link-{}", std::process::id()));
        let (own, others) = (base.join("own"), base.join("others"));
        std::fs::create_dir_all(&others).expect("ours");
        let (sender, notes) = channel();
        let keeper = Keeper::new(Some(own.join("history")), sender).expect("a thread");
        let mut history = History::default();
        let write = |history: &mut History| {
            let writer = keeper.writer.as_ref().expect("it is kept");
            writer.bytes.send(encoded(history)).expect("it runs");
        };
        write(&mut history);
        let begin = Instant::now();
        while !own.join("history").exists() {
            assert!(begin.elapsed() < Duration::from_secs(30), "not written");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::rename(&own, base.join("moved")).expect("ours");
        std::os::unix::fs::symlink(&others, &own).expect("ours");
        keeper.finish(&mut history);
        let left = std::fs::read_dir(&others).expect("ours").count();
        std::fs::remove_dir_all(&base).expect("ours");
        assert_eq!(left, 0, "it wrote there");
        let note = notes.try_recv().expect("it is told");
        assert!(note.contains("ermission denied"), "{note}");
    }
}
