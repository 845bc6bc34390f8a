//! What has lain for long in the zram of `swap on` is compressed once more ([`Swap::recompress`]), now and then, by a thread of its own.
//!
//! Invariant: nobody waits for it: the kernel compresses within the call. It ends between two of these, and no compression begins
//! once its value is gone.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

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
                told(&done, age)
            }
            Err(error) => Some(format!("nothing is compressed once more: {error}")),
        };
        // Why it cannot be is said once. Nobody may be there to hear it any more.
        if let Some(note) = note.clone().filter(|_| note != last) {
            let _ = notes.send(note);
        }
        last = note;
    }
}

/// Whether anything can have become old enough since it was last tried: each try has the kernel go through all places of the device, and on some
/// kernels decompress what lies there.
#[derive(Debug, Default)]
struct Idle {
    /// How often the device was read and written, and when that was last seen to be otherwise.
    seen: Option<(Option<u64>, Instant)>,
    /// Tries in a row that won nothing, and when the last one began.
    in_vain: Option<(u32, Instant)>,
}

/// So many in a row: one may have met what cannot become smaller, which is not tried again, before what can.
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

/// What was done, if anything was.
fn told(done: &Recompressed, age: Duration) -> Option<String> {
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
    fn what_won_nothing_is_not_told() {
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
        assert_eq!(told(&done, hour), None);
        done.won_bytes = 10 << 20;
        let want =
            "compressed once more by zstd: what had lain in /dev/zram1 for 1h is 10 MiB smaller";
        assert_eq!(told(&done, hour).as_deref(), Some(want));
        done.stopped = Some("why".to_owned());
        let text = told(&done, hour);
        assert!(text.is_some_and(|text| text.ends_with("smaller; it stopped: why")));
    }

    #[test]
    fn what_was_tried_is_tried_again_when_something_has_come() {
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
        // It came by then, and is old enough a hundred seconds later.
        for at in [200, 225, 250, 275, 300] {
            assert!(!idle.is_all_done(Some(8), after(at), age), "at {at}");
            idle.note(after(at), &done);
        }
        assert!(idle.is_all_done(Some(8), after(325), age));
        // Where the kernel does not tell, it is tried each time.
        assert!(!idle.is_all_done(None, after(350), age));
        idle.note(after(350), &done);
        assert!(!idle.is_all_done(None, after(900), age));
    }
}
