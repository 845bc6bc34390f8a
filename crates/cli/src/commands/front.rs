//! `pagetide attach` and `pagetide adopt`: they stay in front until the process ends, a time has
//! passed, or ^C.
//!
//! Invariant: ^C and SIGTERM detach, in order; a second one ends pagetide at once, which the target
//! survives (its keeper serves on, `adopt` takes over).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pager::manage::Tick;
use pager::options::Options;
use pager::report::Report;

use crate::args::{Front, Knobs};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view;

use super::Live;
use super::stop::stop_flag;

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
