//! Whether what is out fits in memory.
//!
//! Invariant: it is asked before anything is switched off, for the kernel begins without asking. Two ends
//! must be avoided: a machine without memory, and a control group above its limit. (The story: a program of
//! 100 MiB below a limit of 40 MiB was ended by the OOM killer in the middle of a swapoff, on a machine
//! with 23 GiB free.) Sizes are bytes.

use super::Swap;
use super::error::SwapError;
use super::record::Record;
use super::zram::Zram;
use crate::system::cgroup::{Groups, Version};
use crate::system::swap::{SwapArea, SwapKind};
use crate::system::text::number;
use crate::system::{Group, Proc};

/// Of all memory: so much stays free for what comes meanwhile.
const SPARE: u64 = 64;

impl Swap {
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
        // What zram holds is freed page by page as it comes back.
        let zram = Zram::named(&self.places, &record.path);
        let zram = zram.filter(|_| record.kind == SwapKind::Zram);
        let held = zram
            .and_then(|zram| zram.mm_stat())
            .map_or(0, |stat| stat.memory);
        let needed = area.used.saturating_sub(held);
        let available = memory.available.saturating_sub(memory.total / SPARE);
        if needed > available {
            let (needed, available) = (needed >> 20, available >> 20);
            let why =
                format!("{needed} MiB would come back, and memory has {available} MiB to spare");
            return Err(refuse(why, "end or shrink a program, then try again"));
        }
        // What does not fit a group goes on to other swap, if there is some.
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
                    "control group {} would be {} MiB above its limit, and the kernel would end programs in it",
                    tight.group.path.display(),
                    tight.excess.div_ceil(1 << 20)
                ),
                "raise its limit, or end its programs, then try again",
            )),
            _ => Ok(()),
        }
    }
}

/// A group whose limit does not hold all that is its own.
struct Tight {
    group: Group,
    /// Bytes above the limit, if all in swap came back.
    excess: u64,
}

/// The one with the largest excess; none where nothing limits anybody, or nobody counts.
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

/// Those right below.
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

/// By how much all that counts to a group, in memory and in swap, is above its limit. Cache of files makes
/// room; `None` of a group without a limit, or without anything in swap.
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
