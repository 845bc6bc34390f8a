//! Keeps the kernel's counters of a limited cgroup fresh while the kernel reclaims from the cgroup.
//! With stale counters the kernel kills programs without need.
//!
//! When the kernel (6.18; the classic LRU) decides whether to deactivate active pages, it reads
//! counters that it sums only every two seconds. If the cgroup's inactive list runs empty before
//! that, and the cgroup has no file pages, reclaim has nothing left to scan. All 16 attempts of a
//! charge then find nothing within a millisecond, and the kernel kills the program although swap is
//! free. This concerns any cgroup. Reading `memory.stat` sums the counters at once (e2e
//! `no_program_is_killed_while_swap_is_free`: 18 kills of 18 without this, none with it).
//!
//! Invariant: one thread serves all cgroups and does nothing else; another thread registers for the
//! kernel's signals. The serving thread wakes when the kernel has scanned 512 pages of a cgroup
//! (version 1: `memory.pressure_level`), or when the cgroup's usage reaches its limit (version 1:
//! [`SIGNAL_DISTANCES`]; version 2: `memory.events`). It sleeps at least [`SUM_INTERVAL_MIN`]
//! between two passes, and keeps summing for [`LINGER`] after a signal. A cgroup's counters are
//! summed again before the kernel can have scanned half of its inactive list ([`until_next_sum`]).
//! A limit that is being lowered is not watched (`limits.rs` says why). No function here fails: if
//! a cgroup cannot be watched, the kernel sums its counters every two seconds, as usual. The
//! table's lock is the last in lock order, and no file is read under it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use engine::{Bytes, Limit, Pages};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, pread, read, write};

use super::files;
use crate::system::cgroup::{Version, parse_counter};
use crate::system::load::thread_cpu;
use crate::system::proc::read_path;

/// Minimum time between two sums of a cgroup's counters. One sum costs about 30 us: at most 3% of a
/// processor, and only while a small cgroup reclaims without pause or its limit was just set.
const SUM_INTERVAL_MIN: Duration = Duration::from_millis(1);
/// Number of pages of a list that one processor can scan in a millisecond if it only activates
/// them. Paging out takes several times as long.
const SCANNED_PER_MS: u64 = 1000;
/// All cgroups together use at most 1 / `SHARE` of a processor, up to about thirty cgroups. More
/// cgroups use more, because the counters of each are summed at least every [`SUM_INTERVAL_MAX`]: a
/// small cgroup's inactive list runs empty in ten milliseconds. This bound holds for large cgroups
/// too, as a list also shrinks when memory is freed.
const SHARE: u32 = 8;
const SUM_INTERVAL_MAX: Duration = Duration::from_millis(8);
/// Time for which a cgroup's counters are summed after a signal. The kernel signals once per 512
/// scanned pages, and a small cgroup's inactive list is shorter than that (redis in 26 MiB was
/// killed).
const LINGER: Duration = Duration::from_millis(100);
/// Distances below the limit, in bytes. Version 1 signals when usage crosses one of them, up or
/// down. A task that reclaims near the limit moves usage up and down by 32 pages, and that task
/// itself sends this signal. The kernel's pressure signal, in contrast, is sent by a worker thread,
/// which waits for a processor like any other task and can be too late.
const SIGNAL_DISTANCES: [u64; 3] = [32 << 10, 64 << 10, 96 << 10];
/// Limit in bytes above which another thread registers the signals of [`SIGNAL_DISTANCES`]. For a
/// lower limit the caller that sets the limit waits for the registration. The kernel needs about 8
/// ms for each signal (it waits for all processors), and a large cgroup does not fill up in that
/// time.
const REGISTER_AT_ONCE_MAX: u64 = 64 << 20;

/// A cgroup that is watched for as long as this value lives.
#[derive(Debug)]
pub(super) struct FreshCounters {
    /// The process's only [`Watch`].
    all: &'static Watch,
    /// Key of the cgroup in the table of watched cgroups.
    key: u64,
    watched: Arc<Watched>,
    /// The cgroup's hard limit when the watch began.
    max: Limit,
}

/// All cgroups that are watched.
#[derive(Debug)]
struct Watch {
    epoll: OwnedFd,
    groups: Mutex<Groups>,
    /// Queue of large cgroups for the thread that registers their usage signals.
    later: Sender<Later>,
    /// Number of processors that can scan a cgroup's lists.
    processors: u64,
}

/// A cgroup whose usage signals are still to be registered, its directory, and its limit in bytes.
type Later = (Arc<Watched>, OwnedFd, u64);

#[derive(Debug, Default)]
struct Groups {
    /// Key of the next cgroup.
    next: u64,
    by_key: HashMap<u64, Arc<Watched>>,
}

