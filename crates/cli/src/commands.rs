//! One module a group of commands; each ends with the exit code.

use crate::args::Command;
use crate::demo;
use crate::failure::Failure;

mod doctor;
mod front;
mod inspect;
mod live;
mod looks;
mod mrc;
mod page;
mod report;
mod run;
mod screen;
mod shell;
mod sim;
mod stop;
mod swap;
mod top;
mod users;

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
            record,
            command,
        } => run::run(&knobs, (report.as_deref(), record.as_deref()), &command),
        Command::Attach { knobs, front } => front::attach(&knobs, &front),
        Command::Adopt { knobs, front } => front::adopt(&knobs, &front),
        Command::Detach { target } => inspect::detach(target.pid),
        Command::Report(args) => report::report(&args),
        Command::Top(args) => top::top(&args),
        Command::Stat { target, json } => inspect::stat(target.pid, json),
        Command::Reclaim { target, size, json } => inspect::reclaim(target.pid, size, json),
        Command::Swap { verb } => swap::swap(&verb),
        Command::Sim(sim) => sim::sim(&sim),
        Command::Mrc(args) => mrc::mrc(&args),
        Command::Doctor { json } => doctor::doctor(json),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { page } => shell::man(page.as_deref()),
    }
}
