//! What the manager holds so that both keepers may die: duplicates of all their descriptors. As long
//! as one is open, what they answered waits, and does not read zeros; a new pair gets them.
//!
//! Invariant: a child's descriptors are held only while a keeper serves it: a userfaultfd that nobody
//! reads would make it wait for ever.

use super::inject::{self, Injected};
use super::link::Link;
use crate::Error;
use keeper::layout::{CHILDREN_MAX, ChildSlot, ctl, fd};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use uffd::fds;

/// Duplicates of the descriptors of the children that the keepers serve, by slot.
#[derive(Debug, Default)]
pub(crate) struct KeptChildren {
    /// Forks and children when they were last looked at.
    counts: (u64, u64),
    children: BTreeMap<usize, (ChildSlot, [OwnedFd; 2])>,
}

impl KeptChildren {
    /// In the order of the slots, as a new image expects them.
    fn all(&self) -> impl Iterator<Item = &OwnedFd> {
        self.children.values().flat_map(|(_, fds)| fds)
    }
}

impl Link {
    fn kept_children(&self) -> MutexGuard<'_, KeptChildren> {
        // What a panic left is at worst too little.
        self.kept_children
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn child_slot(&self, i: usize) -> Option<ChildSlot> {
        let at = ChildSlot::at(i);
        ChildSlot::from_words([self.get(at), self.get(at + 1)])
    }

    /// Takes duplicates of new children's descriptors, and lets go of those that are served no more.
    pub(crate) fn keep_children(&self) {
        let counts = (self.get(ctl::FORKS), self.get(ctl::CHILDREN));
        let mut kept = self.kept_children();
        if kept.counts == counts {
            return;
        }
        let slots = (0..CHILDREN_MAX).filter_map(|i| Some((i, self.child_slot(i)?)));
        let slots: BTreeMap<usize, ChildSlot> = slots.collect();
        kept.children
            .retain(|i, (slot, _)| slots.get(i) == Some(slot));
        let keeper = i32::try_from(self.get(ctl::KEEPER_PID)).unwrap_or(-1);
        let Ok(keeper) = fds::pidfd(keeper) else {
            return;
        };
        for (i, slot) in slots {
            if kept.children.contains_key(&i) {
                continue;
            }
            let get = |number| fds::duplicate(&keeper, number);
            let (Ok(uffd), Ok(table)) = (get(slot.uffd), get(slot.table_fd)) else {
                continue;
            };
            // It may have been another's by the time it was duplicated: its slot says so then.
            if self.child_slot(i) == Some(slot) {
                kept.children.insert(i, (slot, [uffd, table]));
            }
        }
        kept.counts = counts;
    }

    /// Chunks in which pages were out for the children that the keepers serve, when these were forked;
    /// `None` while a table is not at hand.
    pub(crate) fn chunks_of_children(&self) -> Option<u64> {
        let kept = self.kept_children();
        if kept.children.len() as u64 != self.get(ctl::CHILDREN) {
            return None;
        }
        let used = |table: &OwnedFd| {
            let mut word = [0; 8];
            let at = ctl::CHUNKS_USED as u64 * 8;
            rustix::io::pread(table, &mut word, at).ok()?;
            Some(u64::from_le_bytes(word))
        };
        kept.children
            .values()
            .map(|(_, [_, table])| used(table))
            .sum()
    }

    /// Empties the slots of children whose descriptors died with both keepers.
    fn forget_lost_children(&self) {
        let mut kept = self.kept_children();
        for i in 0..CHILDREN_MAX {
            let held = kept.children.get(&i).map(|(slot, _)| *slot);
            let named = self.child_slot(i);
            if held != named {
                kept.children.remove(&i);
                let at = ChildSlot::at(i);
                self.ctl(at).store(0, Ordering::Release);
            }
        }
    }

    /// Replaces keepers that were both killed; the target has waited meanwhile.
    pub(crate) fn replace_keepers(&self) -> Result<(), Error> {
        self.forget_lost_children();
        let inherit = (self.get(ctl::TABLE_BASE), self.get(ctl::FILE_REFS_BASE));
        let Injected { keeper, waits } = inject::inject(self.pid, Some(inherit))?;
        let io = |e: std::io::Error| {
            Error::failed(
                format!("cannot replace the keeper of process {}", self.pid),
                e,
                "try again",
            )
        };
        if waits {
            let pidfd = fds::pidfd(keeper).map_err(io)?;
            let socket = fds::duplicate(&pidfd, fd::SOCK_MANAGER).map_err(io)?;
            for kept in &self.kept {
                fds::send(socket.as_fd(), kept.as_fd()).map_err(io)?;
            }
            for kept in self.kept_children().all() {
                fds::send(socket.as_fd(), kept.as_fd()).map_err(io)?;
            }
        }
        let until = Instant::now() + Duration::from_secs(2);
        while self.get(ctl::KEEPER_PID) != u64::from(keeper.unsigned_abs()) {
            if Instant::now() > until {
                return Err(io(std::io::Error::other("the new keeper does not start")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.look_after_keepers();
        Ok(())
    }
}
