//! Limits that a wall is to get.
//!
//! Invariant: a hard limit is put when no more than that is charged, for the kernel would kill for it (version 2) or refuse it (version 1); until
//! then it is due, and so is on version 1 a limit of swap, which is one of both together there. While it is due the group has a bound: what it uses
//! and a little more, which follows it down. What the kernel refuses for good is told, and due no more.

use std::io;

use super::Wall;
use crate::system::cgroup::Version;

/// What a group may grow by while a limit below what it uses is due, bytes: what is taken of it at a time. Whoever grows by more, and has
/// nothing that could leave, is killed by the kernel, as at its own limit.
const ROOM: u64 = 32 << 20;

/// What is not put yet: bytes, or no limit at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Due {
    /// Of memory.
    pub max: Option<Option<u64>>,
    /// Of what may be in swap.
    pub swap_max: Option<Option<u64>>,
}

/// What the kernel refused.
#[derive(Debug, Default)]
pub struct Refused {
    /// The hard limit.
    pub max: Option<io::Error>,
    /// The limit of swap.
    pub swap_max: Option<io::Error>,
}

impl Due {
    /// Whether the kernel holds all that was asked for, of memory: until then what is above is nobody's but ours to take.
    #[must_use]
    pub fn stands(&self) -> bool {
        self.max.is_none()
    }

    /// Puts what can be put now.
    pub fn put(&mut self, wall: &Wall) -> Refused {
        let mut refused = Refused::default();
        let is_over = |max: u64| wall.charged().is_ok_and(|charged| charged > max);
        // Version 1 has both apart by what may be in swap: where one of them waits that cannot be read off them any more.
        if let (Some(Some(_)), None) = (self.max, self.swap_max) {
            self.swap_max = wall.swap_apart().map(Some);
        }
        if self.max.flatten().is_some_and(is_over) {
            wall.bound(ROOM);
        } else if let Some(max) = self.max {
            match wall.set_max(max) {
                // It has grown since, and does not stay above that for long: it is reclaimed from.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                put => (self.max, refused.max) = (None, put.err()),
            }
        }
        let is_next = self.max.is_none() || wall.version() == Version::V2;
        if let Some(swap) = self.swap_max.filter(|_| is_next) {
            match wall.set_swap_max(swap) {
                // More is in swap; what leaves by our hand keeps to it, and the rest comes back or ends.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                put => (self.swap_max, refused.swap_max) = (None, put.err()),
            }
        }
        refused
    }
}
