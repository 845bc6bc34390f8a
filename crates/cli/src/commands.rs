//! One module for each group of commands; each command returns its exit code.

use crate::args::Command;
use crate::failure::Failure;

mod attach;
#[cfg(feature = "dashboard")]
mod browse;
pub(crate) mod demo;
mod doctor;
mod gate;
mod live;
mod manual;
#[cfg(feature = "simulator")]
pub(crate) mod mrc;
mod page;
mod reclaim;
mod recommend;
pub(crate) mod report;
mod requests;
mod resize;
mod run;
pub(crate) mod scans;
mod screen;
mod serve;
mod shell;
#[cfg(feature = "simulator")]
pub(crate) mod sim;
mod stop;
mod swap;
mod tenant_rows;
mod top;
mod users;

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
