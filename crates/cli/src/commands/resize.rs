//! `pagetide resize`: pages out of a control group, then lowers its limit, and restores the limit
//! if that costs too much.
//!
//! Invariant: the limit is lowered only when the memory that the kernel cannot drop fits below it,
//! so that the kernel kills no process because of it. Until the watch is over, any end of this
//! command except SIGKILL restores the limit.

mod limit;

mod plan;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use daemon::control::Ask;
use daemon::options::{Bytes, Millis, Pages};
use daemon::reclaim::{WATCH_MIN, WatchBeforeReclaim};
use host::report::Price;
use host::system::cgroup::Version;
use host::system::{Group, Groups, Proc};
use host::workload::{self, Workload};

use crate::args::{Resize, TargetArgs};
use crate::failure::Failure;
use crate::workloads::{self, Found};

use super::reclaim::{page_out, stayed};
use super::stop::{gentle_flag, pause};
use limit::{Limit, Owner};
use plan::{Counters, SwapDemand, Verdict, excess, kubectl, limit_text};

/// Number of consecutive attempts that page out hardly anything, after which the remaining memory
/// is assumed to stay.
const ATTEMPTS: u32 = 3;
/// Maximum number of attempts to page out.
const ATTEMPTS_MAX: u32 = 30;
/// Time between two attempts, in which the kernel finishes writing pages to swap.
const WRITE_PAUSE: Duration = Duration::from_millis(300);
/// Time between two measurements of what the limit costs.
const PULSE: Duration = Duration::from_millis(500);

pub(super) fn resize(args: &Resize) -> Result<u8, Failure> {
    let proc = Proc::system()?;
    let groups = Groups::find(&proc)?;
    let group = group(args, &proc, &groups)?;
    if group.path == Path::new("/") {
        return Err(Failure::usage(
            "cannot set a limit of all of the host: this is the root of all control groups",
            "give a process, a unit or a group below it",
        ));
    }
    let mut of_it = [Workload::of(&group.path)];
    workload::name(&mut of_it, Path::new("/"));
    let [workload] = of_it;
    if workload.pod_uid.is_some() {
        print_line(&kubectl(&workload, args.memory_max)?);
        return Ok(0);
    }
    let owner = Owner::of(&workload, &group, args.persistent);
    let job = Job {
        args,
        groups,
        limit: Limit::open(owner, &group)?,
        group,
    };
    job.run(&proc)
}

/// Resolves the control group that the command line names.
fn group(args: &Resize, proc: &Proc, groups: &Groups) -> Result<Group, Failure> {
    if let Some(path) = &args.whom.cgroup {
        return Ok(groups.resolve(&path.to_string_lossy())?);
    }
    let name = args.whom.name.as_deref().unwrap_or_default();
    match workloads::find(name)? {
        Found::Group(path) => Ok(groups.resolve(&path.to_string_lossy())?),
        Found::Pid(pid) => groups.of_process(proc, pid)?.ok_or_else(|| {
            Failure::new(
                format!("cannot find a control group of pid {pid}: there is no such process, or its group is not shown here"),
                "give a process that runs, or --cgroup PATH",
            )
        }),
        Found::Several(paths) => {
            let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            Err(Failure::new(
                format!("cannot set one limit for `{}`: it has several control groups", name.escape_debug()),
                format!("give one of them: --cgroup {}", paths.join(", ")),
            ))
        }
    }
}

/// Prints a line to standard output. If the pipe is closed, that is no error.
fn print_line(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// One group, and its new limit.
struct Job<'a> {
    args: &'a Resize,
    groups: Groups,
    group: Group,
    limit: Limit,
}

