//! The limits of a wall, those above it, and what it holds.
//!
//! Invariant: bytes; `None` is no limit. What is written is never above the wall's ceiling. Version 1 limits
//! memory and swap together (`memsw`), never below memory alone: both are moved in the order that the kernel
//! takes.

use std::io;
use std::path::Path;
use std::sync::PoisonError;

use rustix::io::Errno;

use super::fresh::Fresh;
use super::{Wall, files};
use crate::system::cgroup::{
    Cache, Version, parse_cache, parse_dirty, parse_idle_cache, parse_sum, parse_written,
};
use crate::system::proc::read_path;
use crate::system::text::{flat, number};

const PAGE: u64 = 4096;
/// From here on version 1 means no limit: the largest multiple of a page in an `i64`.
const UNLIMITED: u64 = 0x7fff_ffff_ffff_f000;

pub(super) const V1_MAX: &str = "memory.limit_in_bytes";
const V1_BOTH: &str = "memory.memsw.limit_in_bytes";
pub(super) const V1_SWAPPINESS: &str = "memory.swappiness";
const V2_MAX: &str = "memory.max";
const V2_HIGH: &str = "memory.high";
const V2_MIN: &str = "memory.min";
const V2_LOW: &str = "memory.low";
const V2_SWAP: &str = "memory.swap.max";

/// Limits of one group, or the least of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Limits {
    pub(super) max: Option<u64>,
    pub(super) high: Option<u64>,
    pub(super) swap_max: Option<u64>,
}

impl Limits {
    /// Those of a version 2 group; the root has none.
    pub(super) fn of_v2(dir: &Path) -> Limits {
        let limit = |name: &str| limit(&read_path(&dir.join(name)).ok()??);
        Limits {
            max: limit(V2_MAX),
            high: limit(V2_HIGH),
            swap_max: limit(V2_SWAP),
        }
    }

    pub(super) fn least(self, other: Limits) -> Limits {
        Limits {
            max: least(self.max, other.max),
            high: least(self.high, other.high),
            swap_max: least(self.swap_max, other.swap_max),
        }
    }
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    [one, other].into_iter().flatten().min()
}

/// A limit's file: `max`, or a number.
fn limit(text: &[u8]) -> Option<u64> {
    number(text.trim_ascii()).filter(|bytes| *bytes < UNLIMITED)
}

/// As version 2 takes it.
fn word(bytes: Option<u64>) -> String {
    bytes.map_or("max".to_owned(), |bytes| bytes.to_string())
}

/// As version 1 takes it.
fn word_v1(bytes: Option<u64>) -> String {
    bytes.map_or("-1".to_owned(), |bytes| bytes.to_string())
}

