//! Reclaim and bring-back of a target that nobody manages: a manager for that alone.
//!
//! Invariant: nothing is left running; a reclaim by age watches for at least that long first, because an
//! age is never longer than one watched, and not while another pagetide clears the bits.

use std::time::{Duration, Instant};

use host::manage::Manager;

use crate::control::{Ask, ControlServer, Done, Response};
use crate::error::Error;
use crate::options::{Millis, Options};
use crate::preflight::{self, Chosen};
use crate::serve::once;

/// Who asks meanwhile waits for so long.
const ANSWERED_WITHIN: Duration = Duration::from_millis(250);
/// What is watched before the coldest pages are asked for: two looks of this distance.
const GLANCE: Duration = Duration::from_secs(1);
/// `serve` lets go of a process that has a manager at its next look, and looks each 10 s unless told otherwise, or later where that
/// costs much.
const LETS_GO: Duration = Duration::from_secs(30);

/// Puts pages of an unmanaged target out. `tell` is given a line for people before anything that takes long.
///
/// # Errors
/// It cannot be managed, there is no swap, nothing tells which pages are in use, somebody manages it, or nobody here can know its
/// ages.
pub fn alone(chosen: Chosen, what: Ask, tell: &mut dyn FnMut(&str)) -> Result<Done, Error> {
    preflight::swap(&Options::default(), Some(&chosen))?;
    preflight::right(&Options::default())?;
    let (mut name, _) = ControlServer::bind(&chosen.tenant)?;
    let (interval, time) = match what {
        Ask::Bytes(_) => (GLANCE, GLANCE),
        Ask::OlderThan(age) => {
            let interval = (age / 5).clamp(Duration::from_millis(100), Duration::from_secs(10));
            (interval, age + interval)
        }
        // Who is parked takes no page faults, and may be held up for longer by a rare look.
        Ask::All => (Duration::from_secs(10), Duration::ZERO),
    };
    let tenant = chosen.tenant.to_string();
    let mut manager = Manager::start(once(chosen, interval), None)?;
    if let Err(error) = preflight::source(manager.report().age_source) {
        drop(manager.end());
        return Err(error);
    }
    claim(&mut manager, &mut name, &tenant, tell)?;
    if time > GLANCE {
        let time = Millis(Millis::from(time).0);
        tell(&format!(
            "nobody watched {tenant} until now: watching it for {time}"
        ));
    }
    watch(&mut manager, &mut name, time)?;
    let reclaimed = manager.reclaim(what);
    drop(manager.end());
    Ok(Done::from(reclaimed?))
}

/// Waits until no other pagetide clears the target's accessed bits. (The story: beside a `serve` that looks at the whole host, "put
/// out 0 B, stayed: all, accessed meanwhile" was told of a program that slept: `serve` lets go when it looks next, and this had
/// ended by then.)
fn claim(
    manager: &mut Manager,
    name: &mut ControlServer,
    tenant: &str,
    tell: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let end = Instant::now() + LETS_GO;
    if manager.is_contested() {
        let most = Millis(Millis::from(LETS_GO).0);
        tell(&format!(
            "another pagetide looks at {tenant}: waiting until it lets go, for {most} at most"
        ));
    }
    while manager.is_contested() && !manager.finished() {
        if Instant::now() >= end {
            return Err(Error::failed(
                format!(
                    "cannot reclaim from {tenant}: another pagetide looks at it, and of two neither knows an age"
                ),
                "end the `report` or `top` that does, or ask a `serve` for its tenant: pagetide reclaim /PATH",
            ));
        }
        watch(manager, name, GLANCE)?;
        manager.look()?;
    }
    Ok(())
}

/// Reads back in what is out of an unmanaged target; pages that were asked for.
///
/// # Errors
/// It cannot be managed, or somebody manages it.
pub fn bring_back(chosen: Chosen) -> Result<u64, Error> {
    preflight::right(&Options::default())?;
    let (mut name, _) = ControlServer::bind(&chosen.tenant)?;
    let mut manager = Manager::start(once(chosen, GLANCE), None)?;
    watch(&mut manager, &mut name, Duration::ZERO)?;
    let pages = manager.bring_back();
    drop(manager.end());
    Ok(pages?)
}

/// Looks for `time`, and once at least. Whoever asks meanwhile is answered: it may take hours.
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
                "cannot ask who manages it: a `pagetide reclaim` watches it before it reclaims";
            Response::Error(Error::failed(what, "wait for that, or end it"))
        });
        let pause = next.min(left).min(ANSWERED_WITHIN);
        std::thread::sleep(pause.max(Duration::from_millis(1)));
    }
}
