//! Whether swapped-out pages fit in memory.
//!
//! Invariant: this is checked before an area is switched off, because the kernel does not check.
//! Two results must be avoided: a machine without free memory, and a control group above its limit.
//! (In a group with a limit of 40 MiB the OOM killer ended a program of 100 MiB in the middle of a
//! swapoff, though the machine had 23 GiB free.) Sizes are bytes.

use super::Swap;
use super::error::SwapError;
use super::record::Record;
use super::zram::Zram;
use crate::system::cgroup::{Groups, Version};
use crate::system::swap::{SwapArea, SwapKind};
use crate::system::text::number;
use crate::system::{Group, Proc};

/// Divisor: 1/64 of memory stays free for other programs while pages are swapped in.
const SPARE: u64 = 64;

impl Swap {
    /// Checks that memory and limits have room for all pages that are in `area`.
    ///
    /// # Errors
    /// [`SwapError::NoRoom`] if memory is too small, or a control group would exceed its limit.
    pub(super) fn room_for(&self, record: &Record, area: &SwapArea) -> Result<(), SwapError> {
        if area.used == 0 {
            return Ok(());
        }
        let proc = self.places.proc()?;
        let memory = proc.memory()?;
        let refuse = |why: String, hint: &str| SwapError::NoRoom {
            path: record.path.clone(),
            why,
            hint: hint.to_owned(),
        };
        // zram frees its memory page by page as pages are swapped in.
        let zram = Zram::named(&self.places, &record.path);
        let zram = zram.filter(|_| record.kind == SwapKind::Zram);
        let held = zram
            .and_then(|zram| zram.mm_stat())
            .map_or(0, |stat| stat.memory);
        let needed = area.used.saturating_sub(held);
        let available = memory.available.saturating_sub(memory.total / SPARE);
        if needed > available {
            let (needed, available) = (needed >> 20, available >> 20);
            let why = format!(
                "{needed} MiB would be swapped in, but only {available} MiB of memory are available"
            );
            return Err(refuse(why, "end or shrink a program, then try again"));
        }
        // Pages that do not fit a group's limit go to other swap, if there is some.
        let others = proc
            .swaps()?
            .into_iter()
            .filter(|other| other.path != area.path);
        let elsewhere: u64 = others
            .map(|other| other.size.saturating_sub(other.used))
            .sum();
        match tightest(&proc) {
            Some(tight) if tight.excess > elsewhere => Err(refuse(
                format!(
                    "control group {} would be {} MiB above its limit, and the kernel would kill programs in it",
                    tight.group.path.display(),
                    tight.excess.div_ceil(1 << 20)
                ),
                "raise its limit, or end its programs, then try again",
            )),
            _ => Ok(()),
        }
    }
}

/// A group whose memory and swap together exceed its limit.
struct Tight {
    group: Group,
    /// Bytes above the limit if all swapped-out pages of the group were in memory.
    excess: u64,
}

/// Returns the group with the largest excess; `None` if no group would exceed its limit, or if no
/// memory controller is mounted.
fn tightest(proc: &Proc) -> Option<Tight> {
    let groups = Groups::find(proc).ok()?;
    let mut found: Option<Tight> = None;
    let mut left = vec![groups.root()];
    while let Some(group) = left.pop() {
        left.extend(below(&group));
        let excess = excess(&groups, &group).unwrap_or(0);
        if excess > found.as_ref().map_or(0, |found| found.excess) {
            found = Some(Tight { group, excess });
        }
    }
    found
}

/// The children of a group.
fn below(group: &Group) -> Vec<Group> {
    let entries = std::fs::read_dir(&group.dir)
        .into_iter()
        .flatten()
        .flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let groups = folders.map(|entry| Group {
        path: group.path.join(entry.file_name()),
        dir: entry.path(),
    });
    groups.collect()
}

/// Returns `memory - file cache + swap - limit` of a group in bytes, at least 0; the file cache can
/// be dropped. `None` for a group without a limit or without swapped-out pages.
fn excess(groups: &Groups, group: &Group) -> Option<u64> {
    let name = match groups.version {
        Version::V1 => "memory.limit_in_bytes",
        Version::V2 => "memory.max",
    };
    let limit = std::fs::read(group.dir.join(name)).ok()?;
    let limit = number(limit.trim_ascii())?;
    let usage = groups.usage(group).ok()??;
    let swap = usage.swap.filter(|swap| *swap > 0)?;
    let cache = usage
        .cache
        .map_or(0, |cache| cache.total.saturating_sub(cache.shmem));
    let stays = usage.current?.saturating_sub(cache);
    Some(stays.saturating_add(swap).saturating_sub(limit))
}
