//! The command line, as `interfaces.md` fixes it. Help, completions and the manual page come from
//! here and from nowhere else.
//!
//! Invariant: what parses is meant; values are checked while they are parsed, combinations right
//! after it ([`knobs`]), and every complaint has the form of all our complaints.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use daemon::options::{UnitError, millis};

use crate::failure::Failure;

mod examples;
mod knobs;
mod manage;
mod mrc;
mod recommend;
mod report;
mod resize;
mod serve;
mod swap;
mod top;

pub(crate) use knobs::Knobs;
pub(crate) use manage::{Annotation, Attach, Figure, Gate, Reclaim, Run, Told, Tree, Who, Whose};
pub(crate) use mrc::Mrc;
pub(crate) use recommend::Recommend;
pub(crate) use report::{Form, Plan, Report};
pub(crate) use resize::Resize;
pub(crate) use serve::{Global, Serve};
pub(crate) use swap::{On as SwapOn, Swap as SwapVerb};
pub(crate) use top::Top;

/// See how much memory programs really need, and run them in less: hot pages stay, cold pages go to swap.
#[derive(Parser, Debug)]
#[command(name = "pagetide", version, after_help = examples::TOP)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
// The last one holds, as in most programs: a wrapper gives the site's, and whoever calls it his own.
#[command(args_override_self = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// See it work: a program's cold memory found, taken back, and nothing lost, in half a minute
    ///
    /// Starts a program of its own twice, in 160 MiB each, alone and managed; with zram of its own as swap,
    /// which is removed again. Touches nothing else. Ends with 1 if a claim does not hold, and with 3
    /// where this host or this user cannot show it: root can on most.
    #[command(after_help = examples::DEMO)]
    Demo {
        /// Print all figures as JSON, and nothing else
        #[arg(long)]
        json: bool,
    },
    /// Start a program under management
    ///
    /// pagetide becomes the program: same pid, parent, terminal, signals and exit status. The manager is
    /// a process beside it. All descendants are managed too. If the manager is killed, the program runs
    /// on. What this host cannot give is said before the program starts (exit code 3).
    #[command(after_help = examples::RUN)]
    Run(Run),
    /// Manage a process that already runs
    ///
    /// Stays in front until the process ends or ^C is pressed. The process is left as it is: what is out
    /// stays in the kernel's swap and comes back as it is touched.
    #[command(after_help = examples::ATTACH)]
    Attach(Attach),
    /// Let go of a process: its manager ends
    #[command(after_help = examples::DETACH)]
    Detach {
        #[command(flatten)]
        whose: Whose,
        /// Read back in what is out; works also where nobody manages the process
        #[arg(long)]
        bring_back: bool,
        /// Print how many pages were asked back in, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what processes really need: memory by page age, without managing them
    ///
    /// Watches a process with its descendants, a control group, or everything, and says how much of
    /// the memory was in use and how much was not touched for how long. It reads page tables and
    /// changes nothing but accessed bits; no swap is needed. An age is at most as long as one watched.
    #[command(after_help = examples::REPORT)]
    Report(Report),
    /// Say how much memory programs need, and what to set as their limits
    ///
    /// Watches a process, a unit, a container, a pod, or all of the host, and answers with a table: what is in memory, what is needed, what
    /// could go, what that would cost, how sure it is, and the limits to set. Reads only. docs/howto/sizing.md says what the number is.
    #[command(after_help = examples::RECOMMEND)]
    Recommend(Recommend),
    /// Lower the memory limit of what runs: make room first, and go back if it costs too much
    ///
    /// Pages out the coldest memory until the rest fits, then sets the limit (of a systemd unit as its property, else in the
    /// control group's file), and watches. If the group then waits for memory longer than --cost allows, or on ^C, the limit is again what it
    /// was, and the exit code is 1. For a container of a Kubernetes pod it prints the command that does it, and changes nothing.
    #[command(after_help = examples::RESIZE)]
    Resize(Resize),
    /// Show a live table of all processes or control groups: resident, swapped, cold by age
    ///
    /// Ages grow while it runs; `-` is an age that nobody can know yet. ^C ends it.
    ///
    /// On a terminal it has keys: up, down (or k, j), Home and End select a row, Enter (or l) descends into a group, Backspace
    /// (or h) goes up, s sorts by the next column, / filters by name, r puts out what the selected tenant did not use for
    /// 10 s (it asks first; y does it), q ends it. With --for, --once, --json or --rows, and in a pipe, it is a plain table.
    #[command(after_help = examples::TOP_TABLE)]
    Top(Top),
    /// Show counters under the names of cgroup v2's memory.stat
    #[command(after_help = examples::STAT)]
    Stat {
        #[command(flatten)]
        told: Told,
        #[command(flatten)]
        tree: Tree,
        /// Of the tenant and of each below it, a line each
        #[arg(long)]
        all: bool,
        /// As a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Put memory of a process out now, its coldest first
    ///
    /// Asks the manager of the process, if there is one; else looks, reclaims and ends. Ends with 1 if
    /// less could leave than was asked for.
    #[command(after_help = examples::RECLAIM)]
    Reclaim(Reclaim),
    /// Manage many tenants at once: groups of processes that share a host's memory by the memcg LRU
    ///
    /// Stays in front until ^C; tenants, their processes and limits stay as they are, and the next
    /// `serve` takes them up. With --mount, `mkdir DIR/a` makes a tenant, `echo PID > DIR/a/cgroup.procs`
    /// moves a process in, `echo 256M > DIR/memory.reclaim` takes cold memory of all.
    #[command(after_help = examples::SERVE)]
    Serve(Serve),
    /// Show, make and remove the room that cold memory goes to
    #[command(after_help = examples::SWAP)]
    Swap {
        /// What to do
        #[command(subcommand)]
        verb: SwapVerb,
    },
    /// Run an experiment on simulated memory: one of the built-in ones, or one from a TOML file
    ///
    /// The engine that manages real programs decides here, unchanged. The same seed gives the same
    /// results, byte for byte; what depends on this machine goes to standard error. Ends with 1 if a
    /// claim does not hold.
    #[command(after_help = examples::SIM)]
    Sim(Sim),
    /// Show what share of a trace's references would miss, by memory size
    ///
    /// Exact for LRU at all sizes in one reading; other policies are simulated at each size. What
    /// formats are read: docs/formats.md.
    #[command(after_help = examples::MRC)]
    Mrc(Mrc),
    /// Say what this kernel and user can do, and how to get the rest
    ///
    /// Ends with 3 if it is not known here which pages are in use, or there is no swap, or no right to use it; the last line says which commands
    /// work.
    #[command(after_help = examples::DOCTOR)]
    Doctor {
        /// As a JSON object
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

/// Which pages, and where they go.
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

/// Which experiment, and where its results go.
#[derive(clap::Args, Debug)]
pub(crate) struct Sim {
    /// A name that --list shows, or a TOML file
    #[arg(value_name = "NAME|FILE.toml", required_unless_present = "list")]
    pub(crate) what: Option<String>,
    /// Name the built-in experiments
    #[arg(long, conflicts_with_all = ["what", "set", "scale", "out", "csv", "html", "parquet"])]
    pub(crate) list: bool,
    /// Replace a value of the experiment, e.g. seed=7 or run.duration=1m
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Seed of everything random [default: 1, or what the file says]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Divide the sizes of the published experiment by this [default: 1]
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) scale: Option<u64>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Include what depends on this machine (seconds, instructions) in the results
    #[arg(long)]
    pub(crate) timings: bool,
    /// Write all forms of the results to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write each table as CSV to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a page with plots; it needs no network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write each table as Parquet to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) parquet: Option<PathBuf>,
}

fn pid(text: &str) -> Result<u32, UnitError> {
    pid_or(
        text,
        "give the number that `pgrep -o NAME` or `ps -e` shows",
    )
}

/// A process's number; what to do about another word, unless that is a time.
fn pid_or(text: &str, hint: &'static str) -> Result<u32, UnitError> {
    text.parse().map_err(|_| UnitError {
        why: format!("`{text}` is no process id"),
        hint: if is_a_time(text) { TIME } else { hint },
    })
}

/// Where a process is wanted.
const TIME: &str =
    "a time belongs to its option, after `=` for those that can stand alone: --watch=10s";

/// Whether a word is a time with its unit. (The story: of `report --watch 10s PID`, `10s` was no process id.)
fn is_a_time(text: &str) -> bool {
    text.parse::<u64>().is_err() && millis(text).is_ok()
}

/// The clap command, for completions and the manual page.
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
            _ => Err(complaint(&error)),
        },
    }
}

