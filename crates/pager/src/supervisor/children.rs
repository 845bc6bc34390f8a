//! Descendants of the target: programs it starts are managed too, and forked children once they
//! have lived a while.

use super::Supervisor;
use crate::target::{Target, proc};
use engine::Millis;
use keeper::layout::{Op, ctl};
use std::collections::BTreeMap;
use std::time::Duration;

/// Descendants that are not managed (yet): when they were first seen.
#[derive(Default)]
pub(crate) struct Family {
    seen: BTreeMap<i32, Millis>,
    looked_at: Millis,
    refused: BTreeMap<i32, u32>,
}

/// How often to look for new ones.
const LOOK_EVERY: u64 = 200;
/// How long a process must live before it is worth a keeper of its own.
const NEW_PROGRAM_MS: u64 = 200;
/// A forked child shares its parent's memory at first: its pages cannot leave before they differ.
const FORKED_MS: u64 = 3000;
/// Fewer chunks in which pages are out for them are brought home at once.
const FEW_CHUNKS: u64 = 8;
/// Processes smaller than this are left alone.
const WORTH_BYTES: u64 = 4 << 20;
const TRIES: u32 = 3;

impl Supervisor {
    pub(super) fn family_changes(&mut self, now: Millis) {
        if now.since(self.family.looked_at).0 < LOOK_EVERY {
            return;
        }
        self.family.looked_at = now;
        let live = self.descendants();
        self.family.seen.retain(|pid, _| live.contains(pid));
        self.family.refused.retain(|pid, _| live.contains(pid));
        for pid in live {
            if self.targets.iter().any(|t| t.pid == pid) {
                continue;
            }
            let since = *self.family.seen.entry(pid).or_insert(now);
            let age = now.since(since).0;
            if age >= NEW_PROGRAM_MS {
                self.consider(pid, age, now);
            }
        }
    }

    /// The root and every descendant, keepers excepted.
    pub(super) fn descendants(&self) -> Vec<i32> {
        let mut all = vec![self.pid];
        let mut next = 0;
        while next < all.len() && all.len() < 4096 {
            let more = proc::children(all[next]);
            all.extend(more.into_iter().filter(|&p| !proc::is_keeper(p)));
            next += 1;
        }
        all
    }

    /// Targets whose keepers serve children that have none of their own.
    fn serving(&self) -> impl Iterator<Item = &Target> {
        let serves = |t: &&Target| t.link.get(ctl::CHILDREN) > 0;
        self.targets.iter().filter(serves)
    }

    /// Whether hardly anything has to be brought home for these.
    fn children_need_little(&self) -> bool {
        let chunks: Option<u64> = self.serving().map(|t| t.link.chunks_of_children()).sum();
        chunks.is_some_and(|chunks| chunks <= FEW_CHUNKS)
    }

    fn consider(&mut self, pid: i32, age: u64, now: Millis) {
        let tried = self.family.refused.get(&pid).copied().unwrap_or(0);
        if tried >= TRIES || proc::anon_bytes(pid).unwrap_or(0) < WORTH_BYTES {
            return;
        }
        if age < FORKED_MS && !self.children_need_little() {
            return;
        }
        // Whose child it is, the fork event does not tell: all are brought home.
        let limit = Duration::from_secs(20);
        let home = |t: &Target| t.link.plain(Op::RestoreChildren, limit).is_ok();
        if !self.serving().all(home) {
            return;
        }
        match Target::start(pid, &self.options, now) {
            Ok(target) => self.admit(target),
            Err(_) => *self.family.refused.entry(pid).or_insert(0) += 1,
        }
    }
}