/// A cgroup that reclaims.
struct Reclaiming {
    /// Time until which it is assumed to reclaim on.
    until: Instant,
    /// When its counters are summed next.
    next: Instant,
}

#[derive(Debug)]
struct Watched {
    /// Descriptor by which the kernel wakes the thread: an eventfd (version 1), or `memory.events`.
    signal: OwnedFd,
    version: Version,
    /// The cgroup's open `memory.stat`: reading it sums the counters.
    stat: OwnedFd,
    /// Number of times that the counters were summed.
    #[cfg(test)]
    summed: std::sync::atomic::AtomicU64,
}

impl FreshCounters {
    /// Watches the open cgroup with the hard limit `max` from now on. Returns `None` if the kernel
    /// does not allow that or does not need it.
    pub(super) fn watch(dir: &OwnedFd, version: Version, max: Limit) -> Option<FreshCounters> {
        let all = Watch::get()?;
        let watched = Arc::new(Watched::open(dir, version).ok()?);
        let key = all.insert(Arc::clone(&watched))?;
        let fresh = FreshCounters {
            all,
            key,
            watched,
            max,
        };
        if version == Version::V1 {
            fresh.watched.register_pressure_signal(dir).ok()?;
            match max.bytes().map(|max| max.0) {
                Some(max) if max > REGISTER_AT_ONCE_MAX => {
                    let dir = dir.try_clone().ok()?;
                    // If that thread does not run, only the usage signals are missing.
                    let _ = all.later.send((Arc::clone(&fresh.watched), dir, max));
                }
                Some(max) => fresh.watched.register_usage_signals(dir, max).ok()?,
                None => {}
            }
        }
        Some(fresh)
    }

    /// Stops the summing until [`FreshCounters::resume`]. The kernel's signals stay registered, as
    /// each takes milliseconds to register.
    pub(super) fn pause(&mut self) {
        self.all.remove(self.key);
    }

    /// Resumes the summing, at once if the kernel has signalled meanwhile. Returns false if that
    /// failed, or if the limit is now `max` and no longer the one with which the watch began.
    pub(super) fn resume(&mut self, max: Limit) -> bool {
        if max != self.max {
            return false;
        }
        let key = self.all.insert(Arc::clone(&self.watched));
        self.key = key.unwrap_or(self.key);
        key.is_some()
    }
}

impl Drop for FreshCounters {
    fn drop(&mut self) {
        self.all.remove(self.key);
    }
}

impl Watched {
    /// The event that wakes the thread, once until the counters are summed: further signals before
    /// the sum would wake it in vain.
    fn wakes_on(&self) -> EventFlags {
        let event = match self.version {
            Version::V1 => EventFlags::IN,
            Version::V2 => EventFlags::PRI,
        };
        event | EventFlags::ONESHOT
    }

    /// Opens the cgroup's signal and `memory.stat`; registers nothing yet.
    fn open(dir: &OwnedFd, version: Version) -> Result<Watched, Errno> {
        let signal = match version {
            Version::V1 => eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            Version::V2 => open_in(dir, "memory.events")?,
        };
        let stat = open_in(dir, "memory.stat")?;
        Ok(Watched {
            signal,
            version,
            stat,
            #[cfg(test)]
            summed: std::sync::atomic::AtomicU64::new(0),
        })
    }

    /// Makes version 1 signal each time the kernel reclaims from the cgroup.
    fn register_pressure_signal(&self, dir: &OwnedFd) -> Result<(), Errno> {
        let level = open_in(dir, "memory.pressure_level")?;
        // Without "hierarchy", the signals of child cgroups would hide ours.
        self.register(dir, &format!("{} low,hierarchy", raw(&level)))
    }

    /// Makes version 1 signal when usage crosses one of the distances [`SIGNAL_DISTANCES`] the
    /// limit `max` (bytes).
    fn register_usage_signals(&self, dir: &OwnedFd, max: u64) -> Result<(), Errno> {
        let usage = open_in(dir, "memory.usage_in_bytes")?;
        let mut places = SIGNAL_DISTANCES
            .iter()
            .filter_map(|below| max.checked_sub(*below));
        places.try_for_each(|place| self.register(dir, &format!("{} {place}", raw(&usage))))
    }

    /// Registers one signal of version 1. The limit is set already, and the cgroup can fill up
    /// during the milliseconds of the registration. So this function sends the signal itself,
    /// before and after.
    fn register(&self, dir: &OwnedFd, what: &str) -> Result<(), Errno> {
        let wake = 1_u64.to_ne_bytes();
        write(&self.signal, &wake)?;
        let line = format!("{} {what}", raw(&self.signal));
        files::write(dir, "cgroup.event_control", &line)?;
        write(&self.signal, &wake).map(drop)
    }

