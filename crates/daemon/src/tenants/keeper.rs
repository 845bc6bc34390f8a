//! Puts the history on disk every few minutes.
//!
//! Invariant: no request waits for the disk: a thread of its own writes, one history at a time. That thread reads nothing that came from
//! outside, keeps no right but those to files, and changes those beneath the history's directory alone, as it was at first. After a kill, what came since the last write is lost.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::history::History;
use super::history::file::save;

/// Between two writings.
const EVERY: Duration = Duration::from_secs(300);

/// See the module.
#[derive(Debug)]
pub(super) struct Keeper {
    /// `None` if the history is not kept.
    writer: Option<Writer>,
    next: Instant,
}

/// The thread that writes; it ends when `bytes` is dropped.
#[derive(Debug)]
struct Writer {
    /// One history waits at most.
    bytes: SyncSender<Vec<u8>>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Starts the thread. `notes` is sent one line when the file cannot be written.
    ///
    /// # Errors
    /// No thread is to be had.
    pub(super) fn new(path: Option<PathBuf>, notes: Sender<String>) -> io::Result<Keeper> {
        let start = |path: PathBuf| {
            let (bytes, histories) = sync_channel(1);
            let thread = std::thread::Builder::new().name("history".to_owned());
            let thread = thread.spawn(move || write_all(&path, &histories, &notes))?;
            Ok::<_, io::Error>(Writer { bytes, thread })
        };
        Ok(Keeper {
            writer: path.map(start).transpose()?,
            // At once: of a place that cannot be written is told while somebody looks.
            next: Instant::now(),
        })
    }

    /// Time until the next write is pending.
    pub(super) fn pause(&self) -> Duration {
        match self.writer {
            Some(_) => self.next.saturating_duration_since(Instant::now()),
            None => EVERY,
        }
    }

    /// Has the history written if that is pending.
    pub(super) fn work(&mut self, history: &mut History) {
        if let (Some(writer), true) = (&self.writer, self.pause().is_zero()) {
            self.next = Instant::now() + EVERY;
            // A disk that is slow is given no more: the next write has it all.
            let _ = writer.bytes.try_send(encoded(history));
        }
    }

    /// Has the history written now, and waits for that.
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

/// The thread's work, until no history comes any more. A lack is told once, and once more after a success.
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
            // Nobody may be there to hear it any more.
            let _ = notes.send(format!(
                "cannot keep the history in {place}: {error}; give another file with --history, or `none`"
            ));
        }
    }
}

/// Whether this thread can change no other files from now on, or never will be kept from it: the
/// kernel has no Landlock. Not before the directory is there.
fn confine_beneath(path: &Path) -> bool {
    let directory = match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => return true,
    };
    let is_there = std::fs::create_dir_all(directory).is_ok();
    if is_there {
        // Without Landlock it is as it was.
        let _ = host::confine::change_files_beneath(directory);
    }
    is_there
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_cannot_be_written_is_told_once() {
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
    /// Regression: the history's directory became a link, and the manager wrote wherever that led, with root's rights to files.
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
