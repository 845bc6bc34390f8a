//! `pagetide swap`.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use host::swap::{Removed, Swap, SwapError};
use host::system::Proc;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::demo;
use crate::args::{SwapOn, SwapVerb};
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
        SwapVerb::Off { json } => {
            let removed = off()?;
            show(*json, &removed, || {
                view::removed(&removed, Style::of_stdout())
            })
        }
    }
}

/// What `swap on` made; or, where there is nothing of that, what a demo left that was killed.
fn off() -> Result<Removed, SwapError> {
    or_left(Swap::system().off(), demo::left_behind)
}

/// What was done, or where there was nothing to do what becomes of what is `left`, if anything is.
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
    let made = Swap::system().on(&args.request(memory))?;
    show(args.json, &made, || view::made(&made, Style::of_stdout()))
}

/// On a terminal: a gibibyte takes some seconds.
fn progress_bar() -> ProgressBar {
    let place = match io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let style = ProgressStyle::with_template("compressing {wide_bar} {elapsed} (left: {eta})");
    ProgressBar::with_draw_target(None, place)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

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

    /// What a demo had left went first, whatever became of ours, and what kept it from going was not told.
    #[test]
    fn what_is_left_goes_where_there_is_nothing_of_ours_alone() {
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
        let told = or_left(nothing(), refused).expect_err("it stays");
        assert!(matches!(told, SwapError::NotOurs { .. }), "{told}");
        let told = or_left(nothing(), || None).expect_err("nothing");
        assert!(matches!(told, SwapError::NothingOn { .. }), "{told}");
    }
}
