//! Reclaim or bring-back for a target that has no manager: a manager is made for that one request.
//!
//! Invariant: nothing keeps running afterwards. A reclaim by age first scans for at least that age,
//! because no age is known to be longer than the scans have lasted. It does not scan while another
//! pagetide clears the target's accessed bits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use host::manage::Manager;

use crate::control::{Ask, ControlServer, Done, Response};
use crate::error::Error;
use crate::options::{Millis, Options};
use crate::preflight::{self, Chosen};
use crate::serve::once;

/// Longest time between two polls of the control socket while the target is scanned, and so until a
/// request gets its response.
const POLL_EVERY: Duration = Duration::from_millis(250);
/// Shortest time to scan before the coldest pages are reclaimed: two scans are this time apart.
pub const WATCH_MIN: Duration = Duration::from_secs(1);
/// Longest wait for another pagetide to stop scanning the target. `serve` stops for a process with
/// its own manager at the next scan: by default within 10 s, later if scans are costly.
const RELEASE_MAX: Duration = Duration::from_secs(30);

/// How long to scan before the coldest pages are reclaimed, and a flag that stops that; if it is
/// set, nothing is paged out.
#[derive(Clone, Copy, Debug)]
pub struct WatchBeforeReclaim<'a> {
    /// How long to scan, at least [`WATCH_MIN`].
    pub time: Duration,
    /// The caller sets it to stop scanning.
    pub stop: &'a AtomicBool,
}

/// Reclaims memory of a target that has no manager. `what` says how much memory, `observation` for
/// how long to scan beforehand. Calls `tell` with a line of text for the user before each wait.
///
/// # Errors
/// The target cannot be managed or has a manager, there is no swap, CAP_SYS_NICE is missing, no
/// source of ages works, or another pagetide does not stop scanning the target.
pub fn alone(
    chosen: Chosen,
    (what, observation): (Ask, WatchBeforeReclaim),
    tell: &mut dyn FnMut(&str),
) -> Result<Done, Error> {
    preflight::swap(&Options::default(), Some(&chosen))?;
    preflight::right(&Options::default())?;
    let (mut name, _) = ControlServer::bind(&chosen.tenant)?;
    let (interval, time) = match what {
        Ask::Bytes(_) => (WATCH_MIN, observation.time.max(WATCH_MIN)),
        Ask::OlderThan(age) => {
            let interval = (age / 5).clamp(Duration::from_millis(100), Duration::from_secs(10));
            (interval, age + interval)
        }
        // One scan only: it may lock the memory for long, since a parked program takes no page
        // faults.
        Ask::All => (Duration::from_secs(10), Duration::ZERO),
    };
    let tenant = chosen.tenant.to_string();
    let mut manager = Manager::start(once(chosen, interval), None)?;
    if let Err(error) = preflight::source(manager.report().age_source) {
        drop(manager.end());
        return Err(error);
    }
    claim(&mut manager, &mut name, &tenant, tell)?;
    if time > WATCH_MIN {
        let time = Millis(Millis::from(time).0);
        tell(&format!(
            "{tenant} was not watched until now: watching it for {time}"
        ));
    }
    let end = Instant::now() + time;
    while Instant::now() < end && !observation.stop.load(Ordering::Relaxed) && !manager.finished() {
        let left = end.saturating_duration_since(Instant::now());
        watch(&mut manager, &mut name, left.min(WATCH_MIN))?;
    }
    if observation.stop.load(Ordering::Relaxed) {
        drop(manager.end());
        return Ok(Done::default());
    }
    let reclaimed = manager.reclaim(what);
    drop(manager.end());
    Ok(Done::from(reclaimed?))
}

/// Waits until no other pagetide clears the target's accessed bits: a `serve` that scans the whole
/// host stops only at its next scan, and until then every page looks accessed.
fn claim(
    manager: &mut Manager,
    name: &mut ControlServer,
    tenant: &str,
    tell: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let end = Instant::now() + RELEASE_MAX;
    if manager.is_contested() {
        let most = Millis(Millis::from(RELEASE_MAX).0);
        tell(&format!(
            "another pagetide scans {tenant}: waiting until it stops, for {most} at most"
        ));
    }
    while manager.is_contested() && !manager.finished() {
        if Instant::now() >= end {
            return Err(Error::failed(
                format!(
                    "cannot reclaim from {tenant}: another pagetide scans it too, so neither knows ages"
                ),
                "end the `report` or `top` that scans it, or reclaim from its tenant of `serve`: pagetide reclaim /PATH",
            ));
        }
        watch(manager, name, WATCH_MIN)?;
        manager.scan()?;
    }
    Ok(())
}

/// Reads swapped-out pages of a target that has no manager back in. Returns the number of pages
/// that the kernel was requested to read.
///
/// # Errors
/// The target cannot be managed, or has a manager.
pub fn bring_back(chosen: Chosen) -> Result<u64, Error> {
    preflight::right(&Options::default())?;
    let (mut name, _) = ControlServer::bind(&chosen.tenant)?;
    let mut manager = Manager::start(once(chosen, WATCH_MIN), None)?;
    watch(&mut manager, &mut name, Duration::ZERO)?;
    let pages = manager.bring_back();
    drop(manager.end());
    Ok(pages?)
}

/// Scans for `time`, at least once. Serves requests meanwhile, because `time` may be hours.
fn watch(manager: &mut Manager, name: &mut ControlServer, time: Duration) -> Result<(), Error> {
    let end = Instant::now() + time;
    loop {
        let next = manager.work()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || manager.finished() {
            return Ok(());
        }
        name.poll(&mut |_| {
            let what =
                "cannot serve requests yet: a `pagetide reclaim` watches it before it reclaims";
            Response::Error(Error::failed(what, "wait for that, or end it"))
        });
        let pause = next.min(left).min(POLL_EVERY);
        std::thread::sleep(pause.max(Duration::from_millis(1)));
    }
}
