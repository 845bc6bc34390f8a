//! Counters of a limited group, kept fresh while the kernel reclaims from it, so that it does not kill without need.
//!
//! The kernel (6.18; the classic LRU) looks at counters that it sums every two seconds when it decides whether active
//! pages must be deactivated. A group whose inactive list runs empty before that, and which has no page of files, has
//! nothing left to scan: all 16 attempts of a charge find nothing within a millisecond, and the program is killed with
//! its swap free, whoever made the group. Reading `memory.stat` sums them at once (e2e
//! `nobody_is_killed_while_swap_is_free`: 18 kills of 18 without this, none with it).
//!
//! Invariant: one thread serves all groups and does nothing but that (another one asks the kernel for signals); it wakes when the kernel has scanned 512 pages of
//! one (version 1: `memory.pressure_level`), or its usage has come to its limit ([`BELOW`]; version 2: `memory.events`), and never sooner than
//! [`APART`] after it last did, and goes on for [`LINGER`]. A limit that is being lowered is not watched (`limits.rs` says why). Who cannot
//! be watched is as it was: nothing here fails. The table's lock is the last in order, and no file is read under it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, pread, read, write};

use super::files;
use crate::system::cgroup::Version;
use crate::system::load::thread_cpu;
use crate::system::proc::read_path;

/// Reading costs some 30 us: of one group at most 3% of a processor, and only while it reclaims without pause, or was given a limit a moment ago.
const APART: Duration = Duration::from_millis(1);
/// All groups together take one in so many parts of a processor, up to some thirty of them; more of them more, for none is summed less often than each
/// [`APART_MOST`]: a small group's list runs empty in ten milliseconds.
const SHARE: u32 = 8;
const APART_MOST: Duration = Duration::from_millis(8);
/// After a signal a group's counters are summed so long without another. (The kernel signals each 512 pages that it has scanned, and a small group's
/// inactive list has fewer: redis in 26 MiB was killed.)
const LINGER: Duration = Duration::from_millis(100);
/// Version 1 signals where usage passes so far below the limit, bytes, either way: who reclaims goes up and down by 32 pages there. That comes from whoever
/// is charged; the kernel's signal of pressure is a worker's, which waits for its turn among all others. (The story: beside builds a program was killed six times of
/// six with its swap free, and no thread of ours had been late.)
const BELOW: [u64; 3] = [32 << 10, 64 << 10, 96 << 10];
/// The kernel takes each of these places in some 8 ms (it waits for all processors). A group of more than this is not full before that is done by
/// a thread of its own; below it whoever sets the limit waits. (The story: a program in 128 MiB began 25 ms later for it.)
const AT_ONCE: u64 = 64 << 20;

/// A group that is watched, for as long as this lives.
#[derive(Debug)]
pub(super) struct Fresh {
    all: &'static Watch,
    key: u64,
    watched: Arc<Watched>,
    /// The hard limit that it was made for.
    max: Option<u64>,
}

/// All groups that are watched.
#[derive(Debug)]
struct Watch {
    epoll: OwnedFd,
    groups: Mutex<Groups>,
    /// Where usage of large groups is to be told of.
    later: Sender<Later>,
}

/// A group, its directory and its limit.
type Later = (Arc<Watched>, OwnedFd, u64);

#[derive(Debug, Default)]
struct Groups {
    next: u64,
    by_key: HashMap<u64, Arc<Watched>>,
}

#[derive(Debug)]
struct Watched {
    /// What the kernel wakes us by: an eventfd (version 1), or the group's `memory.events`.
    signal: OwnedFd,
    version: Version,
    stat: OwnedFd,
    /// How often they were summed.
    #[cfg(test)]
    summed: std::sync::atomic::AtomicU64,
}