impl Wall {
    /// The hard limit. Lowering it reclaims first: on version 1 the kernel may answer
    /// [`io::ErrorKind::ResourceBusy`] and leave the old one; on version 2 it is set at once, and the
    /// kernel kills when it cannot get below. Version 1's limit of memory and swap together goes along,
    /// unless more than that is in use.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_max(&self, bytes: Option<u64>) -> io::Result<()> {
        let bytes = least(bytes, self.0.ceiling.max);
        // Not before the limit stands: what is below the memory in use would be reclaimed for without end.
        self.keep_fresh(false);
        let put = self.put_max(bytes);
        self.keep_fresh(bytes.is_some());
        put
    }

    /// No more than so many bytes beyond what is charged now, unless less is allowed already: nothing is reclaimed for that, and nobody
    /// killed. What the kernel refuses is as it was.
    pub fn bound(&self, room: u64) {
        let Ok(charged) = self.charged() else {
            return;
        };
        let bytes = charged.saturating_add(room) & !(PAGE - 1);
        // Not moved for each page that left.
        let is_loose =
            |max: Option<u64>| max.is_none_or(|max| max > bytes.saturating_add(room / 4));
        if self.max().is_ok_and(is_loose) {
            self.keep_fresh(false);
            let _ = self.put_max(least(Some(bytes), self.0.ceiling.max));
            self.keep_fresh(true);
        }
    }

    fn put_max(&self, bytes: Option<u64>) -> io::Result<()> {
        if self.version() == Version::V2 {
            return self.write(V2_MAX, &word(bytes));
        }
        let before = self.max()?;
        self.put_max_v1(before, bytes)
    }

    /// Version 1's, where the one before was this.
    pub(super) fn put_max_v1(&self, before: Option<u64>, bytes: Option<u64>) -> io::Result<()> {
        let _turn = self.turn();
        let Some(both) = self.both()? else {
            return self.write(V1_MAX, &word_v1(bytes));
        };
        // What may be in swap stays what it was.
        let swap = both.map(|both| both.saturating_sub(before.unwrap_or(0)));
        let both_then = bytes.and_then(|bytes| swap.map(|swap| bytes.saturating_add(swap)));
        let grows = both.is_some_and(|both| bytes.is_none_or(|bytes| bytes > both));
        if grows {
            self.write(V1_BOTH, &word_v1(both_then))?;
        }
        self.write(V1_MAX, &word_v1(bytes))?;
        if grows || both_then == both || both_then.is_some_and(|both| self.is_using_more(both)) {
            return Ok(());
        }
        let put = self.write(V1_BOTH, &word_v1(both_then));
        if put.is_err() {
            // What may be in swap is what both are apart by: with one of them lowered it would be more.
            let _ = self.set_max_v1(before);
        }
        put
    }

    /// Whether more than this is in use of version 1's memory and swap together. To lower their limit below that the kernel swaps nothing, drops
    /// all page cache of the group, and refuses then.
    fn is_using_more(&self, both: u64) -> bool {
        let used = self.number("memory.memsw.usage_in_bytes");
        used.is_ok_and(|used| used > both)
    }

    /// What version 1 has its two limits apart by: how much may be in swap, where both are limited.
    pub(super) fn swap_apart(&self) -> Option<u64> {
        if self.version() == Version::V2 {
            return None;
        }
        let (both, max) = (self.both().ok()??, self.max().ok()?);
        Some(both?.saturating_sub(max?))
    }

    /// Where the kernel begins to slow the group down and to reclaim (version 2).
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] on version 1, which has no such limit; if the kernel refuses.
    pub fn set_high(&self, bytes: Option<u64>) -> io::Result<()> {
        match self.version() {
            Version::V2 => self.write(V2_HIGH, &word(least(bytes, self.0.ceiling.high))),
            Version::V1 if bytes.is_none() => Ok(()),
            Version::V1 => Err(unsupported("version 1 has no memory.high")),
        }
    }

    /// Whether that is where it begins.
    pub(super) fn has_high(&self, bytes: u64) -> bool {
        let bytes = least(Some(bytes), self.0.ceiling.high);
        self.high().is_ok_and(|high| high == bytes)
    }

    /// Not above this, and no higher than it is already.
    pub(super) fn bound_high(&self, bytes: u64) -> io::Result<()> {
        let bytes = bytes & !(PAGE - 1);
        match self.high()?.is_none_or(|high| high > bytes) {
            true => self.set_high(Some(bytes)),
            false => Ok(()),
        }
    }

    fn high(&self) -> io::Result<Option<u64>> {
        Ok(limit(&self.read(V2_HIGH)?))
    }

    /// What the kernel's own reclaim leaves of it: min and low in bytes, none for all. Version 1 knows neither: there nothing is done.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_protection(&self, [min, low]: [Option<u64>; 2]) -> io::Result<()> {
        if self.version() == Version::V1 {
            return Ok(());
        }
        let put = self.write(V2_MIN, &word(min));
        put.and(self.write(V2_LOW, &word(low)))
    }

    /// How much of it may be in swap. On version 1 it is memory and swap together that are limited, to the
    /// hard limit and this.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where swap is not counted (`swapaccount=0`), and on version 1 without a
    /// hard limit; [`io::ErrorKind::ResourceBusy`] on version 1 where more is in use than that; if the kernel refuses.
    pub fn set_swap_max(&self, bytes: Option<u64>) -> io::Result<()> {
        if self.version() == Version::V2 {
            let bytes = least(bytes, self.0.ceiling.swap_max);
            return match self.put(V2_SWAP, &word(bytes)) {
                Err(Errno::NOENT) if self.is_there() => {
                    Err(unsupported("the kernel does not count swap"))
                }
                done => done.map_err(|errno| self.io_error(V2_SWAP, errno)),
            };
        }
        let _turn = self.turn();
        match (self.both()?, self.max()?, bytes) {
            (None, _, None) => Ok(()),
            (None, _, Some(_)) => Err(unsupported("the kernel does not count swap")),
            (Some(_), _, None) => self.write(V1_BOTH, "-1"),
            (Some(_), None, Some(_)) => Err(unsupported(
                "version 1 limits swap only together with memory: set a hard limit first",
            )),
            (Some(_), Some(max), Some(swap)) => {
                let both = max.saturating_add(swap);
                match self.is_using_more(both) {
                    true => Err(self.io_error(V1_BOTH, Errno::BUSY)),
                    false => self.write(V1_BOTH, &both.to_string()),
                }
            }
        }
    }

    /// All limits off, but those of groups beside it that hold for it all the same. All are tried.
    ///
    /// # Errors
    /// The first refusal, if there is one.
    pub fn lift(&self) -> io::Result<()> {
        let _turn = self.turn();
        let lifted = lift(&*self.opened()?, self.version(), self.0.ceiling);
        self.keep_fresh(self.0.ceiling.max.is_some());
        lifted.map_err(|(file, errno)| self.io_error(file, errno))
    }

    /// Whether the kernel's counters of it are to be kept fresh: where it reclaims by itself.
    pub(super) fn keep_fresh(&self, keep: bool) {
        let fresh = &mut *self.0.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        match keep {
            true if fresh.is_none() => {
                let max = self.max().ok().flatten();
                let dir = self.dir().ok();
                *fresh = dir.and_then(|dir| Fresh::watch(&dir, self.version(), max));
            }
            true => {}
            false => *fresh = None,
        }
    }

    /// Does what is not to be done with fresh counters, and leaves the hard limit as it is; afterwards they are kept as before.
    pub(super) fn unwatched<T>(&self, work: impl FnOnce() -> T) -> T {
        let place = || self.0.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = place().take();
        fresh.iter_mut().for_each(Fresh::pause);
        let done = work();
        let mut fresh = fresh.filter(|_| place().is_none());
        let max = self.max().ok().flatten();
        match fresh.as_mut().is_some_and(|fresh| fresh.go_on(max)) {
            true => *place() = fresh,
            false => self.keep_fresh(max.is_some()),
        }
        done
    }

    /// Its hard limit.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn max(&self) -> io::Result<Option<u64>> {
        let file = match self.version() {
            Version::V1 => V1_MAX,
            Version::V2 => V2_MAX,
        };
        Ok(limit(&self.read(file)?))
    }

    /// Version 1's limit of memory and swap together; `None` where swap is not counted.
    pub(super) fn both(&self) -> io::Result<Option<Option<u64>>> {
        match self.file(V1_BOTH) {
            Ok(text) => Ok(Some(limit(&text))),
            Err(Errno::NOENT | Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(self.io_error(V1_BOTH, errno)),
        }
    }

    /// All that counts to it now, page cache and kernel memory too: the counter that the limit is held
    /// against, with up to 64 pages a processor that are reserved and not yet used. The first group of version 2 has no such
    /// counter: there it is the sum of what is counted by kind.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn charged(&self) -> io::Result<u64> {
        const V2_USAGE: &str = "memory.current";
        if self.version() == Version::V1 {
            return self.number("memory.usage_in_bytes");
        }
        match self.file(V2_USAGE) {
            Err(Errno::NOENT) => {
                let sum = parse_sum(&self.read("memory.stat")?);
                sum.ok_or_else(|| self.io_error("memory.stat", Errno::INVAL))
            }
            _ => self.number(V2_USAGE),
        }
    }

    /// The most it ever was.
    ///
    /// # Errors
    /// If it cannot be read (version 2 has it since Linux 5.19).
    pub fn peak(&self) -> io::Result<u64> {
        self.number(match self.version() {
            Version::V1 => "memory.max_usage_in_bytes",
            Version::V2 => "memory.peak",
        })
    }

    /// Faults that had to read, of all tasks of it and of groups below it since it was made.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn majors(&self) -> io::Result<u64> {
        let name = match self.version() {
            Version::V1 => "total_pgmajfault",
            Version::V2 => "pgmajfault",
        };
        let found = flat(&self.read("memory.stat")?, name);
        found.ok_or_else(|| self.io_error("memory.stat", Errno::INVAL))
    }

    /// Page cache that no process maps, of files: at least so many bytes ([`Cache::unmapped_file_least`]).
    /// The kernel sums these counters every two seconds or so.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn cache_unmapped(&self) -> io::Result<u64> {
        self.cache_in(&self.read("memory.stat")?)
    }

    /// The same without what is to be written first: asked for such pages the kernel takes others, anonymous ones at last. (The story: of a
    /// database whose files had just been made 16 MiB of page cache were to be dropped, and 8 MiB of its shared memory were swapped out.)
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn cache_clean(&self) -> io::Result<u64> {
        let text = self.read("memory.stat")?;
        let dirty = parse_dirty(&text, self.version());
        Ok(self.cache_in(&text)?.saturating_sub(dirty))
    }

    /// The same, of what the kernel holds for inactive: nobody has read it twice of late.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn cache_idle(&self) -> io::Result<u64> {
        let idle = parse_idle_cache(&self.read("memory.stat")?, self.version());
        idle.ok_or_else(|| self.io_error("memory.stat", Errno::INVAL))
    }

    /// The same of a text of memory.stat.
    fn cache_in(&self, text: &[u8]) -> io::Result<u64> {
        let cache = parse_cache(text, self.version())
            .as_ref()
            .map(Cache::unmapped_file_least);
        cache.ok_or_else(|| self.io_error("memory.stat", Errno::INVAL))
    }

    /// What of its charge the kernel frees by itself as soon as somebody needs memory, bytes: [`Wall::cache_unmapped`], and with swap slower than
    /// memory what was written there ([`parse_written`]).
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn free_at_will(&self, has_slow_swap: bool) -> io::Result<u64> {
        let text = self.read("memory.stat")?;
        let written = match has_slow_swap {
            true => self.written_in(&text),
            false => 0,
        };
        Ok(self.cache_in(&text)? + written)
    }

    /// The second part of it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn written(&self) -> io::Result<u64> {
        Ok(self.written_in(&self.read("memory.stat")?))
    }

    fn written_in(&self, text: &[u8]) -> u64 {
        parse_written(text, self.version()).unwrap_or(0)
    }

    /// Processes of it that the kernel killed for want of memory; on version 1 not those of groups below.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn oom_kills(&self) -> io::Result<u64> {
        let file = match self.version() {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        let count = flat(&self.read(file)?, "oom_kill");
        count.ok_or_else(|| self.io_error(file, Errno::INVAL))
    }

    /// How often a charge met its own hard limit, and the kernel reclaimed for it.
    ///
    /// # Errors
    /// If it cannot be read (version 2 has it since Linux 5.3).
    pub fn times_met(&self) -> io::Result<u64> {
        const V2_EVENTS: &str = "memory.events.local";
        match self.version() {
            Version::V1 => self.number("memory.failcnt"),
            Version::V2 => {
                let count = flat(&self.read(V2_EVENTS)?, "max");
                count.ok_or_else(|| self.io_error(V2_EVENTS, Errno::INVAL))
            }
        }
    }

    /// How often its own hard limit kept a charge from being made, whoever was charged below it; on version 1 how often a charge met it.
    ///
    /// # Errors
    /// If it cannot be read (version 2 has it since Linux 5.3).
    pub fn limit_hits(&self) -> io::Result<u64> {
        const V2_EVENTS: &str = "memory.events.local";
        match self.version() {
            // What meets the limit of memory and swap together is counted there alone.
            Version::V1 => {
                let both = self.number("memory.memsw.failcnt").unwrap_or(0);
                Ok(self.number("memory.failcnt")?.saturating_add(both))
            }
            Version::V2 => {
                let count = flat(&self.read(V2_EVENTS)?, "oom");
                count.ok_or_else(|| self.io_error(V2_EVENTS, Errno::INVAL))
            }
        }
    }

    fn number(&self, file: &str) -> io::Result<u64> {
        let text = self.read(file)?;
        number(text.trim_ascii()).ok_or_else(|| self.io_error(file, Errno::INVAL))
    }

    /// One thread at a time changes limits.
    pub(super) fn turn(&self) -> std::sync::MutexGuard<'_, ()> {
        self.0.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Version 1's hard limit, for a moment.
    pub(super) fn set_max_v1(&self, bytes: Option<u64>) -> Result<(), Errno> {
        self.put(V1_MAX, &word_v1(bytes))
    }
}

