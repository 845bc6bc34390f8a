//! What has lain for long in the zram of `swap on` is compressed once more ([`Swap::recompress`]), now and then, by a thread of its own.
//!
//! Invariant: nobody waits for it: the kernel compresses within the call. It ends between two of these, and no compression begins
//! once its value is gone.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

use host::swap::{Recompressed, Swap};

use crate::error::Error;
use crate::options::{Bytes, Millis};

/// Each time this part of the age has passed, so that no page waits for longer than that; within these bounds, as each time all places of
/// the device are gone through.
const PART: u32 = 4;
const EVERY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3600));

/// See the module.
#[derive(Debug)]
pub(super) struct Recompressor {
    /// What was done, or why nothing can be.
    pub(super) notes: Receiver<String>,
    /// The thread ends when it is dropped.
    _end: Sender<()>,
}

impl Recompressor {
    /// From now on.
    ///
    /// # Errors
    /// There is no zram that could, or no thread.
    pub(super) fn begin(older_than: Millis) -> Result<Recompressor, Error> {
        Swap::system().may_recompress()?;
        let (sender, notes) = channel();
        let (end, ended) = channel();
        let age = Duration::from_millis(older_than.0);
        let thread = std::thread::Builder::new().name("recompress".to_owned());
        let begun = thread.spawn(move || work(age, &ended, &sender));
        begun.map_err(|error| {
            let what = format!("cannot begin a thread: {error}");
            Error::failed(what, "is the limit of processes (ulimit -u) high enough?")
        })?;
        Ok(Recompressor { notes, _end: end })
    }
}

fn work(age: Duration, end: &Receiver<()>, notes: &Sender<String>) {
    let every = (age / PART).clamp(EVERY.0, EVERY.1);
    let mut last = None;
    while end.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let mut go_on = |_, _| end.try_recv() == Err(TryRecvError::Empty);
        let note = match Swap::system().recompress(age, &mut go_on) {
            Ok(done) => told(&done, age),
            Err(error) => Some(format!("nothing is compressed once more: {error}")),
        };
        // Why it cannot be is said once. Nobody may be there to hear it any more.
        if let Some(note) = note.clone().filter(|_| note != last) {
            let _ = notes.send(note);
        }
        last = note;
    }
}

/// What was done, if anything was.
fn told(done: &Recompressed, age: Duration) -> Option<String> {
    let won = Bytes(done.won_bytes);
    (done.won_bytes > 0).then(|| {
        format!(
            "compressed once more by {}: what had lain in {} for {} is {won} smaller",
            done.algorithm,
            done.path.display(),
            Millis::from(age),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_won_nothing_is_not_told() {
        let mut done = Recompressed {
            path: "/dev/zram1".into(),
            algorithm: "zstd".to_owned(),
            original_bytes: 64 << 20,
            memory_before_bytes: 30 << 20,
            memory_bytes: 30 << 20,
            won_bytes: 0,
        };
        let hour = Duration::from_secs(3600);
        assert_eq!(told(&done, hour), None);
        done.won_bytes = 10 << 20;
        let want =
            "compressed once more by zstd: what had lain in /dev/zram1 for 1h is 10 MiB smaller";
        assert_eq!(told(&done, hour).as_deref(), Some(want));
    }
}
