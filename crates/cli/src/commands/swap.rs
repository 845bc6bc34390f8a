//! `pagetide swap`.

use std::io::{self, Write};

use host::swap::{Removed, Swap, SwapError};
use host::system::Proc;
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
    let left = demo::left_behind();
    match (Swap::system().off(), left) {
        (Err(SwapError::NothingOn { .. }), Some(left)) => Ok(left),
        (done, _) => done,
    }
}

fn on(args: &SwapOn) -> Result<u8, Failure> {
    let memory = Proc::system().and_then(|proc| proc.memory());
    let memory = memory.map_err(SwapError::from)?.total;
    let made = Swap::system().on(&args.request(memory))?;
    show(args.json, &made, || view::made(&made, Style::of_stdout()))
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