impl Fresh {
    /// Watches the open group, with this hard limit (bytes), from now on; `None` where the kernel does not let us, or has no need of it.
    pub(super) fn watch(dir: &OwnedFd, version: Version, max: Option<u64>) -> Option<Fresh> {
        let all = Watch::get()?;
        let watched = Arc::new(Watched::open(dir, version).ok()?);
        let key = all.insert(Arc::clone(&watched))?;
        let fresh = Fresh {
            all,
            key,
            watched,
            max,
        };
        if version == Version::V1 {
            fresh.watched.tell_of_pressure(dir).ok()?;
            match max {
                Some(max) if max > AT_ONCE => {
                    let dir = dir.try_clone().ok()?;
                    // Without that thread it is as it was before there were such places.
                    let _ = all.later.send((Arc::clone(&fresh.watched), dir, max));
                }
                Some(max) => fresh.watched.tell_of_usage(dir, max).ok()?,
                None => {}
            }
        }
        Some(fresh)
    }

    /// Has nothing summed until [`Fresh::go_on`]; the kernel's signals stay as they are, for each takes it milliseconds to make.
    pub(super) fn pause(&mut self) {
        self.all.remove(self.key);
    }

    /// As before; at once, if the kernel has given a signal meanwhile. False where it could not be, or the limit, bytes, is another one by now.
    pub(super) fn go_on(&mut self, max: Option<u64>) -> bool {
        if max != self.max {
            return false;
        }
        let key = self.all.insert(Arc::clone(&self.watched));
        self.key = key.unwrap_or(self.key);
        key.is_some()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        self.all.remove(self.key);
    }
}

impl Watched {
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

    /// Has version 1 signal what it reclaims.
    fn tell_of_pressure(&self, dir: &OwnedFd) -> Result<(), Errno> {
        let level = open_in(dir, "memory.pressure_level")?;
        // Ours beside those of groups below it: without "hierarchy" theirs would hide ours.
        self.ask_for(dir, &format!("{} low,hierarchy", raw(&level)))
    }

    /// Has version 1 signal where usage passes [`BELOW`] the limit.
    fn tell_of_usage(&self, dir: &OwnedFd, max: u64) -> Result<(), Errno> {
        let usage = open_in(dir, "memory.usage_in_bytes")?;
        let mut places = BELOW.iter().filter_map(|below| max.checked_sub(*below));
        places.try_for_each(|place| self.ask_for(dir, &format!("{} {place}", raw(&usage))))
    }

    /// One of version 1's signals. Until the kernel gives it we give it ourselves, for the limit stands already. (The story: a program that used all
    /// of its memory right after its tenant's limit had come to stand below it was killed with its swap free, within these milliseconds.)
    fn ask_for(&self, dir: &OwnedFd, what: &str) -> Result<(), Errno> {
        let wake = 1_u64.to_ne_bytes();
        write(&self.signal, &wake)?;
        let line = format!("{} {what}", raw(&self.signal));
        files::write(dir, "cgroup.event_control", &line)?;
        write(&self.signal, &wake).map(drop)
    }

    /// Takes the signal and has the counters summed; whether the group is still there.
    fn refresh(&self) -> bool {
        let taken = match self.version {
            Version::V1 => read(&self.signal, &mut [0; 8]),
            // Read from the beginning, or the kernel would signal the same again.
            Version::V2 => pread(&self.signal, &mut [0; 512], 0),
        };
        let summed = pread(&self.stat, &mut [0; 64], 0);
        #[cfg(test)]
        self.summed
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        ![taken, summed].contains(&Err(Errno::NODEV))
    }
}

