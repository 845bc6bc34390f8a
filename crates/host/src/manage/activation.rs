//! Activates pages in use before the kernel is requested to reclaim from a group, so that the
//! kernel takes the oldest pages.
//!
//! The kernel chooses pages by its lists and by accessed bits, and scans clear these bits. So right
//! after a scan the kernel takes pages in use as readily as cold ones. MADV_PAGEOUT of chosen pages
//! is no way out: it skips pages that several processes map. But the kernel's lists count each read
//! of `/proc/PID/mem` as an access, and put a page on the active list after the second.
//!
//! Invariants:
//!
//! - A read sets no accessed bit, so no scan takes it for an access of the program. Only in the
//!   entry of a huge page the kernel would set the bit: huge pages are not read, and the kernel
//!   chooses among them.
//! - Only anonymous and shared memory is read, and only pages whose entries showed them in memory a
//!   moment before. A read that meets a page in swap after all ends soon after 16 such pages.
//! - A budget bounds the processor time ([`super::activation_rules`]). Pages beyond it are left to
//!   the kernel's choice.

use std::collections::BTreeMap;
use std::ops::Range;

use engine::memcg::MemcgId;
use engine::units::PAGE_SIZE;
use engine::{Millis, Pages};
use pagetables::access::{self, Access};
use pagetables::{Grain, Kind as EntryKind, Piece};

use super::activation_rules::activated_since;
use super::flags::Flags;
use super::members::Members;
use super::tenant_map::TenantMap;
use crate::age_table::Owner;
use crate::ages::{Ages, MemoryKind};
use crate::system::vmstat::has_multi_gen;
use crate::system::{Kind, Mapping, Proc};

/// Number of reads after which the kernel keeps a page: two make it active on the classic lists.
/// The multi-gen LRU protects a page after five.
const READS: u8 = 2;
const READS_MULTI_GEN: u8 = 5;
/// Maximum number of pages read between two checks of the time: about a millisecond of work.
const STEP: usize = 512;
/// Maximum number of bytes for one read of page tables, which so has at most 2,048 address ranges.
const PART: u64 = 8 << 20;
/// Maximum number of scans during one activation.
const SCANS_MAX: u64 = 4;

/// The result of an activation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Activated {
    /// Number of pages that were read.
    pub(super) pages: u64,
    /// Number of these pages that were in swap by then, so that they were read into memory.
    pub(super) swapped_in: u64,
    /// Where the next call continues, because the slice ended before all pages in use were active.
    pub(super) rest: Option<Place>,
}

/// Where an activation continues.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    /// Index in the list of tenants.
    tenant: usize,
    owner: Owner,
    address: u64,
}

/// An activation that was not finished in its slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unfinished {
    /// The group's tenant.
    pub(super) target: MemcgId,
    /// Number of the last scan when the activation began.
    pub(super) scan: u64,
    pub(super) place: Place,
}

impl Unfinished {
    /// Whether an activation for `target` continues this one. If it began too many scans ago, it
    /// was given up, and the pages that were active then may be no longer in use.
    pub(super) const fn is_of(&self, target: MemcgId, scans: u64) -> bool {
        self.target.index() == target.index() && scans - self.scan <= SCANS_MAX
    }
}

/// Returns the parts of `ranges`, from address `from` on, that lie in memory that may be read:
/// readable anonymous or shared memory. Both lists are in ascending order.
fn readable(
    ranges: impl Iterator<Item = Range<u64>>,
    mappings: &[Mapping],
    from: u64,
) -> Vec<Range<u64>> {
    let may_read = |one: &&Mapping| one.readable && matches!(one.kind, Kind::Anon | Kind::Shmem);
    let mappings: Vec<&Mapping> = mappings.iter().filter(may_read).collect();
    let mut parts = Vec::new();
    for range in ranges {
        let first = mappings.partition_point(|one| one.end <= range.start.max(from));
        let inside = mappings[first..].iter();
        let inside = inside.take_while(|one| one.start < range.end);
        let cut = |one: &&Mapping| one.start.max(range.start).max(from)..one.end.min(range.end);
        parts.extend(inside.map(cut).filter(|part| !part.is_empty()));
    }
    parts
}

