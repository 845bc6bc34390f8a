//! Limits that a wall is to get.
//!
//! Invariant: a hard limit is put when no more than that is charged, for the kernel would kill for it (version 2) or refuse it (version 1); until
//! then it is due, and so is on version 1 a limit of swap, which is one of both together there. While it is due the group has a bound: what it uses
//! and a little more, which follows it down. memory.high (version 2) follows what is used down, too: the kernel reclaims what is above it in the
//! write itself, for as long as that takes, so no more than a step is ever above. What the kernel refuses for good is told, and due no more.

use std::io;

use super::Wall;
use crate::system::cgroup::Version;

/// What a group may grow by while a limit below what it uses is due, bytes: what is taken of it at a time. Whoever grows by more, and has
/// nothing that could leave, is killed by the kernel, as at its own limit.
const ROOM: u64 = 32 << 20;
/// What the kernel is to reclaim in one write of memory.high, bytes: some milliseconds.
const STEP: u64 = 8 << 20;

/// What is not put yet: bytes, or no limit at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Due {
    /// Where the kernel slows the group down.
    pub high: Option<Option<u64>>,
    /// Of memory.
    pub max: Option<Option<u64>>,
    /// Of what may be in swap.
    pub swap_max: Option<Option<u64>>,
}

/// What the kernel refused.
#[derive(Debug, Default)]
#[must_use]
pub struct Refused {
    /// Where it slows down; version 1 has no such limit.
    pub high: Option<io::Error>,
    /// The hard limit.
    pub max: Option<io::Error>,
    /// The limit of swap.
    pub swap_max: Option<io::Error>,
    /// What its own reclaim is to leave, which is never due.
    pub protection: Option<io::Error>,
}

impl Due {
    /// Whether the kernel holds all that was asked for, of memory: until then what is above is nobody's but ours to take.
    #[must_use]
    pub fn stands(&self) -> bool {
        self.high.is_none() && self.max.is_none()
    }

    /// Puts what can be put now.
    pub fn put(&mut self, wall: &Wall) -> Refused {
        let high = self.put_high(wall, 0).err();
        let max = self.put_max(wall).err();
        let is_next = self.max.is_none() || wall.version() == Version::V2;
        let mut swap_max = None;
        if let Some(swap) = self.swap_max.filter(|_| is_next) {
            match wall.set_swap_max(swap) {
                // More is in swap; what leaves by our hand keeps to it, and the rest comes back or ends.
                Err(error) if is_for_a_moment(&error) => {}
                put => (self.swap_max, swap_max) = (None, put.err()),
            }
        }
        Refused {
            high,
            max,
            swap_max,
            protection: None,
        }
    }

    /// Nothing leaves by our hand: the kernel is to take a step of what is above memory.high. How many bytes went; 0 where that is not due, and on
    /// version 1, which has none.
    pub fn press(&mut self, wall: &Wall) -> u64 {
        let before = match (self.high, wall.charged()) {
            (Some(_), Ok(charged)) if wall.version() == Version::V2 => charged,
            _ => return 0,
        };
        let put = self.put_high(wall, STEP);
        let after = put.and_then(|()| wall.charged()).unwrap_or(before);
        before.saturating_sub(after)
    }

    fn put_max(&mut self, wall: &Wall) -> io::Result<()> {
        let charged = match self.max.flatten().map(|_| wall.charged()) {
            Some(Ok(charged)) => charged,
            // Nobody can tell just now: it is asked for at the next measurement.
            Some(Err(_)) => return Ok(()),
            None => 0,
        };
        // Version 1 has both apart by what may be in swap: where one of them waits that cannot be read off them any more.
        if let (Some(Some(_)), None) = (self.max, self.swap_max) {
            self.swap_max = wall.swap_apart().map(Some);
        }
        if self.max.flatten().is_some_and(|max| charged > max) {
            wall.bound(ROOM);
        } else if let Some(max) = self.max {
            match wall.set_max(max) {
                // It has grown since, and does not stay above that for long: it is reclaimed from.
                Err(error) if is_for_a_moment(&error) => {}
                put => {
                    self.max = None;
                    return put;
                }
            }
        }
        Ok(())
    }

    /// Puts memory.high where it was asked for if no more than a step is above that, else so many bytes below what is charged.
    fn put_high(&mut self, wall: &Wall, below: u64) -> io::Result<()> {
        let Some(goal) = self.high else {
            return Ok(());
        };
        // (The story: the host was short of descriptors for a moment, and the kernel was given a limit far below what was in use.)
        let charged = match (wall.version(), goal) {
            (Version::V2, Some(_)) => match wall.charged() {
                Ok(charged) => charged,
                Err(_) => return Ok(()),
            },
            _ => 0,
        };
        let above = goal.filter(|goal| charged > goal.saturating_add(STEP));
        let put = match above {
            // It stands, and what is above it stays there: to write it once more would have the kernel begin anew.
            Some(goal) if wall.has_high(goal) => Ok(()),
            Some(goal) => {
                let put = wall.bound_high(goal.max(charged.saturating_sub(below)));
                if put.is_ok() {
                    return Ok(());
                }
                put
            }
            None => wall.set_high(goal),
        };
        self.high = None;
        put
    }
}

/// What is over in a moment: it has grown since, a signal came, or the host is short of descriptors or memory.
fn is_for_a_moment(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, OutOfMemory, ResourceBusy};
    matches!(error.kind(), Interrupted | OutOfMemory | ResourceBusy)
}
