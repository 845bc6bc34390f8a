//! The limits of a cgroup, the limits of the cgroups above it, and its counters.
//!
//! Invariant: no limit that is written exceeds the cgroup's ceiling. Version 1 has a limit of
//! memory, and one of memory and swap together (`memsw`), which is never below the limit of memory.
//! The two files are written in the order that the kernel accepts.

use std::io;
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use engine::units::{Bytes, Limit, PAGE_SIZE};
use rustix::io::Errno;

use super::fresh::FreshCounters;
use super::{HardLimit, files};
use crate::system::cgroup::{
    Cache, Version, parse_cache, parse_dirty, parse_idle_cache, parse_limit_reclaims, parse_sum,
    parse_written,
};
use crate::system::proc::read_path;
use crate::system::text::{flat, number};

/// Version 1 reports at least this for "no limit": the largest multiple of the page size in an
/// `i64`.
const UNLIMITED: u64 = 0x7fff_ffff_ffff_f000;

pub(super) const V1_MAX: &str = "memory.limit_in_bytes";
const V1_BOTH: &str = "memory.memsw.limit_in_bytes";
pub(super) const V1_SWAPPINESS: &str = "memory.swappiness";
const V2_MAX: &str = "memory.max";
const V2_HIGH: &str = "memory.high";
const V2_MIN: &str = "memory.min";
const V2_LOW: &str = "memory.low";
const V2_SWAP: &str = "memory.swap.max";
const V2_EVENTS: &str = "memory.events.local";

/// Limits of one cgroup, or the lowest limits of several cgroups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Limits {
    pub(super) max: Limit,
    pub(super) high: Limit,
    pub(super) swap_max: Limit,
}

impl Limits {
    /// Returns the limits of a version 2 cgroup. The root cgroup has none.
    pub(super) fn of_v2(dir: &Path) -> Limits {
        let text = |name: &str| read_path(&dir.join(name)).ok().flatten();
        let limit = |name: &str| text(name).map_or(Limit::Max, |text| limit(&text));
        Limits {
            max: limit(V2_MAX),
            high: limit(V2_HIGH),
            swap_max: limit(V2_SWAP),
        }
    }

    /// Returns the lower of both values for each limit.
    pub(super) fn least(self, other: Limits) -> Limits {
        Limits {
            max: self.max.min(other.max),
            high: self.high.min(other.high),
            swap_max: self.swap_max.min(other.swap_max),
        }
    }
}

/// Parses the text of a limit file, `max` or a number of bytes.
fn limit(text: &[u8]) -> Limit {
    let bytes = number(text.trim_ascii()).filter(|bytes| *bytes < UNLIMITED);
    Limit::from(bytes.map(Bytes))
}

/// Returns the text to write to a limit file of version 1.
pub(super) fn limit_text_v1(limit: Limit) -> String {
    match limit {
        Limit::Bytes(bytes) => bytes.0.to_string(),
        Limit::Max => "-1".to_owned(),
    }
}