/// Divides address ranges into lists for one read of page tables each: at most [`PART`] bytes.
fn in_parts(ranges: Vec<Range<u64>>) -> Vec<Vec<Range<u64>>> {
    let (mut parts, mut part, mut left) = (Vec::new(), Vec::new(), PART);
    for mut range in ranges {
        while range.start < range.end {
            let end = range.end.min(range.start + left);
            part.push(range.start..end);
            left -= end - range.start;
            range.start = end;
            if left == 0 {
                parts.push(std::mem::take(&mut part));
                left = PART;
            }
        }
    }
    parts.extend((!part.is_empty()).then_some(part));
    parts
}

/// What an activation needs of the driver.
pub(super) struct Activation<'a> {
    pub(super) tenant_map: &'a TenantMap,
    pub(super) members: &'a Members,
    pub(super) ages: &'a mut Ages,
    pub(super) proc: &'a Proc,
    pub(super) flags: &'a Flags,
}

impl Activation<'_> {
    /// Activates the pages in use of these tenants, so that the kernel finds older ones. `amount`:
    /// for how many pages it is asked, then how many of the tenants' pages have left memory since
    /// the last scan. Does nothing if few pages were last accessed before `idle_before` (time of
    /// the age table). Begins at `from`, where the last call ended, and ends early when `is_over`
    /// returns true.
    pub(super) fn run(
        &mut self,
        (tenants, from): (&[MemcgId], Option<Place>),
        amount: (Pages, Pages),
        idle_before: Millis,
        is_over: &dyn Fn() -> bool,
    ) -> Activated {
        let mut done = Activated::default();
        if self.ages.source().grain() != Grain::Page {
            return done;
        }
        let ages = self.by_last_access(tenants);
        let Some(since) = activated_since(&ages, amount, idle_before) else {
            return done;
        };
        for (number, memcg) in tenants.iter().enumerate() {
            let ids = self.tenant_map.ids(*memcg);
            for owner in ids.owners() {
                let begin = Place {
                    tenant: number,
                    owner,
                    address: 0,
                };
                let is_done = |from: Place| (from.tenant, from.owner) > (number, owner);
                if from.is_some_and(is_done) {
                    continue;
                }
                let is_here = |from: &Place| (from.tenant, from.owner) == (number, owner);
                let begin = from.filter(is_here).unwrap_or(begin);
                if let Some(address) = self.of_owner((*memcg, begin), since, &mut done, is_over) {
                    let place = Place { address, ..begin };
                    done.rest = Some(place);
                    return done;
                }
            }
        }
        done
    }

    /// Returns the tenants' anonymous and shared pages of known age, as of the last scan, by the
    /// time of their last access (milliseconds of the age table).
    fn by_last_access(&self, tenants: &[MemcgId]) -> BTreeMap<u64, u64> {
        let mut pages = BTreeMap::new();
        let owners = tenants
            .iter()
            .flat_map(|one| self.tenant_map.ids(*one).owners());
        for owner in owners {
            let all = self.ages.age_table().ages(owner);
            for (_, last, count) in all.filter(|one| MemoryKind::of(one.0).0 != MemoryKind::File) {
                *pages.entry(last).or_insert(0) += count;
            }
        }
        pages
    }

    /// Activates the pages of one owner that were accessed at `since` or later. Returns where to
    /// continue if `is_over` returned true before the end.
    fn of_owner(
        &mut self,
        (memcg, begin): (MemcgId, Place),
        since: u64,
        done: &mut Activated,
        is_over: &dyn Fn() -> bool,
    ) -> Option<u64> {
        let owner = begin.owner;
        let identity = self.members.identity(owner)?;
        let mappings = self.ages.mappings(identity.pid);
        let ranges = self.tenant_map.ids(memcg).ranges(owner);
        let parts = in_parts(readable(ranges, &mappings, begin.address));
        // The identity is checked after opening: if the PID still belongs to this process, the open
        // file does, too.
        let is_locked = self.ages.is_locked(identity.pid, Access::Read);
        let memory = access::open(identity.pid, "mem")
            .ok()
            .filter(|_| !is_locked)?;
        if self.proc.identity(identity.pid).ok().flatten() != Some(identity) {
            return None;
        }
        let is_multi_gen = has_multi_gen();
        let reads = if is_multi_gen { READS_MULTI_GEN } else { READS };
        for part in parts {
            // Without the multi-gen LRU the kernel shows which pages are active already.
            let mut pages = self.in_use((identity.pid, owner), &part, since);
            pages.retain(|(_, frame)| is_multi_gen || !self.flags.is_active(*frame));
            let addresses: Vec<u64> = pages.iter().map(|(address, _)| *address).collect();
            for step in addresses.chunks(STEP) {
                // If the process has ended or is locked, its pages are left as they are.
                let read = access::touch((identity.pid, &memory), step, reads).ok()?;
                done.pages += read.pages;
                done.swapped_in += read.swapped_in;
                if is_over() {
                    return step.last().map(|last| last + PAGE_SIZE);
                }
            }
            if is_over() {
                return part.last().map(|last| last.end);
            }
        }
        None
    }

    /// Returns the pages of an owner in `ranges` that are in memory, mapped on their own, and were
    /// accessed at `since` or later: address, then frame.
    fn in_use(
        &mut self,
        (pid, owner): (u32, Owner),
        ranges: &[Range<u64>],
        since: u64,
    ) -> Vec<(u64, u64)> {
        let (mask, mut found) = (self.ages.source().frame_mask(), Vec::new());
        // If the process is gone, it has no pages.
        let _ = self.ages.peek(pid, ranges, &mut |_, piece| {
            if let Piece::Pages { start, entries } = piece {
                let pages = (0_u64..).zip(entries);
                let present = pages
                    .filter(|(_, entry)| entry.kind() == EntryKind::Present && !entry.is_special());
                found.extend(
                    present.map(|(page, entry)| {
                        (start + page * PAGE_SIZE, entry.physical(mask) >> 12)
                    }),
                );
            }
        });
        let age_table = self.ages.age_table();
        // Each frame is read once, in the memory of its owner.
        found.retain(|(_, frame)| {
            let known = age_table.look_up(*frame);
            known.is_some_and(|(of, last)| of == owner && last.is_some_and(|last| last >= since))
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_anonymous_and_shared_memory_is_read() {
        let mapping = |start: u64, end: u64, kind: Kind| Mapping {
            start,
            end,
            readable: true,
            kind,
            ..Mapping::default()
        };
        let mappings = [
            mapping(10, 20, Kind::Anon),
            mapping(20, 30, Kind::File),
            mapping(30, 40, Kind::Shmem),
            mapping(40, 50, Kind::Device),
            Mapping {
                readable: false,
                ..mapping(50, 60, Kind::Anon)
            },
        ];
        let from = |from| readable([0..12, 15..35, 36..70].into_iter(), &mappings, from);
        assert_eq!(from(0), [10..12, 15..20, 30..35, 36..40]);
        assert_eq!(from(17), [17..20, 30..35, 36..40]);
        assert_eq!(from(32), [32..35, 36..40]);
    }

    #[test]
    fn page_tables_are_read_in_parts() {
        assert_eq!(in_parts(Vec::new()), Vec::<Vec<Range<u64>>>::new());
        let (one, two) = (0..PAGE_SIZE, PART..3 * PART - PAGE_SIZE);
        let parts = in_parts(vec![one.clone(), two]);
        let first = vec![one, PART..2 * PART - PAGE_SIZE];
        let second = 2 * PART - PAGE_SIZE..3 * PART - PAGE_SIZE;
        assert_eq!(parts, [first, Vec::from([second])]);
        let many: Vec<Range<u64>> = (0..5000).map(|at| at * 8192..at * 8192 + 4096).collect();
        let parts = in_parts(many);
        assert_eq!(
            parts.iter().map(Vec::len).collect::<Vec<_>>(),
            [2048, 2048, 904]
        );
    }
}