/// All limits of an open group up to the ceiling, and on version 1 the swappiness that it was made with, that of
/// the group above; the first refusal, with its file.
pub(super) fn lift(
    dir: &std::os::fd::OwnedFd,
    version: Version,
    ceiling: Limits,
) -> Result<(), (&'static str, Errno)> {
    let values = match version {
        Version::V1 => {
            // Both together first: memory alone may not be above it.
            let mut values = vec![(V1_BOTH, "-1".to_owned()), (V1_MAX, word_v1(ceiling.max))];
            let above = files::read(dir, &format!("../{V1_SWAPPINESS}")).unwrap_or_default();
            let swappiness = number(above.trim_ascii());
            values.extend(swappiness.map(|one| (V1_SWAPPINESS, one.to_string())));
            values
        }
        Version::V2 => vec![
            (V2_MAX, word(ceiling.max)),
            (V2_HIGH, word(ceiling.high)),
            (V2_SWAP, word(ceiling.swap_max)),
        ],
    };
    let mut first = Ok(());
    for (file, value) in values {
        // Swap is not counted everywhere; the other files are there.
        let optional = matches!(file, V1_BOTH | V2_SWAP);
        match files::write(dir, file, &value) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::OPNOTSUPP) if optional => {}
            Err(errno) => first = first.and(Err((file, errno))),
        }
    }
    first
}

fn unsupported(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}