impl HardLimit {
    /// Sets the hard limit. If the limit is below the charge, the kernel reclaims first. On version
    /// 1 the call may then return [`io::ErrorKind::ResourceBusy`] and keep the old limit. On
    /// version 2 the limit holds at once, and the kernel kills if it cannot reclaim enough. Version
    /// 1's limit of memory and swap together changes by the same amount, unless more than that is
    /// in use.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_max(&self, limit: Limit) -> io::Result<()> {
        let limit = limit.min(self.0.ceiling.max);
        // The counters are kept fresh only after the limit is set. If they were fresh while the
        // kernel reclaims towards a limit below the memory in use, that reclaim would never end.
        self.keep_fresh(false);
        let put = self.put_max(limit);
        self.keep_fresh(limit != Limit::Max);
        put
    }

    /// Lowers the hard limit to `room` bytes above the current charge; does nothing if it is
    /// already lower. This reclaims nothing and kills no process. If the kernel refuses, the old
    /// limit stays.
    pub fn bound(&self, room: u64) {
        let Ok(charged) = self.charged() else {
            return;
        };
        let bytes = charged.saturating_add(room) & !(PAGE_SIZE - 1);
        // A small difference is ignored, so that the limit is not written again for each page that
        // was swapped out.
        let loose = Limit::Bytes(Bytes(bytes.saturating_add(room / 4)));
        if self.max().is_ok_and(|max| max > loose) {
            self.keep_fresh(false);
            let _ = self.put_max(Limit::Bytes(Bytes(bytes)).min(self.0.ceiling.max));
            self.keep_fresh(true);
        }
    }

    /// Writes the hard limit to the files of the cgroup's version.
    fn put_max(&self, limit: Limit) -> io::Result<()> {
        if self.version() == Version::V2 {
            return self.write(V2_MAX, &limit.file_text());
        }
        let before = self.max()?;
        self.put_max_v1(before, limit)
    }

    /// Sets version 1's hard limit; `before` is its present value.
    pub(super) fn put_max_v1(&self, before: Limit, limit: Limit) -> io::Result<()> {
        let _turn = self.turn();
        let Some(both) = self.both()? else {
            return self.write(V1_MAX, &limit_text_v1(limit));
        };
        // The amount of allowed swap (`memsw` limit minus memory limit) stays the same.
        let both_then = match (both, limit) {
            (Limit::Bytes(both), Limit::Bytes(limit)) => {
                let swap = both.0.saturating_sub(before.bytes().unwrap_or_default().0);
                Limit::Bytes(Bytes(limit.0.saturating_add(swap)))
            }
            _ => Limit::Max,
        };
        let grows = limit > both;
        if grows {
            self.write(V1_BOTH, &limit_text_v1(both_then))?;
        }
        self.write(V1_MAX, &limit_text_v1(limit))?;
        if grows || both_then == both || self.is_using_more(both_then) {
            return Ok(());
        }
        let put = self.write(V1_BOTH, &limit_text_v1(both_then));
        if put.is_err() {
            // Allowed swap is the difference of the two limits: with only the memory limit lowered,
            // it would grow.
            let _ = self.set_max_v1(before);
        }
        put
    }

    /// Returns whether memory and swap together use more than `both` (version 1). If their common
    /// limit were set lower than their use, the kernel would swap out nothing, drop all page cache
    /// of the cgroup, and then refuse the limit.
    fn is_using_more(&self, both: Limit) -> bool {
        let used = self.number("memory.memsw.usage_in_bytes");
        used.is_ok_and(|used| Limit::Bytes(Bytes(used)) > both)
    }

    /// Returns the allowed swap on version 1: the difference of its two limits. `None` unless both
    /// limits are set.
    pub(super) fn swap_apart(&self) -> Option<Limit> {
        if self.version() == Version::V2 {
            return None;
        }
        let (both, max) = (self.both().ok()??.bytes()?, self.max().ok()?.bytes()?);
        Some(Limit::Bytes(Bytes(both.0.saturating_sub(max.0))))
    }

    /// Sets memory.high (version 2). Above it the kernel slows the cgroup down and reclaims.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] on version 1, which has no such limit; if the kernel refuses.
    pub fn set_high(&self, limit: Limit) -> io::Result<()> {
        match self.version() {
            Version::V2 => self.write(V2_HIGH, &limit.min(self.0.ceiling.high).file_text()),
            Version::V1 if limit == Limit::Max => Ok(()),
            Version::V1 => Err(unsupported("version 1 has no memory.high")),
        }
    }

    /// Returns whether memory.high is set to `limit`, or to the ceiling if that is lower.
    pub(super) fn has_high(&self, limit: Limit) -> bool {
        let limit = limit.min(self.0.ceiling.high);
        self.high().is_ok_and(|high| high == limit)
    }

    /// Lowers memory.high to `bytes`; never raises it.
    pub(super) fn bound_high(&self, bytes: u64) -> io::Result<()> {
        let limit = Limit::Bytes(Bytes(bytes & !(PAGE_SIZE - 1)));
        match self.high()? > limit {
            true => self.set_high(limit),
            false => Ok(()),
        }
    }

    /// Returns memory.high.
    fn high(&self) -> io::Result<Limit> {
        Ok(limit(&self.read(V2_HIGH)?))
    }

    /// Sets memory.min and memory.low; [`Limit::Max`] protects all memory. Does nothing on version
    /// 1, which has neither.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_protection(&self, [min, low]: [Limit; 2]) -> io::Result<()> {
        if self.version() == Version::V1 {
            return Ok(());
        }
        let put = self.write(V2_MIN, &min.file_text());
        put.and(self.write(V2_LOW, &low.file_text()))
    }

    /// Sets the maximum amount of the cgroup's memory in swap. Version 1 limits memory and swap
    /// together: there the common limit becomes the hard limit plus `limit`.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where swap is not counted (`swapaccount=0`), and on version 1
    /// without a hard limit; [`io::ErrorKind::ResourceBusy`] on version 1 if memory and swap
    /// together use more than the common limit would be; if the kernel refuses.
    pub fn set_swap_max(&self, limit: Limit) -> io::Result<()> {
        if self.version() == Version::V2 {
            let limit = limit.min(self.0.ceiling.swap_max);
            return match self.put(V2_SWAP, &limit.file_text()) {
                Err(Errno::NOENT) if self.is_there() => {
                    Err(unsupported("the kernel does not count swap"))
                }
                done => done.map_err(|errno| self.io_error(V2_SWAP, errno)),
            };
        }
        let _turn = self.turn();
        match (self.both()?, self.max()?, limit) {
            (None, _, Limit::Max) => Ok(()),
            (None, _, Limit::Bytes(_)) => Err(unsupported("the kernel does not count swap")),
            (Some(_), _, Limit::Max) => self.write(V1_BOTH, &limit_text_v1(Limit::Max)),
            (Some(_), Limit::Max, Limit::Bytes(_)) => Err(unsupported(
                "version 1 limits swap only together with memory: set a hard limit first",
            )),
            (Some(_), Limit::Bytes(max), Limit::Bytes(swap)) => {
                let both = Limit::Bytes(Bytes(max.0.saturating_add(swap.0)));
                match self.is_using_more(both) {
                    true => Err(self.io_error(V1_BOTH, Errno::BUSY)),
                    false => self.write(V1_BOTH, &limit_text_v1(both)),
                }
            }
        }
    }

    /// Raises all limits to the ceiling: limits of cgroups beside this one may have to hold for it
    /// still. Writes all files, even if one write fails.
    ///
    /// # Errors
    /// The first refusal of the kernel, if there is one.
    pub fn lift(&self) -> io::Result<()> {
        let _turn = self.turn();
        let lifted = lift(&*self.opened()?, self.version(), self.0.ceiling);
        self.keep_fresh(self.0.ceiling.max != Limit::Max);
        lifted.map_err(|(file, errno)| self.io_error(file, errno))
    }

    /// Starts (`keep`) or stops keeping the kernel's counters of the cgroup fresh. Fresh counters
    /// are needed while the kernel reclaims by its own choice.
    pub(super) fn keep_fresh(&self, keep: bool) {
        let fresh = &mut *self.0.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        match keep {
            true if fresh.is_none() => {
                let max = self.max().unwrap_or_default();
                let dir = self.dir().ok();
                *fresh = dir.and_then(|dir| FreshCounters::watch(&dir, self.version(), max));
            }
            true => {}
            false => *fresh = None,
        }
    }

    /// Runs `work` without keeping the counters fresh; afterwards keeps them fresh as before.
    /// `work` must not change the hard limit.
    pub(super) fn unwatched<T>(&self, work: impl FnOnce() -> T) -> T {
        let lock_fresh = || self.0.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = lock_fresh().take();
        fresh.iter_mut().for_each(FreshCounters::pause);
        let done = work();
        let mut fresh = fresh.filter(|_| lock_fresh().is_none());
        let max = self.max().unwrap_or_default();
        match fresh.as_mut().is_some_and(|fresh| fresh.resume(max)) {
            true => *lock_fresh() = fresh,
            false => self.keep_fresh(max != Limit::Max),
        }
        done
    }

    /// Returns the hard limit.
    ///
    /// # Errors
    /// The limit cannot be read.
    pub fn max(&self) -> io::Result<Limit> {
        let file = match self.version() {
            Version::V1 => V1_MAX,
            Version::V2 => V2_MAX,
        };
        Ok(limit(&self.read(file)?))
    }

    /// Returns version 1's limit of memory and swap together; `None` if swap is not counted.
    pub(super) fn both(&self) -> io::Result<Option<Limit>> {
        match self.file(V1_BOTH) {
            Ok(text) => Ok(Some(limit(&text))),
            Err(Errno::NOENT | Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(self.io_error(V1_BOTH, errno)),
        }
    }

    /// Returns all memory charged to the cgroup now, in bytes, including page cache and kernel
    /// memory. The kernel compares this counter with the limit. It includes up to 64 pages per
    /// processor that are reserved and not yet used. The root of version 2 has no such counter: for
    /// it, the result is the sum of the counters by kind.
    ///
    /// # Errors
    /// The counter cannot be read.
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

    /// Returns the highest charge so far, in bytes.
    ///
    /// # Errors
    /// The counter cannot be read (version 2 has it since Linux 5.19).
    pub fn peak(&self) -> io::Result<u64> {
        self.number(match self.version() {
            Version::V1 => "memory.max_usage_in_bytes",
            Version::V2 => "memory.peak",
        })
    }

    /// Returns a lower bound of the unmapped page cache of files, in bytes
    /// ([`Cache::unmapped_file_least`]). The kernel sums these counters about every two seconds.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn cache_unmapped(&self) -> io::Result<u64> {
        self.cache_in(&self.read("memory.stat")?)
    }

    /// Returns the unmapped page cache that is not dirty, in bytes, otherwise like
    /// [`HardLimit::cache_unmapped`]. Dirty pages must be written first: if the kernel is asked to
    /// reclaim them, it reclaims other pages instead, in the end anonymous ones.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn cache_clean(&self) -> io::Result<u64> {
        let text = self.read("memory.stat")?;
        let dirty = parse_dirty(&text, self.version());
        Ok(self.cache_in(&text)?.saturating_sub(dirty))
    }

    /// Returns the unmapped page cache on the kernel's inactive list, in bytes, otherwise like
    /// [`HardLimit::cache_unmapped`]. Pages on that list were not read twice recently.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn cache_idle(&self) -> io::Result<u64> {
        let idle = parse_idle_cache(&self.read("memory.stat")?, self.version());
        idle.ok_or_else(|| self.io_error("memory.stat", Errno::INVAL))
    }

    /// Returns the unmapped page cache in bytes, from a text of memory.stat.
    fn cache_in(&self, text: &[u8]) -> io::Result<u64> {
        let cache = parse_cache(text, self.version())
            .as_ref()
            .map(Cache::unmapped_file_least);
        cache.ok_or_else(|| self.io_error("memory.stat", Errno::INVAL))
    }

    /// Returns the bytes of the charge that the kernel frees on its own as soon as memory is
    /// needed: [`HardLimit::cache_unmapped`] and, if swap is slower than memory (`has_slow_swap`),
    /// pages already written to swap ([`parse_written`]).
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn free_at_will(&self, has_slow_swap: bool) -> io::Result<u64> {
        let text = self.read("memory.stat")?;
        let written = match has_slow_swap {
            true => self.written_in(&text),
            false => 0,
        };
        Ok(self.cache_in(&text)? + written)
    }

    /// Returns the bytes of the charge that are already written to swap ([`parse_written`]).
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn written(&self) -> io::Result<u64> {
        Ok(self.written_in(&self.read("memory.stat")?))
    }

    /// Returns the bytes already written to swap, from a text of memory.stat; 0 if it has no such
    /// counter.
    fn written_in(&self, text: &[u8]) -> u64 {
        parse_written(text, self.version()).unwrap_or(0)
    }

    /// Returns the number of the cgroup's processes that the kernel killed for lack of memory. On
    /// version 1, processes of cgroups below are not included.
    ///
    /// # Errors
    /// The counter cannot be read.
    pub fn oom_kills(&self) -> io::Result<u64> {
        let file = match self.version() {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        let count = flat(&self.read(file)?, "oom_kill");
        count.ok_or_else(|| self.io_error(file, Errno::INVAL))
    }

    /// Returns how often a charge met this cgroup's own hard limit, so that the kernel had to
    /// reclaim.
    ///
    /// # Errors
    /// The counter cannot be read (version 2 has it since Linux 5.3).
    pub fn times_met(&self) -> io::Result<u64> {
        match self.version() {
            Version::V1 => self.number("memory.failcnt"),
            Version::V2 => {
                let count = flat(&self.read(V2_EVENTS)?, "max");
                count.ok_or_else(|| self.io_error(V2_EVENTS, Errno::INVAL))
            }
        }
    }

    /// Returns how often a charge of this cgroup, or of one below, failed at this cgroup's own hard
    /// limit. On version 1, returns how often a charge met the limit.
    ///
    /// # Errors
    /// The counter cannot be read (version 2 has it since Linux 5.3).
    pub fn limit_hits(&self) -> io::Result<u64> {
        match self.version() {
            // Charges that meet the limit of memory and swap together are counted in `memsw` only.
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

    /// Returns how often the kernel reclaimed from this cgroup because its usage met its own
    /// limits. Does not include charges that met a limit that [`HardLimit::reclaim`] had lowered
    /// for a moment.
    ///
    /// # Errors
    /// The counter cannot be read (version 2 has it since Linux 5.3).
    pub fn limit_reclaims(&self) -> io::Result<u64> {
        match self.version() {
            Version::V1 => {
                let (hits, forced) = (self.limit_hits()?, &self.0.forced_hits);
                let known = forced.load(Ordering::Relaxed);
                // A user may have reset the kernel's counter to 0.
                if hits < known {
                    forced.store(0, Ordering::Relaxed);
                    return Ok(hits);
                }
                Ok(hits - known)
            }
            Version::V2 => {
                let count = parse_limit_reclaims(&self.read(V2_EVENTS)?);
                count.ok_or_else(|| self.io_error(V2_EVENTS, Errno::INVAL))
            }
        }
    }

    /// Runs `lower`, which lowers the limit for a moment, and counts the charges that met the limit
    /// meanwhile. A program that allocates continuously meets it, but does not lack memory.
    pub(super) fn counting_forced_hits<T>(&self, lower: impl FnOnce() -> T) -> T {
        let before = self.limit_hits();
        let done = lower();
        if let (Ok(before), Ok(after)) = (before, self.limit_hits()) {
            let forced = after.saturating_sub(before);
            self.0.forced_hits.fetch_add(forced, Ordering::Relaxed);
        }
        done
    }

    /// Returns the number in one of the cgroup's files.
    fn number(&self, file: &str) -> io::Result<u64> {
        let text = self.read(file)?;
        number(text.trim_ascii()).ok_or_else(|| self.io_error(file, Errno::INVAL))
    }

    /// Locks the limits: only one thread at a time changes them.
    pub(super) fn turn(&self) -> std::sync::MutexGuard<'_, ()> {
        self.0.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes version 1's hard limit only, not the limit of memory and swap; for callers that
    /// restore it soon.
    pub(super) fn set_max_v1(&self, limit: Limit) -> Result<(), Errno> {
        self.put(V1_MAX, &limit_text_v1(limit))
    }
}

/// Raises all limits of an open cgroup to the ceiling. On version 1 also restores the cgroup's
/// swappiness to that of its parent, its initial value. Returns the first refusal, with its file.
pub(super) fn lift(
    dir: &std::os::fd::OwnedFd,
    version: Version,
    ceiling: Limits,
) -> Result<(), (&'static str, Errno)> {
    let values = match version {
        Version::V1 => {
            // The limit of memory and swap together comes first: the limit of memory may not exceed
            // it.
            let mut values = vec![
                (V1_BOTH, limit_text_v1(Limit::Max)),
                (V1_MAX, limit_text_v1(ceiling.max)),
            ];
            let above = files::read(dir, &format!("../{V1_SWAPPINESS}")).unwrap_or_default();
            let swappiness = number(above.trim_ascii());
            values.extend(swappiness.map(|one| (V1_SWAPPINESS, one.to_string())));
            values
        }
        Version::V2 => vec![
            (V2_MAX, ceiling.max.file_text()),
            (V2_HIGH, ceiling.high.file_text()),
            (V2_SWAP, ceiling.swap_max.file_text()),
        ],
    };
    let mut first = Ok(());
    for (file, value) in values {
        // Where swap is not counted, the files of swap limits are missing; the others always exist.
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