impl Job<'_> {
    fn run(&self, proc: &Proc) -> Result<u8, Failure> {
        let (path, size) = (self.group.path.display(), self.args.memory_max);
        let held = self.charged()?;
        let former = self.limit.former();
        let cache = match held.all - held.stays {
            0 => String::new(),
            cache => format!(
                ", {} of it page cache, which is reclaimed first",
                Bytes(cache)
            ),
        };
        print_line(&format!(
            "{path}: {} charged{cache}, limit {}",
            Bytes(held.all),
            limit_text(former)
        ));
        let over = excess(held.stays, size.0);
        let swap = over.map(|over| self.swap(proc, over)).transpose()?;
        if self.args.dry_run {
            self.say_plan(over.zip(swap));
            return Ok(0);
        }
        let stop = gentle_flag()?;
        // Measuring a price takes a moment, so it is done before the limit is set.
        let price = host::price::price(proc);
        let why = self.make_room(&stop)?;
        let lowered = self.lower(&why)?;
        print_line(&format!(
            "limit set to {size}: {}",
            self.limit.describe(size.0)
        ));
        if self.fits(size.0) {
            // The new limit is no lower than the former one and costs nothing: it is kept without a
            // watch.
            lowered.keep();
            return Ok(0);
        }
        match self.watch(&stop, &price) {
            Ok(cost) => {
                lowered.keep();
                print_line(&cost);
                Ok(0)
            }
            Err(why) => Err(lowered.restore(&why)),
        }
    }

    /// Prints what would be done: how many bytes would be paged out, and a note about swap.
    fn say_plan(&self, leaves: Option<(u64, String)>) {
        let size = self.args.memory_max;
        if let Some((over, swap)) = leaves {
            let over = Bytes(over);
            print_line(&format!("would page out {over}, the coldest first; {swap}"));
        }
        print_line(&format!(
            "would set the limit to {size}: {}",
            self.limit.describe(size.0)
        ));
        if self.fits(size.0) {
            return;
        }
        print_line(&format!(
            "would then watch for {}; if processes wait for memory longer than {}% of that, the limit is {} again",
            self.args.watch,
            self.args.cost,
            limit_text(self.limit.former())
        ));
    }

    /// Checks that swap has space for `over` bytes of the group; returns how much is free, in
    /// words.
    ///
    /// # Errors
    /// Swap is too small.
    fn swap(&self, proc: &Proc, over: u64) -> Result<String, Failure> {
        let usage = self.groups.usage(&self.group)?.unwrap_or_default();
        let limit = self.groups.swap_limit(&self.group);
        let allowed = limit.map(|limit| limit.saturating_sub(usage.swap.unwrap_or(0)));
        let free = Pages(proc.swap_free_pages()?).bytes().0;
        let cache = usage.cache.unwrap_or_default();
        let room = SwapDemand {
            over,
            free: allowed.map_or(free, |allowed| allowed.min(free)),
            files: cache.total.saturating_sub(cache.shmem),
        };
        room.words().ok_or_else(|| {
            Failure::new(
                format!(
                    "cannot make room in {}: {} must go to swap, and {} of it is free; the limit is as it was ({})",
                    self.group.path.display(),
                    Bytes(room.at_least()),
                    Bytes(room.free),
                    limit_text(self.limit.former())
                ),
                "`pagetide swap on` makes compressed swap in memory; or give a larger size",
            )
        })
    }

    /// Returns whether the former limit is no higher than this one.
    fn fits(&self, size: u64) -> bool {
        self.limit.former().is_some_and(|former| former <= size)
    }

    /// Returns the failure for a control group that does not exist any more.
    fn group_gone(&self) -> Failure {
        Failure::new(
            format!(
                "cannot resize {}: the control group no longer exists",
                self.group.path.display()
            ),
            "its processes have ended",
        )
    }

    /// Returns the bytes that count towards the limit.
    fn charged(&self) -> Result<Charged, Failure> {
        let usage = self
            .groups
            .usage(&self.group)?
            .ok_or_else(|| self.group_gone())?;
        let all = usage.current.ok_or_else(|| self.group_gone())?;
        // When a limit is lowered, version 1 drops page cache, and refuses the limit if that is not
        // enough. Version 2 kills processes instead.
        let cache = match self.groups.version {
            Version::V1 => usage.cache.map_or(0, |cache| cache.unmapped_file_least()),
            Version::V2 => 0,
        };
        Ok(Charged {
            all,
            stays: all.saturating_sub(cache),
        })
    }

    /// Sets the limit. If the kernel must reclaim for it and cannot, the failure contains `why`:
    /// what stayed in memory.
    fn lower(&self, why: &str) -> Result<Lowered<'_>, Failure> {
        Lowered::set(&self.limit, self.args.memory_max.0).or_else(|failed| {
            match self.limit.kernel_reclaims() && self.limit.is_there() {
                true => Err(self.no_room(self.charged()?.stays, why)),
                false => Err(failed),
            }
        })
    }

    /// Pages out the coldest memory until the rest fits below the limit. If the kernel itself
    /// reclaims when the limit is lowered, only one attempt is made. Returns, in words, what
    /// stayed.
    fn make_room(&self, stop: &AtomicBool) -> Result<String, Failure> {
        let size = self.args.memory_max.0;
        let mut why = String::new();
        let mut before = self.charged()?.stays;
        let mut in_vain = 0;
        // If a group allocates as fast as it is paged out, the attempts end as well. If the kernel
        // reclaims for the limit, one attempt is enough: the kernel knows better than a second
        // short scan which pages are cold.
        let attempts = if self.limit.kernel_reclaims() {
            1
        } else {
            ATTEMPTS_MAX
        };
        for attempt in 0..attempts {
            if in_vain == ATTEMPTS {
                break;
            }
            let Some(over) = excess(before, size) else {
                return Ok(why);
            };
            if stop.load(Ordering::Relaxed) {
                let what = format!(
                    "stopped: the limit of {} is as it was",
                    self.group.path.display()
                );
                return Err(Failure::new(
                    what,
                    "what was paged out comes back as it is used",
                ));
            }
            print_line(&format!("paging out {}, the coldest first", Bytes(over)));
            let time = if attempt == 0 {
                Duration::from_millis(self.args.scan.0)
            } else {
                WATCH_MIN
            };
            why = self
                .page_out(over, WatchBeforeReclaim { time, stop })
                .inspect_err(|_| print_line("the limit is as it was"))?;
            pause(stop, WRITE_PAUSE);
            let now = self.charged()?.stays;
            let is_in_vain = now + over / 16 >= before;
            in_vain = if is_in_vain { in_vain + 1 } else { 0 };
            before = now;
        }
        let stays = self.charged()?.stays;
        // The margin below the limit is desirable only: it suffices to fit below the limit itself.
        match stays <= size || self.limit.kernel_reclaims() {
            true => Ok(why),
            false => Err(self.no_room(stays, &why)),
        }
    }

    fn no_room(&self, stays: u64, why: &str) -> Failure {
        let hint = match why.is_empty() {
            true => "what is locked, in use or of the kernel stays; give a larger size".to_owned(),
            false => format!("{why}; give a larger size"),
        };
        Failure::new(
            format!(
                "cannot make room in {}: {} stay, too much for {}; the limit is as it was ({})",
                self.group.path.display(),
                Bytes(stays),
                self.args.memory_max,
                limit_text(self.limit.former())
            ),
            hint,
        )
    }

    /// Pages out this many bytes of the group; returns, in words, what stayed and why.
    fn page_out(&self, bytes: u64, glance: WatchBeforeReclaim) -> Result<String, Failure> {
        let file = self.group.dir.join("memory.reclaim");
        if file.exists() {
            // The kernel returns EAGAIN if it reclaimed less. The group's charge then shows how
            // much.
            return match std::fs::write(&file, bytes.to_string()) {
                Err(error)
                    if error.raw_os_error() == Some(rustix::io::Errno::AGAIN.raw_os_error()) =>
                {
                    Ok(format!(
                        "the kernel could not reclaim all of {}",
                        Bytes(bytes)
                    ))
                }
                other => other
                    .map(|()| String::new())
                    .map_err(|error| limit::refused(&file, &error)),
            };
        }
        let whose = TargetArgs {
            pid: None,
            cgroup: Some(self.group.dir.clone()),
        };
        let (done, _) = page_out(&whose, (Ask::Bytes(bytes), glance))?;
        let full = if done.no_swap { "swap is full; " } else { "" };
        let refused = done
            .refused
            .as_ref()
            .map(|why| format!("the kernel refuses: {why}; "));
        let stayed = stayed(&done);
        let stayed = if stayed.is_empty() {
            stayed
        } else {
            format!("stayed: {stayed}")
        };
        Ok(format!("{full}{}{stayed}", refused.unwrap_or_default())
            .trim_end_matches("; ")
            .to_owned())
    }

    fn counters(&self, price: &Price) -> Result<Counters, String> {
        let pressure = self.groups.pressure(&self.group).ok().flatten();
        let read = |name: &str| std::fs::read_to_string(self.group.dir.join(name));
        let stat =
            read("memory.stat").map_err(|_| "the control group no longer exists".to_owned())?;
        let events = read("memory.events").or_else(|_| read("memory.oom_control"));
        Ok(Counters::of(
            pressure,
            &stat,
            &events.unwrap_or_default(),
            (price, host::price::read_around()),
        ))
    }

    /// Watches the new limit; returns what it cost, in words. The error is the reason that the
    /// limit cannot stay.
    fn watch(&self, stop: &AtomicBool, price: &Price) -> Result<String, String> {
        let time = Duration::from_millis(self.args.watch.0);
        let before = self.counters(price)?;
        let begin = Instant::now();
        loop {
            let left = time.saturating_sub(begin.elapsed());
            pause(stop, left.min(PULSE));
            let spent = self.counters(price)?.since(before);
            if stop.load(Ordering::Relaxed) {
                return Err("stopped before the watch was over".to_owned());
            }
            let passed = begin.elapsed();
            match spent.verdict(self.args.cost, time) {
                Verdict::Fine => {}
                Verdict::TooDear => {
                    return Err(format!(
                        "it cost {} in {}, more than {}% of {} may ({})",
                        spent.waited(),
                        Millis::from(passed),
                        self.args.cost,
                        self.args.watch,
                        spent.source()
                    ));
                }
                Verdict::Killed => return Err("the kernel killed a process for it".to_owned()),
            }
            if passed >= time {
                let cost = spent.percent(passed);
                return Ok(format!(
                    "watched {}: it cost {cost:.3}% of the time ({})",
                    self.args.watch,
                    spent.source()
                ));
            }
        }
    }
}

