//! `pagetide attach` and `pagetide adopt`: they stay in front until the process ends, a time has
//! passed, or ^C.
//!
//! Invariant: ^C and SIGTERM detach, in order; a second one ends pagetide at once, which the target
//! survives (its keeper serves on, `adopt` takes over).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pager::manage::Tick;
use pager::options::Options;
use pager::report::Report;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::{Front, Knobs};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view;

use super::Live;

pub(super) fn attach(knobs: &Knobs, front: &Front) -> Result<u8, Failure> {
    let options = knobs.options()?;
    let pid = front.target.pid;
    stay(front, "attached to", |tick| {
        pager::manage::attach(pid, &options, tick)
    })
}

pub(super) fn adopt(knobs: &Knobs, front: &Front) -> Result<u8, Failure> {
    let options: Options = knobs.options()?;
    let pid = front.target.pid;
    stay(front, "adopted", |tick| {
        pager::manage::adopt(pid, &options, tick)
    })
}

type Ticks<'a> = &'a mut dyn FnMut(&Report) -> Tick;

/// Runs `manage` with a tick that shows progress and knows when to detach.
fn stay(
    front: &Front,
    verb: &str,
    manage: impl FnOnce(Ticks<'_>) -> Result<Report, pager::Error>,
) -> Result<u8, Failure> {
    let stop = stop_flag()?;
    let style = Style::of_stdout();
    let end = front
        .detach_after
        .map(|after| Instant::now() + Duration::from_millis(after.0));
    let mut live = (!front.json).then(|| Live::new(style, Duration::from_secs(10)));
    let mut greeted = false;
    let mut tick = |report: &Report| {
        if let Some(live) = &mut live {
            if !greeted {
                greeted = true;
                live.say(&format!(
                    "{verb} pid {} ({}); ^C detaches",
                    report.pid,
                    view::cut(&report.command.join(" "), 60, style.unicode)
                ));
            }
            live.update(&view::status(report, style));
        }
        let late = end.is_some_and(|end| Instant::now() >= end);
        if late || stop.load(Ordering::Relaxed) {
            return Tick::Detach;
        }
        Tick::Continue
    };
    let report = manage(&mut tick)?;
    if let Some(live) = live {
        live.close();
    }
    let mut out = std::io::stdout().lock();
    super::inspect::print(&mut out, &report, front.json, style)?;
    Ok(0)
}

/// Set by the first SIGINT, SIGTERM or SIGHUP; the second one ends the process.
fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let armed = Arc::clone(&flag);
        signal_hook::flag::register_conditional_shutdown(signal, 1, armed)
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .map_err(|error| {
                let what = format!("cannot handle signal {signal}: {error}");
                Failure::new(what, "this should not happen; please report it")
            })?;
    }
    Ok(flag)
}
