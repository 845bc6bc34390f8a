//! Which memory of a target is managed now.
//!
//! Invariant: all private anonymous memory is registered, mappings whole; nothing is moved out of a
//! mapping on first sight: it must have been there at the look before (a thread may just be making
//! it its stack).

use super::link::{Link, Lost};
use super::maps::{self, ControlBlocks, Managed};
use super::proc;
use crate::report::Unevictable;
use keeper::layout::Op;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(5);
/// Mappings larger than this are no thread stacks: they need not wait for a second look.
const CLEARLY_DATA: u64 = 64 << 20;
const EBUSY: i64 = -16;

/// The managed memory of one target.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    managed: Vec<Managed>,
    blocks: ControlBlocks,
    /// Mappings that somebody else has registered.
    foreign: Vec<(u64, u64)>,
    /// Not registered at the last look: start to end.
    fresh: BTreeMap<u64, u64>,
    /// Bytes of writable anonymous mappings left alone, by reason.
    pub(crate) left: BTreeMap<Unevictable, u64>,
}

fn overlaps(ranges: &[(u64, u64)], start: u64, end: u64) -> bool {
    ranges.iter().any(|&(s, e)| s < end && start < e)
}

fn covered(sorted: &[(u64, u64)], start: u64, end: u64) -> bool {
    let i = sorted.partition_point(|&(s, _)| s <= start);
    i > 0 && sorted[i - 1].1 >= end
}

impl Regions {
    /// The managed mappings as of the last look.
    pub(crate) fn managed(&self) -> &[Managed] {
        &self.managed
    }

    /// Looks at the mappings anew and registers what is to be managed.
    pub(crate) fn refresh(&mut self, pid: i32, link: &Link) -> io::Result<Result<(), Lost>> {
        let maps = maps::read(pid)?;
        // After the mappings, so that a thread seen in one of them is seen.
        let blocks = proc::control_blocks(pid);
        self.blocks.note(&maps, &blocks);
        let mut excluded = link.own_ranges();
        excluded.extend(&self.foreign);
        let mut wanted = maps::managed(&maps, &excluded, &self.blocks);
        let pinned = wanted
            .iter()
            .flat_map(|m| &m.pinned)
            .map(|(s, e)| e - s)
            .sum();
        self.left.insert(Unevictable::Stack, pinned);
        let registered = link.registered();
        let mut fresh = BTreeMap::new();
        wanted.retain(|m| {
            // Growth of something registered (the heap) is no new mapping.
            let known = covered(&registered, m.start, m.end)
                || overlaps(&registered, m.start.saturating_sub(1), m.end)
                || self.fresh.contains_key(&m.start)
                || m.end - m.start > CLEARLY_DATA;
            if !known {
                fresh.insert(m.start, m.end);
            }
            known
        });
        self.fresh = fresh;
        self.managed = wanted;
        self.register_all(pid, link, maps, &mut excluded)
    }

    /// Registers what is not registered yet, and looks again at once: a mapping that changed
    /// between the look and the registration may have been registered in part, and stays split
    /// (which mremap does not survive) until its rest is registered too.
    fn register_all(
        &mut self,
        pid: i32,
        link: &Link,
        mut maps: Vec<maps::Mapping>,
        excluded: &mut Vec<(u64, u64)>,
    ) -> io::Result<Result<(), Lost>> {
        for _ in 0..4 {
            let registered = link.registered();
            let new: Vec<(u64, u64)> = maps::registrable(&maps, excluded)
                .into_iter()
                .filter(|r| !covered(&registered, r.seen.0, r.seen.1))
                .flat_map(|r| [r.seen, r.span])
                .collect();
            if new.is_empty() {
                break;
            }
            if let Err(lost) = self.register(link, &new) {
                return Ok(Err(lost));
            }
            excluded.extend(&self.foreign);
            maps = maps::read(pid)?;
        }
        Ok(Ok(()))
    }

    fn register(&mut self, link: &Link, new: &[(u64, u64)]) -> Result<(), Lost> {
        if new.is_empty() {
            return Ok(());
        }
        let outcomes = link.command(Op::Register, new, LIMIT)?;
        for (&(start, end), outcome) in new.iter().zip(outcomes).step_by(2) {
            if outcome.stayed == EBUSY {
                self.foreign.push((start, end));
            }
            if outcome.stayed < 0 {
                self.managed.retain(|m| m.start < start || m.start >= end);
            }
        }
        let bytes = self.foreign.iter().map(|&(s, e)| e - s).sum();
        self.left.insert(Unevictable::Userfaultfd, bytes);
        Ok(())
    }
}
