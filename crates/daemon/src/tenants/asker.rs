//! Who may open files of the tree, and make and remove tenants by it.
//!
//! Invariant: files tell and do nothing for whom the socket refuses. The kernel lets in whoever has the owner's number (the mount is without
//! `allow_other`); of root that is not enough. (The story: root without CAP_SYS_PTRACE, which may trace nobody and which no socket
//! answered, read all ages and paged processes out by `echo`.)

use std::os::unix::fs::MetadataExt;

use rustix::process::Pid;
use rustix::thread::{CapabilitySet, capabilities};

/// What is ours, to compare askers with: it does not change while we serve.
pub(super) struct Owner {
    /// Whether we may trace processes of others ourselves: without, root's number is enough, as at the socket.
    traces: bool,
    /// Its user namespace: capabilities count there alone.
    users: Option<u64>,
}

impl Owner {
    pub(super) fn of_this_process() -> Owner {
        Owner {
            traces: may_trace(None),
            users: users("self"),
        }
    }

    /// Whether a thread of this user, as the kernel names both in a question, may ask. It sleeps until it is answered, so its number is its own.
    /// Some 4 us: of whom it is asked at each open.
    pub(super) fn lets(&self, uid: u32, thread: u32) -> bool {
        if uid != 0 || !self.traces {
            return true;
        }
        // Of 0 the kernel says that our pid namespace has no number for it.
        let named = i32::try_from(thread).ok().and_then(Pid::from_raw);
        named.is_some_and(|named| may_trace(Some(named)))
            && users(&thread.to_string()) == self.users
    }
}

fn may_trace(thread: Option<Pid>) -> bool {
    let sets = capabilities(thread);
    sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_PTRACE))
}

/// The user namespace of a thread; none of a kernel that has no such namespaces.
fn users(who: &str) -> Option<u64> {
    let found = std::fs::metadata(format!("/proc/{who}/ns/user"));
    Some(found.ok()?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (End to end with fewer rights: e2e `serve_asked`.)
    #[test]
    fn who_is_as_we_are_may_ask() {
        let owner = Owner::of_this_process();
        let thread = rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .unsigned_abs();
        assert!(owner.lets(0, thread) && owner.lets(1000, 0));
        let traces = Owner {
            traces: true,
            users: users("self"),
        };
        assert!(!traces.lets(0, 0));
        let elsewhere = Owner {
            traces: true,
            users: Some(1),
        };
        assert!(!elsewhere.lets(0, thread));
        // Without the right to trace there is nothing to keep from root.
        let poor = Owner {
            traces: false,
            ..elsewhere
        };
        assert!(poor.lets(0, 0));
    }
}