/// The bytes of the group that count towards its limit.
struct Charged {
    all: u64,
    /// The part of `all` that stays when the limit is set: without what the kernel then drops.
    stays: u64,
}

/// A limit that is being tried; dropping this value restores the former limit.
struct Lowered<'a> {
    limit: &'a Limit,
    is_kept: bool,
}

impl<'a> Lowered<'a> {
    /// Sets the limit; dropping the returned value restores the former one.
    fn set(limit: &'a Limit, bytes: u64) -> Result<Lowered<'a>, Failure> {
        // Created before the limit is set, because systemd may set the limit and then fail.
        let lowered = Lowered {
            limit,
            is_kept: false,
        };
        limit.set(Some(bytes))?;
        Ok(lowered)
    }

    /// Keeps the new limit.
    fn keep(mut self) {
        self.is_kept = true;
    }

    /// Restores the former limit; returns the failure with the reason `why`.
    fn restore(mut self, why: &str) -> Failure {
        self.is_kept = true;
        let former = limit_text(self.limit.former());
        match self.limit.set(self.limit.former()) {
            Ok(()) => Failure::new(
                format!("the limit is {former} again, as before: {why}"),
                "`pagetide recommend` says what it needs",
            ),
            Err(failed) if !self.limit.is_there() => failed,
            Err(failed) => Failure::new(
                format!(
                    "cannot go back to a limit of {former} ({why}): {}",
                    failed.what()
                ),
                failed.hint().to_owned(),
            ),
        }
    }
}

impl Drop for Lowered<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = self.limit.set(self.limit.former());
        }
    }
}