impl Watch {
    /// The one of this process, with its thread.
    fn get() -> Option<&'static Watch> {
        static WATCH: OnceLock<Option<&Watch>> = OnceLock::new();
        *WATCH.get_or_init(|| {
            if has_multi_gen_lru() {
                return None;
            }
            let epoll = epoll::create(CreateFlags::CLOEXEC).ok()?;
            let (later, asked) = channel::<Later>();
            let tell = move || {
                for (watched, dir, max) in asked {
                    // Who is not watched any more: nobody else has it. (The story, of a reading: limits that were set again each 20 ms were queued
                    // faster than the kernel makes three signals, with their descriptors, until none were left.)
                    if Arc::strong_count(&watched) > 1 {
                        let _ = watched.tell_of_usage(&dir, max);
                    }
                }
            };
            let builder = std::thread::Builder::new().name("usage".to_owned());
            builder.spawn(tell).ok()?;
            let watch: &'static Watch = Box::leak(Box::new(Watch {
                epoll,
                groups: Mutex::default(),
                later,
            }));
            let builder = std::thread::Builder::new().name("counters".to_owned());
            let work = || {
                // Before everybody else, where that may be asked for: a small list runs empty in ten milliseconds, and on a busy machine
                // a thread waits as long for its turn, at the best nice value, too. (That is of a thread, in spite of its name.)
                if !pagetables::run_before_others() {
                    let _ = rustix::process::setpriority_process(None, -20);
                }
                watch.serve();
            };
            builder.spawn(work).ok()?;
            Some(watch)
        })
    }

    fn insert(&self, watched: Arc<Watched>) -> Option<u64> {
        let flags = match watched.version {
            Version::V1 => EventFlags::IN,
            Version::V2 => EventFlags::PRI,
        };
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

    fn remove(&self, key: u64) {
        let gone = self.groups().by_key.remove(&key);
        if let Some(gone) = gone {
            // It may never have been added; then there is nothing to do.
            let _ = epoll::delete(&self.epoll, &gone.signal);
        }
    }

    /// The thread's work, for as long as the process lives.
    fn serve(&self) {
        let mut ready = Vec::with_capacity(64);
        // Groups that reclaim, and until when each is taken to go on with that.
        let mut reclaiming: HashMap<u64, Instant> = HashMap::new();
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        loop {
            ready.clear();
            let timeout = (!reclaiming.is_empty()).then_some(&at_once);
            match epoll::wait(&self.epoll, spare_capacity(&mut ready), timeout) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let (now, worked) = (Instant::now(), thread_cpu());
            let signals = ready.drain(..).map(|event| event.data.u64());
            reclaiming.extend(signals.map(|key| (key, now + LINGER)));
            reclaiming.retain(|key, until| {
                let watched = self.groups().by_key.get(key).cloned();
                let is_there = watched.as_ref().is_some_and(|group| group.refresh());
                if watched.is_some() && !is_there {
                    self.remove(*key);
                }
                is_there && now < *until
            });
            // Not by the clock: who waits for a processor, or for the lock of the counters, would be late just when memory is short.
            let worked = thread_cpu().saturating_sub(worked);
            std::thread::sleep((worked * SHARE).clamp(APART, APART_MOST));
        }
    }

    fn groups(&self) -> std::sync::MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_in(dir: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    openat(dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

fn raw(fd: &OwnedFd) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(fd)
}

/// The multi-gen LRU ages by generations and not by the lengths of lists: it needs no fresh counters.
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

    /// The kernel's signals take it some 30 ms to make, and the limit stands already: here nobody ever gives one.
    #[test]
    fn counters_are_summed_while_the_kernel_is_asked_for_signals() {
        let dir = Directory::new("fresh");
        for name in ["pressure_level", "usage_in_bytes", "stat"] {
            std::fs::write(dir.0.join(format!("memory.{name}")), "").expect("a file");
        }
        std::fs::write(dir.0.join("cgroup.event_control"), "").expect("a file");
        let open = OwnedFd::from(std::fs::File::open(&dir.0).expect("a directory"));
        let Some(mut fresh) = Fresh::watch(&open, Version::V1, Some(32 << 20)) else {
            assert!(has_multi_gen_lru(), "it is watched");
            return;
        };
        let sums = |fresh: &Fresh| fresh.watched.summed.load(Relaxed);
        let wait_for_more_than = |sum: u64, fresh: &Fresh| {
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
        // (One may have been under way.)
        assert!(sums(&fresh) <= sum + 1, "it pauses");
        assert!(!fresh.go_on(None), "the limit has changed");
        assert!(fresh.go_on(Some(32 << 20)));
        wait_for_more_than(sum, &fresh);
    }
}