    /// Consumes the signal and makes the kernel sum the counters. Returns the time until they must
    /// be summed again; `None` if the cgroup no longer exists.
    fn refresh(&self, processors: u64) -> Option<Duration> {
        let taken = match self.version {
            Version::V1 => read(&self.signal, &mut [0; 8]),
            // The read begins at offset 0, or the kernel would signal the same event again.
            Version::V2 => pread(&self.signal, &mut [0; 512], 0),
        };
        let mut text = [0; 4096];
        let summed = pread(&self.stat, &mut text, 0);
        #[cfg(test)]
        self.summed
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if [taken, summed].contains(&Err(Errno::NODEV)) {
            return None;
        }
        let text = &text[..summed.unwrap_or(0)];
        let inactive = parse_counter(text, self.version, "inactive_anon").unwrap_or(0);
        Some(until_next_sum(Bytes(inactive).pages(), processors))
    }
}

/// Returns the time until the counters of a cgroup must be summed again, at which the kernel has
/// scanned at most half of the cgroup's `inactive` anonymous pages.
fn until_next_sum(inactive: Pages, processors: u64) -> Duration {
    let in_a_ms = SCANNED_PER_MS * processors.max(1);
    Duration::from_micros(inactive.0.saturating_mul(1000) / in_a_ms / 2)
        .clamp(SUM_INTERVAL_MIN, SUM_INTERVAL_MAX)
}

