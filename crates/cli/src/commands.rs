//! One module a group of commands; each ends with the exit code.

use crate::args::Command;
use crate::failure::Failure;

mod ask;
mod attach;
mod browse;
pub(crate) mod demo;
mod doctor;
mod gate;
mod live;
pub(crate) mod looks;
mod manual;
pub(crate) mod mrc;
mod page;
mod reclaim;
mod recommend;
pub(crate) mod report;
mod resize;
mod run;
mod screen;
mod serve;
mod shell;
pub(crate) mod sim;
mod stop;
mod swap;
mod tenant_rows;
mod top;
mod users;

/// Does what was asked for.
///
/// # Errors
/// What is to be told.
pub(crate) fn perform(command: Command) -> Result<u8, Failure> {
    if let Command::Sim(_) | Command::Mrc(_) | Command::Completions { .. } | Command::Man(_) =
        command
    {
        // They look at no process, and read and write what the user names.
        daemon::rights::drop_capabilities_of_file()?;
    }
    match command {
        Command::Demo { json } => demo::demo(json),
        Command::Run(args) => run::run(&args),
        Command::Attach(args) => attach::attach(&args),
        Command::Detach {
            whose,
            bring_back,
            json,
        } => ask::detach(&whose, bring_back, json),
        Command::Report(args) => report::report(&args),
        Command::Recommend(args) => recommend::recommend(&args),
        Command::Resize(args) => resize::resize(&args),
        Command::Top(args) => top::top(&args),
        Command::Stat {
            told,
            tree,
            all,
            json,
        } => match all {
            true => ask::stats(&told, &tree, json),
            false => ask::stat(&told, &tree, json),
        },
        Command::Reclaim(args) => reclaim::reclaim(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Swap { verb } => swap::swap(&verb),
        Command::Sim(sim) => sim::sim(&sim),
        Command::Mrc(args) => mrc::mrc(&args),
        Command::Doctor { json } => doctor::doctor(json),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man(args) => manual::man(&args),
    }
}
