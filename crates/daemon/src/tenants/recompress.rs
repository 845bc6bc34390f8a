//! Compresses pages again that have been in the zram of `swap on` for long ([`Swap::recompress`]),
//! in a separate thread.
//!
//! Invariant: no other thread waits for this one: the kernel compresses within the system call. The
//! thread ends between two calls, and makes no call after its value is dropped.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use host::swap::{Recompressed, Swap};

use crate::error::Error;
use crate::options::{Bytes, Millis};

/// Time between two passes: `older_than / PART`, so that no page waits much longer than its age,
/// but within [`EVERY`], because each pass visits every slot of the device.
const PART: u32 = 4;
const EVERY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3600));

/// The thread that compresses again.
#[derive(Debug)]
pub(super) struct Recompressor {
    /// Messages about results, or about why pages cannot be compressed again.
    pub(super) notes: Receiver<String>,
    /// Dropping this sender ends the thread.
    _end: Sender<()>,
}

impl Recompressor {
    /// Starts the thread, for pages swapped out for at least `older_than`.
    ///
    /// # Errors
    /// There is no zram that can compress again, or no thread can be started.
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

/// Runs the thread: a pass every `age / PART`, until the other end of `end` is dropped.
fn work(age: Duration, end: &Receiver<()>, notes: &Sender<String>) {
    let every = (age / PART).clamp(EVERY.0, EVERY.1);
    let (mut last, mut idle) = (None, Idle::default());
    while end.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let begin = Instant::now();
        if idle.is_all_done(Swap::system().accesses(), begin, age) {
            continue;
        }
        let mut go_on = |_, _| end.try_recv() == Err(TryRecvError::Empty);
        let note = match Swap::system().recompress(age, &mut go_on) {
            Ok(done) => {
                idle.note(begin, &done);
                reported(&done, age)
            }
            Err(error) => Some(format!("nothing is compressed once more: {error}")),
        };
        // The same message is sent only once in a row. Sending fails if `serve` has ended.
        if let Some(note) = note.clone().filter(|_| note != last) {
            let _ = notes.send(note);
        }
        last = note;
    }
}

/// Knows whether a page can have become old enough since the last pass. If not, no pass is made:
/// each one visits every slot of the device, and on some kernels decompresses the slot's content.
#[derive(Debug, Default)]
struct Idle {
    /// The device's number of accesses (`None` if unknown), and the time when it was last found
    /// changed.
    seen: Option<(Option<u64>, Instant)>,
    /// Number of passes in a row that saved nothing, and the time when the last of them began.
    in_vain: Option<(u32, Instant)>,
}

/// Number of passes in a row that must save nothing before no more are made: one pass may have
/// found only pages that cannot become smaller, and that the kernel does not try again.
const IN_VAIN: u32 = 2;

impl Idle {
    fn is_all_done(&mut self, accesses: Option<u64>, now: Instant, age: Duration) -> bool {
        let since = match self.seen {
            Some((before, since)) if before == accesses && accesses.is_some() => since,
            _ => now,
        };
        self.seen = Some((accesses, since));
        let is_done = |(tries, begin): (u32, Instant)| tries >= IN_VAIN && begin >= since + age;
        self.in_vain.is_some_and(is_done)
    }

    fn note(&mut self, begin: Instant, done: &Recompressed) {
        let before = self.in_vain.map_or(0, |(tries, _)| tries);
        let is_in_vain = done.won_bytes == 0 && done.stopped.is_none();
        self.in_vain = is_in_vain.then_some((before.saturating_add(1), begin));
    }
}

/// Returns a message about the bytes saved; `None` if none were.
fn reported(done: &Recompressed, age: Duration) -> Option<String> {
    let won = Bytes(done.won_bytes);
    let what = (done.won_bytes > 0).then(|| {
        format!(
            "compressed once more by {}: what had lain in {} for {} is {won} smaller",
            done.algorithm,
            done.path.display(),
            Millis::from(age),
        )
    });
    let stopped = done
        .stopped
        .as_ref()
        .map(|why| format!("it stopped: {why}"));
    let parts: Vec<_> = what.into_iter().chain(stopped).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_saves_nothing_is_not_reported() {
        let mut done = Recompressed {
            path: "/dev/zram1".into(),
            algorithm: "zstd".to_owned(),
            original_bytes: 64 << 20,
            memory_before_bytes: 30 << 20,
            memory_bytes: 30 << 20,
            won_bytes: 0,
            stopped: None,
        };
        let hour = Duration::from_secs(3600);
        assert_eq!(reported(&done, hour), None);
        done.won_bytes = 10 << 20;
        let want =
            "compressed once more by zstd: what had lain in /dev/zram1 for 1h is 10 MiB smaller";
        assert_eq!(reported(&done, hour).as_deref(), Some(want));
        done.stopped = Some("why".to_owned());
        let text = reported(&done, hour);
        assert!(text.is_some_and(|text| text.ends_with("smaller; it stopped: why")));
    }

    #[test]
    fn passes_are_made_again_after_new_pages() {
        let (mut idle, begin) = (Idle::default(), Instant::now());
        let (age, after) = (Duration::from_secs(100), |s| begin + Duration::from_secs(s));
        let mut done = Recompressed {
            path: "/dev/zram1".into(),
            algorithm: "zstd".to_owned(),
            original_bytes: 0,
            memory_before_bytes: 0,
            memory_bytes: 0,
            won_bytes: 1,
            stopped: None,
        };
        for (at, won) in [(0, 1), (25, 0), (50, 0), (75, 0), (100, 1), (125, 0)] {
            assert!(!idle.is_all_done(Some(7), after(at), age), "at {at}");
            done.won_bytes = won;
            idle.note(after(at), &done);
        }
        assert!(
            !idle.is_all_done(Some(7), after(150), age),
            "once is chance"
        );
        idle.note(after(150), &done);
        assert!(idle.is_all_done(Some(7), after(175), age));
        // A page was swapped out since the last pass, and is old enough a hundred seconds later.
        for at in [200, 225, 250, 275, 300] {
            assert!(!idle.is_all_done(Some(8), after(at), age), "at {at}");
            idle.note(after(at), &done);
        }
        assert!(idle.is_all_done(Some(8), after(325), age));
        // On a kernel that does not count accesses, no pass is left out.
        assert!(!idle.is_all_done(None, after(350), age));
        idle.note(after(350), &done);
        assert!(!idle.is_all_done(None, after(900), age));
    }
}