/// Parses words that are nobody's command line: what would print and end the process is a mistake here.
///
/// # Errors
/// Bad usage.
pub(crate) fn parse_words(words: &[OsString]) -> Result<Command, Failure> {
    let program = OsString::from("pagetide");
    let parsed = Cli::try_parse_from(std::iter::once(&program).chain(words));
    parsed
        .map(|cli| cli.command)
        .map_err(|error| complaint(&error))
}

/// clap's complaint in our form.
fn complaint(error: &clap::Error) -> Failure {
    let source = std::error::Error::source(error);
    if let Some(unit) = source.and_then(|source| source.downcast_ref::<UnitError>()) {
        let option = error.get(ContextKind::InvalidArg);
        let option = option.map(ToString::to_string).unwrap_or_default();
        let name = option.split(' ').next().unwrap_or_default();
        let what = format!("bad value for {name}: {}", unit.why);
        return Failure::usage(what, unit.hint);
    }
    // Colourless text: "error: what\n\n  tip: do\n\nUsage: ...\n\nFor more information...".
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
                "one process at a time, with all of its descendants (several: --cgroup PATH); {TIME}"
            ))
        }
        ErrorKind::InvalidSubcommand => {
            // As "usage: pagetide swap <COMMAND>".
            let words = usage
                .as_deref()
                .and_then(|usage| usage.strip_prefix("usage: "));
            let words = words.and_then(|usage| usage.split(['<', '[']).next());
            let words = words.unwrap_or("pagetide").trim();
            let list = format!("`{words} --help` lists all");
            // What looks alike may be something else. (The story: who wrote `swap remove` was told of `swap recompress`.)
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