impl Watch {
    /// Returns the only instance of this process, and starts its thread; `None` if that failed.
    fn get() -> Option<&'static Watch> {
        static WATCH: OnceLock<Option<&Watch>> = OnceLock::new();
        *WATCH.get_or_init(|| {
            if has_multi_gen_lru() {
                return None;
            }
            let epoll = epoll::create(CreateFlags::CLOEXEC).ok()?;
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            let (later, requested) = channel::<Later>();
            let register = move || {
                for (watched, dir, max) in requested {
                    // If this is the last reference, the cgroup is no longer watched. Without this
                    // check, limits that are set again every 20 ms would queue up, each with its
                    // descriptors, faster than the kernel registers their signals.
                    if Arc::strong_count(&watched) > 1 {
                        let _ = watched.register_usage_signals(&dir, max);
                    }
                }
            };
            let builder = std::thread::Builder::new().name("usage".to_owned());
            builder.spawn(register).ok()?;
            let watch: &'static Watch = Box::leak(Box::new(Watch {
                epoll,
                groups: Mutex::default(),
                later,
                processors: u64::try_from(processors).unwrap_or(1),
            }));
            let builder = std::thread::Builder::new().name("counters".to_owned());
            let work = || {
                // Real-time priority, if allowed: a small inactive list runs empty in ten
                // milliseconds, and on a busy machine a thread waits that long for a processor,
                // even at the best nice value. (In spite of its name, `setpriority_process` sets
                // only this thread.)
                if !sys::set_real_time_priority() {
                    let _ = rustix::process::setpriority_process(None, -20);
                }
                watch.serve();
            };
            builder.spawn(work).ok()?;
            Some(watch)
        })
    }

    /// Adds a cgroup to those whose events wake the thread. Returns the cgroup's key; `None` if the
    /// kernel refuses to watch it.
    fn insert(&self, watched: Arc<Watched>) -> Option<u64> {
        let flags = watched.wakes_on();
        let key = {
            let mut groups = self.groups();
            let key = groups.next;
            groups.next += 1;
            groups.by_key.insert(key, Arc::clone(&watched));
            key
        };
        let data = EventData::new_u64(key);
        let added = epoll::add(&self.epoll, &watched.signal, data, flags);
        if added.is_err() {
            self.remove(key);
        }
        added.ok().map(|()| key)
    }

    /// Stops watching the cgroup with this key.
    fn remove(&self, key: u64) {
        let gone = self.groups().by_key.remove(&key);
        if let Some(gone) = gone {
            // If the cgroup was never added to epoll, this fails; then there is nothing to delete.
            let _ = epoll::delete(&self.epoll, &gone.signal);
        }
    }

    /// Runs the thread that sums counters, until the process ends.
    fn serve(&self) {
        let mut ready = Vec::with_capacity(64);
        let mut reclaiming: HashMap<u64, Reclaiming> = HashMap::new();
        loop {
            ready.clear();
            let next = reclaiming.values().map(|group| group.next).min();
            let timeout = next.map(|next| next.saturating_duration_since(Instant::now()));
            // A wait of at most `SUM_INTERVAL_MAX` can be represented.
            let timeout = timeout.and_then(|wait| Timespec::try_from(wait).ok());
            match epoll::wait(&self.epoll, spare_capacity(&mut ready), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let (now, worked) = (Instant::now(), thread_cpu());
            for event in ready.drain(..) {
                let group = reclaiming.entry(event.data.u64()).or_insert(Reclaiming {
                    until: now,
                    next: now,
                });
                group.until = now + LINGER;
            }
            reclaiming.retain(|key, group| now < group.next || self.sum(*key, group, now));
            // Counts processor time, not elapsed time. Waits for a processor or for the lock of the
            // kernel's counters would make the pause longer just when memory is short.
            let worked = thread_cpu().saturating_sub(worked);
            std::thread::sleep((worked * SHARE).clamp(SUM_INTERVAL_MIN, SUM_INTERVAL_MAX));
        }
    }

    /// Sums a cgroup's counters, and lets its signals wake the thread again. Returns whether the
    /// cgroup is assumed to reclaim on.
    fn sum(&self, key: u64, group: &mut Reclaiming, now: Instant) -> bool {
        let Some(watched) = self.groups().by_key.get(&key).cloned() else {
            return false;
        };
        let Some(pause) = watched.refresh(self.processors) else {
            self.remove(key);
            return false;
        };
        group.next = now + pause;
        let data = EventData::new_u64(key);
        // If the watch has ended meanwhile, this fails, and the next pass forgets the cgroup.
        let _ = epoll::modify(&self.epoll, &watched.signal, data, watched.wakes_on());
        now < group.until
    }

    /// Locks and returns the table of watched cgroups.
    fn groups(&self) -> std::sync::MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the file `name` of an open cgroup for reading.
fn open_in(dir: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    openat(dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

fn raw(fd: &OwnedFd) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(fd)
}

/// Returns whether the multi-gen LRU is enabled. It ages pages by generations, not by the lengths
/// of lists, so it needs no fresh counters.
fn has_multi_gen_lru() -> bool {
    let enabled = read_path(Path::new("/sys/kernel/mm/lru_gen/enabled"));
    let enabled = enabled.ok().flatten().unwrap_or_default();
    !matches!(enabled.trim_ascii(), b"" | b"0x0000" | b"0")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::system::testing::Directory;

    #[test]
    fn counters_are_summed_before_half_of_the_list_can_be_scanned() {
        let in_ms = |pages: u64, processors| until_next_sum(Pages(pages), processors);
        assert_eq!(in_ms(0, 2), SUM_INTERVAL_MIN);
        assert_eq!(in_ms(8000, 2), Duration::from_millis(2));
        assert_eq!(in_ms(8000, 1), Duration::from_millis(4));
        assert_eq!(in_ms(8000, 64), SUM_INTERVAL_MIN);
        assert_eq!(in_ms(u64::MAX, 1), SUM_INTERVAL_MAX);
        assert_eq!(in_ms(8000, 0), Duration::from_millis(4));
    }

    /// The kernel needs about 30 ms to register the signals, while the limit is set already. In
    /// this test the kernel never signals.
    #[test]
    fn counters_are_summed_while_the_kernel_is_requested_for_signals() {
        let dir = Directory::new("fresh");
        for name in ["pressure_level", "usage_in_bytes", "stat"] {
            std::fs::write(dir.0.join(format!("memory.{name}")), "").expect("a file");
        }
        std::fs::write(dir.0.join("cgroup.event_control"), "").expect("a file");
        let open = OwnedFd::from(std::fs::File::open(&dir.0).expect("a directory"));
        let limit = Limit::Bytes(Bytes(32 << 20));
        let Some(mut fresh) = FreshCounters::watch(&open, Version::V1, limit) else {
            assert!(has_multi_gen_lru(), "it is watched");
            return;
        };
        let sums = |fresh: &FreshCounters| fresh.watched.summed.load(Relaxed);
        let wait_for_more_than = |sum: u64, fresh: &FreshCounters| {
            let end = Instant::now() + Duration::from_secs(20);
            while sums(fresh) <= sum {
                assert!(Instant::now() < end, "nobody summed them");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        wait_for_more_than(0, &fresh);
        fresh.pause();
        std::thread::sleep(2 * LINGER);
        let sum = sums(&fresh);
        write(&fresh.watched.signal, &1_u64.to_ne_bytes()).expect("a signal");
        std::thread::sleep(LINGER);
        // One sum may have been in progress when the watch was paused.
        assert!(sums(&fresh) <= sum + 1, "it pauses");
        assert!(!fresh.resume(Limit::Max), "the limit has changed");
        assert!(fresh.resume(limit));
        wait_for_more_than(sum, &fresh);
    }
}
