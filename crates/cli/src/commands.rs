//! One module a group of commands; each ends with the exit code.

use crate::args::Command;
use crate::demo;
use crate::failure::Failure;

mod doctor;
mod front;
mod inspect;
mod live;
mod mrc;
mod run;
mod shell;

pub(crate) use live::Live;

/// Does what was asked for.
///
/// # Errors
/// What is to be told.
pub(crate) fn perform(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Demo { json } => demo::demo(json),
        Command::Run {
            knobs,
            report,
            command,
        } => run::run(&knobs, report.as_deref(), &command),
        Command::Attach { knobs, front } => front::attach(&knobs, &front),
        Command::Adopt { knobs, front } => front::adopt(&knobs, &front),
        Command::Detach { target } => inspect::detach(target.pid),
        Command::Report {
            target,
            watch,
            json,
            csv,
        } => {
            let form = match (json, csv) {
                (true, _) => inspect::Form::Json,
                (_, true) => inspect::Form::Csv,
                _ => inspect::Form::Human,
            };
            inspect::report(target.pid, watch, form)
        }
        Command::Stat { target, json } => inspect::stat(target.pid, json),
        Command::Reclaim { target, size, json } => inspect::reclaim(target.pid, size, json),
        Command::Mrc(args) => mrc::mrc(&args),
        Command::Doctor { json } => doctor::doctor(json),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { page } => shell::man(page.as_deref()),
    }
}
