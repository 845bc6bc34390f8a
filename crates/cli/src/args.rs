//! The command line, as `docs/interfaces.md` specifies it. Help, completions and the manual page
//! are made from this definition alone.
//!
//! Invariant: a command line that parses is valid. Values are checked while they are parsed, and
//! combinations of options right after that ([`knobs`]). All errors have the same form.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use daemon::options::{UnitError, millis};

use crate::failure::Failure;

mod examples;
mod knobs;
mod manage;
#[cfg(feature = "simulator")]
mod mrc;
#[cfg(not(feature = "simulator"))]
mod not_built;
#[cfg(feature = "simulator")]
mod sim;

mod report;
mod serve;
mod swap;

mod recommend;
mod resize;
mod top;

pub(crate) use knobs::ManageArgs;
pub(crate) use manage::{
    Annotation, Attach, Figure, Gate, ProcessOrTenant, Reclaim, Run, TargetArg, TargetArgs, Tree,
};
#[cfg(feature = "simulator")]
pub(crate) use mrc::Mrc;
#[cfg(not(feature = "simulator"))]
pub(crate) use not_built::{NotBuilt as Mrc, NotBuilt as Sim};
pub(crate) use recommend::Recommend;
pub(crate) use report::{Form, Plan, Report};
pub(crate) use resize::Resize;
pub(crate) use serve::{Global, Serve};
#[cfg(feature = "simulator")]
pub(crate) use sim::Sim;
pub(crate) use swap::{Off as SwapOff, On as SwapOn, Swap as SwapVerb};
pub(crate) use top::Top;

