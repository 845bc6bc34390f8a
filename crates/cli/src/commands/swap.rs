//! `pagetide swap`.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use daemon::control::managers;
use host::swap::{Area, Made, Removed, Swap, SwapError};
use host::system::Proc;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::demo;
use crate::args::{SwapOff, SwapOn, SwapVerb};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::{swap as view, text::json_lines};

pub(super) fn swap(verb: &SwapVerb) -> Result<u8, Failure> {
    match verb {
        SwapVerb::Status { json } => {
            let status = Swap::system().status()?;
            show(*json, &status, || view::status(&status, Style::of_stdout()))
        }
        SwapVerb::On(args) => on(args),
        SwapVerb::Recompress { older_than, json } => {
            let age = Duration::from_millis(older_than.0);
            let bar = progress_bar();
            let mut shown = |done, all| {
                bar.set_length(all);
                bar.set_position(done);
                true
            };
            let done = Swap::system().recompress(age, &mut shown);
            bar.finish_and_clear();
            let done = done?;
            show(*json, &done, || {
                view::recompressed(&done, Style::of_stdout())
            })
        }
        SwapVerb::Off(args) => {
            let removed = off(args)?;
            show(args.json, &removed, || {
                view::removed(&removed, Style::of_stdout())
            })
        }
    }
}

/// Removes the swap that `swap on` made or, if there is none, the swap of a demo that was killed.
fn off(args: &SwapOff) -> Result<Removed, SwapError> {
    let swap = area(args.name.as_deref());
    let done = match (args.force, &args.name) {
        (true, _) => swap.force_off(),
        (false, Some(_)) => swap.off(),
        // Managers swap out to whatever swap there is, so they need the shared area.
        (false, None) => swap.off_unless(&managers()),
    };
    match args.name {
        Some(_) => done,
        None => or_left(done, demo::remove_stale_swap),
    }
}

/// Returns the area of this name, or the shared one.
fn area(name: Option<&str>) -> Swap {
    // The command line accepts no other names.
    let named = name.and_then(Swap::named);
    named.unwrap_or_else(Swap::system)
}

/// Returns `done`; but if there was no swap to remove, calls `left`, which removes a demo's swap.
fn or_left(
    done: Result<Removed, SwapError>,
    left: impl FnOnce() -> Option<Result<Removed, SwapError>>,
) -> Result<Removed, SwapError> {
    match done {
        Err(nothing @ SwapError::NothingOn { .. }) => left().unwrap_or(Err(nothing)),
        done => done,
    }
}

fn on(args: &SwapOn) -> Result<u8, Failure> {
    let memory = Proc::system().and_then(|proc| proc.memory());
    let memory = memory.map_err(SwapError::from)?.total;
    let made = area(args.name.as_deref()).on(&args.request(memory))?;
    let areas = Swap::system().status().map(|status| status.areas);
    let mut others = areas.unwrap_or_default();
    others.retain(|area| area.path != made.path);
    let on = On { made, others };
    show(args.json, &on, || {
        view::made(&on.made, &on.others, Style::of_stdout())
    })
}

/// The output of `swap on`: the area, and the other areas that are on.
#[derive(Serialize)]
struct On {
    #[serde(flatten)]
    made: Made,
    others: Vec<Area>,
}

/// Returns a progress bar, visible on a terminal only: swapping in a gibibyte takes some seconds.
fn progress_bar() -> ProgressBar {
    let place = match io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let style = ProgressStyle::with_template("compressing {wide_bar} {elapsed} (left: {eta})");
    ProgressBar::with_draw_target(None, place)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Prints a result as JSON or as text.
fn show<T: Serialize>(json: bool, value: &T, text: impl FnOnce() -> String) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    match json {
        true => writeln!(out, "{}", json_lines(value))?,
        false => write!(out, "{}", text())?,
    }
    Ok(0)
}

impl From<SwapError> for Failure {
    fn from(error: SwapError) -> Failure {
        daemon::Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use host::system::swap::SwapKind;

    fn removed(path: &str) -> Removed {
        Removed {
            path: PathBuf::from(path),
            kind: SwapKind::Zram,
            size_bytes: 1 << 20,
            brought_back_bytes: 0,
            was_on: true,
        }
    }

    fn nothing() -> Result<Removed, SwapError> {
        Err(SwapError::NothingOn { why: String::new() })
    }

    /// Regression: a demo's leftover swap was removed first, before it was known what became of
    /// ours, and a failure to remove it was not reported.
    #[test]
    fn a_demos_swap_is_removed_only_if_there_is_no_other() {
        let ours = or_left(Ok(removed("/dev/zram0")), || panic!("it is not ours"));
        assert_eq!(ours.expect("ours").path, PathBuf::from("/dev/zram0"));
        let left = or_left(nothing(), || Some(Ok(removed("/dev/zram1"))));
        assert_eq!(left.expect("left").path, PathBuf::from("/dev/zram1"));
        let refused = || {
            let path = PathBuf::from("/dev/zram1");
            Some(Err(SwapError::NotOurs {
                path,
                why: "why".to_owned(),
            }))
        };
        let reported = or_left(nothing(), refused).expect_err("it stays");
        assert!(matches!(reported, SwapError::NotOurs { .. }), "{reported}");
        let reported = or_left(nothing(), || None).expect_err("nothing");
        assert!(
            matches!(reported, SwapError::NothingOn { .. }),
            "{reported}"
        );
    }
}
