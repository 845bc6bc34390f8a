//! Answering where the asker runs.
//!
//! Invariant: the thread that answers may run wherever it could before; it moves only to a processor that it may run on, and
//! looks for one no more often than each [`EVERY`] questions of one asker.
//!
//! Whoever reads a file sleeps until our thread has answered, and our thread sleeps until somebody reads. On one processor the two
//! take turns, and each turn costs a switch. On two, each turn wakes the other processor from its sleep, which under a
//! hypervisor costs more than ten times as much. Where processors share no cache, the kernel's scheduler leaves both threads where
//! they happen to be.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use host::system::Proc;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::awake::Awake;

/// After so many questions of one asker in a row it is looked where that runs. The scheduler parts the two threads again and again,
/// because there is an idle processor for each. A look costs about as much as a question: one in 16 is cheap, and a row is not
/// slow for long.
const EVERY: u32 = 16;
/// So many questions within this time are somebody who reads one file after the other.
const FAST: Duration = Duration::from_millis(5);

/// See the module. Of one thread that answers.
#[derive(Debug)]
pub(super) struct Near {
    row: Mutex<Row>,
    awake: Awake,
}

impl Near {
    /// From now on.
    pub(super) fn begin() -> Near {
        Near {
            row: Mutex::default(),
            awake: Awake::begin(),
        }
    }

    /// A question of this thread is being answered, until what this returns is dropped.
    pub(super) fn question(&self, asker: u32) -> Question<'_> {
        Question { near: self, asker }
    }

    fn answered(&self, asker: u32) {
        let mut row = self.row.lock().unwrap_or_else(PoisonError::into_inner);
        let due = row.asked_by(asker, Instant::now());
        if due == Due::Fast {
            self.awake.row();
        }
        if due != Due::Nothing {
            // Where it cannot be done we answer from where we are.
            let _ = move_to(asker);
        }
    }
}

/// A question that is being answered.
#[must_use]
pub(super) struct Question<'a> {
    near: &'a Near,
    asker: u32,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.near.answered(self.asker);
    }
}

/// What is due after a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    Nothing,
    /// To look where the asker runs.
    Look,
    /// That, and the row came fast.
    Fast,
}

/// Questions of one asker.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    asker: u32,
    /// Its questions since it was last looked where it runs.
    questions: u32,
    /// When that was; before the first look, when its row began.
    since: Option<Instant>,
}

impl Row {
    /// What is due after a question of an asker.
    fn asked_by(&mut self, asker: u32, now: Instant) -> Due {
        // Who is in another pid namespace has no number here, and the kernel itself none at all.
        if asker == 0 {
            return Due::Nothing;
        }
        if asker != self.asker {
            *self = Row {
                asker,
                questions: 0,
                since: Some(now),
            };
        }
        self.questions += 1;
        if self.questions < EVERY {
            return Due::Nothing;
        }
        self.questions = 0;
        let began = self.since.replace(now);
        match began.is_some_and(|began| now.saturating_duration_since(began) < FAST) {
            true => Due::Fast,
            false => Due::Look,
        }
    }
}

/// Moves this thread to the processor where another ran last, if it may run there: the one where it is then. None where that
/// cannot be known, or done.
fn move_to(thread: u32) -> Option<usize> {
    let stat = Proc::system().ok()?.stat(thread).ok()??;
    let (there, here) = (usize::try_from(stat.processor).ok()?, sched_getcpu());
    let allowed = sched_getaffinity(None).ok()?;
    let may_go = there < CpuSet::MAX_CPU && allowed.is_set(there);
    if there == here || !may_go {
        return Some(here);
    }
    // What runs is moved at once, and stays there when it may go elsewhere again.
    let moved = sched_setaffinity(None, &only(allowed, there)).map(|()| sched_getcpu());
    sched_setaffinity(None, &allowed).ok()?;
    moved.ok()
}

/// One processor alone.
fn only(mut set: CpuSet, place: usize) -> CpuSet {
    set.clear();
    set.set(place);
    set
}

#[cfg(test)]
mod tests {
    use rustix::thread::gettid;

    use super::*;

    #[test]
    fn it_is_looked_after_rows_of_one_asker() {
        let mut row = Row::default();
        let mut looks = |askers: &mut dyn Iterator<Item = u32>| {
            let now = Instant::now();
            let looks = askers.filter(|asker| row.asked_by(*asker, now) != Due::Nothing);
            looks.count()
        };
        assert_eq!(looks(&mut (0..10_000).map(|at| 1 + at % 2)), 0);
        let every = EVERY as usize;
        assert_eq!(looks(&mut std::iter::repeat_n(7, every - 1)), 0);
        assert_eq!(looks(&mut std::iter::repeat_n(0, 10_000)), 0);
        assert_eq!(looks(&mut std::iter::once(7)), 1);
        assert_eq!(looks(&mut std::iter::repeat_n(7, 100 * every)), 100);
    }

    /// Who reads three files a second keeps no processor awake.
    #[test]
    fn a_row_is_fast_by_its_time() {
        let (mut row, begin) = (Row::default(), Instant::now());
        let mut asked = |each: Duration| {
            let due = (0..EVERY).map(|at| row.asked_by(7, begin + each * at));
            due.last()
        };
        assert_eq!(asked(FAST / EVERY / 2), Some(Due::Fast));
        assert_eq!(asked(FAST), Some(Due::Look));
    }

    /// This thread goes where another one is bound to be, and may run anywhere afterwards.
    #[test]
    fn it_moves_to_the_asker_and_is_not_bound() {
        let allowed = sched_getaffinity(None).expect("ours");
        let mut places = (0..1024).filter(|place| allowed.is_set(*place));
        for there in [places.next(), places.next_back()].into_iter().flatten() {
            let (tell, told) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let asker = std::thread::spawn(move || {
                sched_setaffinity(None, &only(allowed, there)).expect("one of ours");
                tell.send(gettid().as_raw_nonzero().get()).expect("heard");
                let _ = ended.recv();
            });
            let thread = u32::try_from(told.recv().expect("its number")).expect("a number");
            assert_eq!(move_to(thread), Some(there));
            assert_eq!(sched_getaffinity(None).expect("ours"), allowed);
            drop(end);
            asker.join().expect("it ends");
        }
        assert_eq!(move_to(u32::MAX), None);
    }
}