/// See how much memory programs really need, and run them in less: hot pages stay, cold pages go to
/// swap.
#[derive(Parser, Debug)]
#[command(name = "pagetide", version, after_help = examples::TOP)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
// Of several equal options the last one applies, as in most programs: a wrapper passes a site's
// option, and the caller of the wrapper appends another.
#[command(args_override_self = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// See it work: pages out a program's cold memory, and nothing is lost; takes half a minute
    ///
    /// Runs a program of its own twice, in 160 MiB each: alone, and managed. Uses zram of its own
    /// as swap, and removes it at the end. Changes nothing else. Ends with 1 if a claim does not
    /// hold, and with 3 if this host or this user cannot show it; root can on most hosts.
    #[command(after_help = examples::DEMO)]
    Demo {
        /// Print all figures as JSON, and nothing else
        #[arg(long)]
        json: bool,
    },
    /// Start a program under management
    ///
    /// pagetide becomes the program: same pid, parent, terminal, signals and exit status. The
    /// manager is a process beside it. All descendants are managed too. If the manager is killed,
    /// the program runs on. If this host lacks what is needed, pagetide says so before the program
    /// starts (exit code 3).
    #[command(after_help = examples::RUN)]
    Run(Run),
    /// Manage a process that already runs
    ///
    /// Stays in the foreground until the process ends or ^C is typed. The process then continues
    /// unchanged: swapped-out memory stays in the kernel's swap, and is swapped in when the process
    /// accesses it.
    #[command(after_help = examples::ATTACH)]
    Attach(Attach),
    /// Stop managing a process: its manager ends
    #[command(after_help = examples::DETACH)]
    Detach {
        #[command(flatten)]
        whose: TargetArgs,
        /// Swap in all swapped-out memory; works also for a process without a manager
        #[arg(long)]
        bring_back: bool,
        /// Print for how many pages swap-in was requested, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show how much memory processes really need: memory by page age, without managing them
    ///
    /// Watches a process with its descendants, a control group, or all processes. Shows how much of
    /// the memory was in use, and how much was not accessed for how long. Reads page tables and
    /// changes nothing but accessed bits; needs no swap. An age is at most as long as the time
    /// watched.
    #[command(after_help = examples::REPORT)]
    Report(Report),
    /// Say how much memory programs need, and what to set as their limits
    ///
    /// Watches a process, a unit, a container, a pod, or the whole host. Prints a table: memory in
    /// use, memory needed, memory that could be paged out, what that would cost, how certain the
    /// numbers are, and the limits to set. Only reads. docs/howto/sizing.md explains the number.
    #[command(after_help = examples::RECOMMEND)]
    Recommend(Recommend),
    /// Lower the memory limit of running processes: page out first, and restore the limit if it
    /// costs too much
    ///
    /// Pages out the coldest memory until the remaining memory fits, then sets the limit (of a
    /// systemd unit as its property, otherwise in the control group's file), and watches. If the
    /// group then waits for memory longer than --cost allows, or on ^C, the former limit is
    /// restored, and the exit code is 1. For a container of a Kubernetes pod, prints the command
    /// that sets the limit, and changes nothing.
    #[command(after_help = examples::RESIZE)]
    Resize(Resize),
    /// Show a live table of all processes or control groups: resident, swapped, cold by age
    ///
    /// Ages grow while it runs; `-` is an age that is not known yet. ^C ends it.
    ///
    /// On a terminal, keys work: up, down (or k, j), Home and End select a row, Enter (or l)
    /// descends into a group, Backspace (or h) ascends, s sorts by the next column, / filters by
    /// name, r pages out what the selected tenant did not use for 10 s (after a question; y
    /// confirms), q ends it. With --for, --once, --json or --rows, and in a pipe, it prints a plain
    /// table.
    #[command(after_help = examples::TOP_TABLE)]
    Top(Top),
    /// Show counters under the names of cgroup v2's memory.stat
    #[command(after_help = examples::STAT)]
    Stat {
        #[command(flatten)]
        reported: TargetArg,
        #[command(flatten)]
        tree: Tree,
        /// One line for the tenant and one for each tenant below it
        #[arg(long)]
        all: bool,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Page out memory of a process now, its coldest first
    ///
    /// Sends the request to the manager of the process. Without a manager, scans, reclaims and
    /// ends. Ends with 1 if less than requested could be paged out.
    #[command(after_help = examples::RECLAIM)]
    Reclaim(Reclaim),
    /// Manage many tenants at once: groups of processes that share a host's memory by the memcg LRU
    ///
    /// Stays in the foreground until ^C. Then tenants, their processes and limits stay as they are,
    /// and the next `serve` takes them over. With --mount, `mkdir DIR/a` makes a tenant,
    /// `echo PID > DIR/a/cgroup.procs` moves a process into it, `echo 256M > DIR/memory.reclaim`
    /// reclaims cold memory of all tenants.
    #[command(after_help = examples::SERVE)]
    Serve(Serve),
    /// Show, make and remove the swap that cold memory goes to
    #[command(after_help = examples::SWAP)]
    Swap {
        /// What to do
        #[command(subcommand)]
        verb: SwapVerb,
    },
    /// Run an experiment on simulated memory: one of the built-in ones, or one from a TOML file
    ///
    /// The same engine as for real programs decides, unchanged. The same seed produces the same
    /// results, byte for byte; figures that depend on this machine are printed to standard error.
    /// Ends with 1 if a claim does not hold.
    #[command(after_help = examples::SIM, hide = cfg!(not(feature = "simulator")))]
    Sim(Sim),
    /// Show what share of a trace's references would miss, by memory size
    ///
    /// Exact for LRU at all sizes in one pass; other policies are simulated at each size.
    /// docs/formats.md describes the formats of traces.
    #[command(after_help = examples::MRC, hide = cfg!(not(feature = "simulator")))]
    Mrc(Mrc),
    /// Say what this kernel and user can do, and how to get what is missing
    ///
    /// Ends with 3 if accessed pages cannot be found here, if there is no swap, or if there is no
    /// right to use it; the last line says which commands work.
    #[command(after_help = examples::DOCTOR)]
    Doctor {
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print completions for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, of pagetide or of one command
    #[command(after_help = examples::MAN)]
    Man(Man),
}

/// Which pages of the manual to print, and where to write them.
#[derive(clap::Args, Debug)]
pub(crate) struct Man {
    /// Which command, e.g. `run` or `swap on`
    #[arg(value_name = "COMMAND")]
    pub(crate) page: Vec<String>,
    /// Write the pages of all commands to this directory instead
    #[arg(long, value_name = "DIR", conflicts_with_all = ["page", "markdown"])]
    pub(crate) to: Option<PathBuf>,
    /// Print all commands as one page of Markdown instead
    #[arg(long, conflicts_with = "page")]
    pub(crate) markdown: bool,
}

fn pid(text: &str) -> Result<u32, UnitError> {
    pid_or(
        text,
        "give the number that `pgrep -o NAME` or `ps -e` shows",
    )
}

/// Parses a process id. The error for any other word has the hint `hint`; for a time,
/// [`TIME_HINT`].
fn pid_or(text: &str, hint: &'static str) -> Result<u32, UnitError> {
    text.parse().map_err(|_| UnitError {
        why: format!("`{text}` is no process id"),
        hint: if is_a_time(text) { TIME_HINT } else { hint },
    })
}

/// Hint for a time where a pid is expected.
const TIME_HINT: &str =
    "a time belongs to its option, after `=` for those that can stand alone: --watch=10s";

/// Returns whether a word is a time with its unit: for example `10s` in `report --watch 10s PID`,
/// which is no process id.
fn is_a_time(text: &str) -> bool {
    text.parse::<u64>().is_err() && millis(text).is_ok()
}

/// Returns the clap command, for completions and the manual page.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// Parses the process's arguments. Help and version are printed and end the process, with 0.
///
/// # Errors
/// Bad usage.
pub(crate) fn parse() -> Result<Command, Failure> {
    match Cli::try_parse() {
        Ok(cli) => Ok(cli.command),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
            _ => Err(failure_of(&error)),
        },
    }
}

/// Parses words that do not come from this process's own command line.
///
/// Words for which clap would print a text and end the process (such as `--help`) are an error
/// here.
///
/// # Errors
/// Bad usage.
pub(crate) fn parse_words(words: &[OsString]) -> Result<Command, Failure> {
    let program = OsString::from("pagetide");
    let parsed = Cli::try_parse_from(std::iter::once(&program).chain(words));
    parsed
        .map(|cli| cli.command)
        .map_err(|error| failure_of(&error))
}

/// Converts an error of clap into a [`Failure`].
fn failure_of(error: &clap::Error) -> Failure {
    let source = std::error::Error::source(error);
    if let Some(unit) = source.and_then(|source| source.downcast_ref::<UnitError>()) {
        let option = error.get(ContextKind::InvalidArg);
        let option = option.map(ToString::to_string).unwrap_or_default();
        let name = option.split(' ').next().unwrap_or_default();
        let what = format!("bad value for {name}: {}", unit.why);
        return Failure::usage(what, unit.hint);
    }
    // The text of clap without colours: "error: what\n\n  tip: do\n\nUsage: ...\n\nFor more
    // information...".
    let text = error.render().to_string();
    let (what, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
    let what = what.trim_start_matches("error: ").replace('\n', " ");
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let part = |start: &str| {
        let mut lines = rest.lines().map(str::trim);
        lines.find_map(|line| line.strip_prefix(start).map(|tail| tail.trim().to_owned()))
    };
    let usage = part("Usage:").map(|usage| format!("usage: {usage}"));
    let number = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    let hint = match error.kind() {
        ErrorKind::UnknownArgument
            if number.is_some_and(|word| word.parse::<u32>().is_ok())
                && usage.as_deref().is_some_and(|usage| usage.contains("PID")) =>
        {
            Some(format!(
                "one process at a time, with all of its descendants (several: --cgroup PATH); \
                 {TIME_HINT}"
            ))
        }
        ErrorKind::InvalidSubcommand => {
            // The usage line is like "usage: pagetide swap <COMMAND>".
            let words = usage
                .as_deref()
                .and_then(|usage| usage.strip_prefix("usage: "));
            let words = words.and_then(|usage| usage.split(['<', '[']).next());
            let words = words.unwrap_or("pagetide").trim();
            let list = format!("`{words} --help` lists all");
            // clap's tip is a similar name, which may mean something else (`swap remove`, `swap
            // recompress`). So the hint also says where all names are listed.
            let tip = part("tip:").map(|tip| format!("{tip}; {list}"));
            tip.or(Some(list))
        }
        _ => None,
    };
    let hint = hint
        .or_else(|| part("tip:"))
        .or(usage)
        .unwrap_or("`pagetide COMMAND --help` shows what it takes".to_owned());
    Failure::usage(what, hint)
}

#[cfg(test)]
mod tests;
