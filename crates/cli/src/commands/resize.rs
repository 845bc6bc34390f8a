//! `pagetide resize`: makes room in a control group, then lowers its limit, and goes back if that costs too much.
//!
//! Invariant: the limit is lowered only when what cannot be dropped fits below it, so no process is killed for it; until the watch is
//! over each end of this command but SIGKILL puts the limit back that was there.

mod limit;
mod plan;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use daemon::control::Ask;
use daemon::options::{Bytes, Millis};
use host::report::Price;
use host::system::cgroup::Version;
use host::system::{Group, Groups, Proc};
use host::workload::{self, Workload};

use crate::args::{Resize, Whose};
use crate::failure::Failure;
use crate::workloads::{self, Found};

use super::reclaim::{page_out, stayed};
use super::stop::{gentle_flag, pause};
use limit::{Limit, Owner};
use plan::{Counters, Verdict, excess, kubectl, limit_text};

/// So often in a row may hardly any memory leave before the rest is taken to stay.
const ATTEMPTS: u32 = 3;
/// So often at most is it paged out at all.
const ATTEMPTS_AT_MOST: u32 = 30;
/// Time between two of these: what the kernel was writing to swap leaves meanwhile.
const WRITTEN: Duration = Duration::from_millis(300);
/// Time between two readings of what the limit costs.
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
        say(&kubectl(&workload, args.memory_max)?);
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

/// The control group that is meant.
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

/// What is said on standard output. A reader that is gone changes nothing.
fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// One group whose limit is set.
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
            cache => format!(", {} of it page cache that leaves first", Bytes(cache)),
        };
        say(&format!(
            "{path}: {} charged{cache}, limit {}",
            Bytes(held.all),
            limit_text(former)
        ));
        let over = excess(held.stays, size.0);
        if self.args.dry_run {
            if let Some(over) = over {
                say(&format!(
                    "would page out {}, the coldest first",
                    Bytes(over)
                ));
            }
            say(&format!(
                "would set the limit to {size}: {}",
                self.limit.how(size.0)
            ));
            say(&format!(
                "would watch for {}, and go back to {} at a cost of more than {}%",
                self.args.watch,
                limit_text(former),
                self.args.cost
            ));
            return Ok(0);
        }
        let stop = gentle_flag()?;
        // Measuring a price takes a moment: not while the limit is tried.
        let price = host::price::price(proc);
        self.make_room(&stop)?;
        let lowered = Lowered::set(&self.limit, size.0)?;
        say(&format!("limit set to {size}: {}", self.limit.how(size.0)));
        if former.is_some_and(|former| former <= size.0) {
            // A higher limit costs nothing.
            lowered.keep();
            return Ok(0);
        }
        match self.watch(&stop, &price) {
            Ok(cost) => {
                lowered.keep();
                say(&cost);
                Ok(0)
            }
            Err(why) => Err(lowered.back(&why)),
        }
    }

    fn gone(&self) -> Failure {
        Failure::new(
            format!(
                "cannot resize {}: the control group is gone",
                self.group.path.display()
            ),
            "its processes have ended",
        )
    }

    /// Bytes that count against the limit.
    fn charged(&self) -> Result<Charged, Failure> {
        let usage = self.groups.usage(&self.group)?.ok_or_else(|| self.gone())?;
        let all = usage.current.ok_or_else(|| self.gone())?;
        // Lowering a limit of version 1 drops page cache, and fails where it cannot. One of version 2 kills.
        let cache = match self.groups.version {
            Version::V1 => usage.cache.map_or(0, |cache| cache.unmapped_file_least()),
            Version::V2 => 0,
        };
        Ok(Charged {
            all,
            stays: all.saturating_sub(cache),
        })
    }

    /// Pages out until the rest fits below the limit.
    fn make_room(&self, stop: &AtomicBool) -> Result<(), Failure> {
        let size = self.args.memory_max.0;
        let mut why = String::new();
        let mut before = self.charged()?.stays;
        let mut in_vain = 0;
        // A group that takes memory as fast as it leaves is given up, too.
        for _ in 0..ATTEMPTS_AT_MOST {
            if in_vain == ATTEMPTS {
                break;
            }
            let Some(over) = excess(before, size) else {
                return Ok(());
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
            say(&format!("paging out {}, the coldest first", Bytes(over)));
            why = self
                .page_out(over)
                .inspect_err(|_| say("the limit is as it was"))?;
            pause(stop, WRITTEN);
            let now = self.charged()?.stays;
            let is_in_vain = now + over / 16 >= before;
            in_vain = if is_in_vain { in_vain + 1 } else { 0 };
            before = now;
        }
        let stays = self.charged()?.stays;
        if excess(stays, size).is_none() {
            return Ok(());
        }
        let hint = match why.is_empty() {
            true => "what is locked, in use or of the kernel stays; give a larger size".to_owned(),
            false => format!("{why}; give a larger size"),
        };
        Err(Failure::new(
            format!(
                "cannot make room in {}: {} stay, too much for {}; the limit is as it was ({})",
                self.group.path.display(),
                Bytes(stays),
                self.args.memory_max,
                limit_text(self.limit.former())
            ),
            hint,
        ))
    }

    /// What stayed, in words.
    fn page_out(&self, bytes: u64) -> Result<String, Failure> {
        let file = self.group.dir.join("memory.reclaim");
        if file.exists() {
            // The kernel ends with EAGAIN if less could leave: what is charged says how much did.
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
        let whose = Whose {
            pid: None,
            cgroup: Some(self.group.dir.clone()),
        };
        let (done, _) = page_out(&whose, Ask::Bytes(bytes))?;
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
        let stat = read("memory.stat").map_err(|_| "the control group is gone".to_owned())?;
        let events = read("memory.events").or_else(|_| read("memory.oom_control"));
        Ok(Counters::of(
            pressure,
            &stat,
            &events.unwrap_or_default(),
            price,
        ))
    }

    /// What it cost, in words, or why the limit cannot stay.
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

/// What counts against a limit, bytes.
struct Charged {
    all: u64,
    /// Without what the kernel drops as the limit is set.
    stays: u64,
}

/// A limit that is being tried; in `Drop` the former one is back.
struct Lowered<'a> {
    limit: &'a Limit,
    is_kept: bool,
}

impl<'a> Lowered<'a> {
    fn set(limit: &'a Limit, bytes: u64) -> Result<Lowered<'a>, Failure> {
        // Before it is set: systemd may have set it and fail afterwards.
        let lowered = Lowered {
            limit,
            is_kept: false,
        };
        limit.set(Some(bytes))?;
        Ok(lowered)
    }

    fn keep(mut self) {
        self.is_kept = true;
    }

    fn back(mut self, why: &str) -> Failure {
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
