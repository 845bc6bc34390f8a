//! One module for each group of commands; each command returns its exit code.

use crate::args::Command;
use crate::failure::Failure;

mod doctor;
mod live;
mod manual;
mod page;
mod requests;
pub(crate) mod scans;
mod screen;
mod shell;
mod stop;
mod users;

mod attach;
pub(crate) mod demo;
mod gate;
#[cfg(feature = "simulator")]
pub(crate) mod mrc;
mod reclaim;
pub(crate) mod report;
mod serve;
mod tenant_rows;

#[cfg(feature = "dashboard")]
mod browse;
mod recommend;
mod resize;
mod run;
#[cfg(feature = "simulator")]
pub(crate) mod sim;
mod swap;

mod top;

/// Runs the command and returns its exit code.
///
/// # Errors
/// The failure to print on standard error.
pub(crate) fn perform(command: Command) -> Result<u8, Failure> {
    if let Command::Sim(_) | Command::Mrc(_) | Command::Completions { .. } | Command::Man(_) =
        command
    {
        // These commands do not read the memory of processes; they only read and write files that
        // the user names.
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
        } => requests::detach(&whose, bring_back, json),
        Command::Report(args) => report::report(&args),
        Command::Recommend(args) => recommend::recommend(&args),
        Command::Resize(args) => resize::resize(&args),
        Command::Top(args) => top::top(&args),
        Command::Stat {
            reported,
            tree,
            all,
            json,
        } => match all {
            true => requests::stats(&reported, &tree, json),
            false => requests::stat(&reported, &tree, json),
        },
        Command::Reclaim(args) => reclaim::reclaim(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Swap { verb } => swap::swap(&verb),
        #[cfg(feature = "simulator")]
        Command::Sim(args) => sim::sim(&args),
        #[cfg(feature = "simulator")]
        Command::Mrc(args) => mrc::mrc(&args),
        #[cfg(not(feature = "simulator"))]
        Command::Sim(args) => Err(args.failure("sim")),
        #[cfg(not(feature = "simulator"))]
        Command::Mrc(args) => Err(args.failure("mrc")),
        Command::Doctor { json } => doctor::doctor(json),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man(args) => manual::man(&args),
    }
}
