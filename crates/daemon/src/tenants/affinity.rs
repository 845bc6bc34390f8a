//! CPU affinity of the serving thread: it serves on the processor where the client runs.
//!
//! Invariant: the thread may run on the same processors as before; it moves only to one of them,
//! and checks a client's processor at most once in [`CHECK_EVERY`] requests of that client.
//!
//! A client that reads a file sleeps until our thread has replied, and our thread sleeps until a
//! client reads. If they share a processor, each request costs two context switches. If they run on
//! two processors, each wakes the other's processor, which under a hypervisor costs more than ten
//! times as much. If processors share no cache, the kernel's scheduler does not bring the two
//! threads together.

use std::sync::{Mutex, PoisonError};

use host::system::Proc;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Number of successive requests of one client after which its processor is checked. The scheduler
/// separates the two threads again and again, because there is an idle processor for each. A check
/// costs about as much as a request, so one in 16 is cheap, and the threads soon share a processor
/// again.
const CHECK_EVERY: u32 = 16;

/// The affinity of one serving thread to its clients' processors.
#[derive(Debug, Default)]
pub(super) struct CpuAffinity {
    latest: Mutex<ClientRequests>,
}

impl CpuAffinity {
    /// Marks the beginning of a request of the thread `client`. The request ends when the returned
    /// value is dropped.
    pub(super) fn begin_request(&self, client: u32) -> ServedRequest<'_> {
        ServedRequest {
            affinity: self,
            client,
        }
    }

    /// Called at the end of a request. If the client's processor must be checked now, moves this
    /// thread to that processor.
    fn after_request(&self, client: u32) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.requested_by(client) {
            // If the move fails, this thread stays on its processor.
            let _ = move_to(client);
        }
    }
}

/// A request that is being served.
#[must_use]
pub(super) struct ServedRequest<'a> {
    affinity: &'a CpuAffinity,
    client: u32,
}

impl Drop for ServedRequest<'_> {
    fn drop(&mut self) {
        self.affinity.after_request(self.client);
    }
}

/// The latest successive requests of one client.
#[derive(Clone, Copy, Debug, Default)]
struct ClientRequests {
    client: u32,
    /// Number of the client's requests since its processor was last checked.
    since_check: u32,
}

impl ClientRequests {
    /// Counts a request of a client; returns whether to check on which processor the client runs.
    fn requested_by(&mut self, client: u32) -> bool {
        // Pid 0 is a client in another pid namespace, or the kernel itself.
        if client == 0 {
            return false;
        }
        if client != self.client {
            *self = ClientRequests {
                client,
                since_check: 0,
            };
        }
        self.since_check += 1;
        let is_due = self.since_check >= CHECK_EVERY;
        if is_due {
            self.since_check = 0;
        }
        is_due
    }
}

/// Moves this thread to the processor where `thread` ran last, if this thread may run there.
/// Returns the processor of this thread afterwards; `None` if that of `thread` is unknown or the
/// move failed.
fn move_to(thread: u32) -> Option<usize> {
    let stat = Proc::system().ok()?.stat(thread).ok()??;
    let (there, here) = (usize::try_from(stat.processor).ok()?, sched_getcpu());
    let allowed = sched_getaffinity(None).ok()?;
    let may_go = there < CpuSet::MAX_CPU && allowed.is_set(there);
    if there == here || !may_go {
        return Some(here);
    }
    // The kernel moves a running thread at once; allowing all processors again does not move it
    // back.
    let moved = sched_setaffinity(None, &only(allowed, there)).map(|()| sched_getcpu());
    sched_setaffinity(None, &allowed).ok()?;
    moved.ok()
}

/// Returns a set with one processor.
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
    fn the_processor_is_checked_after_a_row_of_one_client() {
        let mut latest = ClientRequests::default();
        let mut checks = |clients: &mut dyn Iterator<Item = u32>| {
            clients
                .filter(|client| latest.requested_by(*client))
                .count()
        };
        assert_eq!(checks(&mut (0..10_000).map(|at| 1 + at % 2)), 0);
        let every = CHECK_EVERY as usize;
        assert_eq!(checks(&mut std::iter::repeat_n(7, every - 1)), 0);
        assert_eq!(checks(&mut std::iter::repeat_n(0, 10_000)), 0);
        assert_eq!(checks(&mut std::iter::once(7)), 1);
        assert_eq!(checks(&mut std::iter::repeat_n(7, 100 * every)), 100);
    }

    /// This thread moves to the processor to which another one is bound, and may run anywhere
    /// afterwards.
    #[test]
    fn the_thread_moves_to_the_client_and_is_not_bound() {
        let allowed = sched_getaffinity(None).expect("ours");
        let mut places = (0..1024).filter(|place| allowed.is_set(*place));
        for there in [places.next(), places.next_back()].into_iter().flatten() {
            let (tell, reported) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let client = std::thread::spawn(move || {
                sched_setaffinity(None, &only(allowed, there)).expect("one of ours");
                tell.send(gettid().as_raw_nonzero().get()).expect("heard");
                let _ = ended.recv();
            });
            let thread = u32::try_from(reported.recv().expect("its number")).expect("a number");
            assert_eq!(move_to(thread), Some(there));
            assert_eq!(sched_getaffinity(None).expect("ours"), allowed);
            drop(end);
            client.join().expect("it ends");
        }
        assert_eq!(move_to(u32::MAX), None);
    }
}
