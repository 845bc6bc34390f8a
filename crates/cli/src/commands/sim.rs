//! `pagetide sim`: runs an experiment on simulated memory.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sim::job::Job;
use sim::outcome::Outcome;
use sim::show::{self, Heading};

use crate::args::Sim;
use crate::failure::Failure;
use crate::view::text::{json_lines, plain};

use super::mrc::is_same;
use super::page::Page;

/// Steps of the progress bar: thousandths of the work.
const STEPS: u64 = 1000;

pub(super) fn sim(args: &Sim) -> Result<u8, Failure> {
    if args.list {
        std::io::stdout().write_all(list(args.json).as_bytes())?;
        return Ok(0);
    }
    let job = job(args)?;
    let bar = progress_bar(job.name());
    let simulated = run(args, &job, &mut |done| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part between 0 and 1"
        )]
        bar.set_position((done.clamp(0.0, 1.0) * 1000.0) as u64);
    });
    bar.finish_and_clear();
    let Simulated { heading, outcome } = simulated?;
    std::io::stdout().write_all(text_of(args, &heading, &outcome).as_bytes())?;
    print_timings(args, &heading, &outcome);
    Ok(unmet(&outcome).map_or(0, |failure| failure.print()))
}

/// Returns what the command prints, and a failure that names the claims that do not hold (`None` if
/// all hold). `progress` receives the share of the work that is done, 0 to 1.
///
/// # Errors
/// There is no such experiment, or results cannot be written.
pub(crate) fn printed(
    args: &Sim,
    progress: &mut dyn FnMut(f64),
) -> Result<(String, Option<Failure>), Failure> {
    if args.list {
        return Ok((list(args.json), None));
    }
    let Simulated { heading, outcome } = run(args, &job(args)?, progress)?;
    Ok((text_of(args, &heading, &outcome), unmet(&outcome)))
}

/// The result of an experiment.
struct Simulated {
    heading: Heading,
    outcome: Outcome,
}

/// Returns the experiment to run.
fn job(args: &Sim) -> Result<Job, Failure> {
    let what = args.what.as_deref().unwrap_or_default();
    let job = Job::find(what, &args.set, args.seed, args.scale);
    job.map_err(|error| match error.is_usage() {
        true => Failure::usage(error.to_string(), error.hint()),
        false => Failure::new(error.to_string(), error.hint()),
    })
}

/// Runs the experiment, and writes the requested files.
fn run(args: &Sim, job: &Job, progress: &mut dyn FnMut(f64)) -> Result<Simulated, Failure> {
    // Opened before the work, so that a path that cannot be written fails at once.
    let places = OutputPaths::open(args, job)?;
    let (heading, outcome) = job.run(progress);
    places.write(&heading, &outcome, args.timings)?;
    Ok(Simulated { heading, outcome })
}

/// Lists the built-in experiments.
fn list(json: bool) -> String {
    if json {
        let all: Vec<_> = sim::experiments::ALL
            .iter()
            .map(|e| serde_json::json!({"name": e.name, "about": e.about, "document": e.document}))
            .collect();
        return format!("{:#}\n", serde_json::Value::from(all));
    }
    let width = sim::experiments::ALL.iter().map(|e| e.name.len()).max();
    let width = width.unwrap_or(0);
    sim::experiments::ALL
        .iter()
        .map(|e| format!("{:width$}  {:3}  {}\n", e.name, e.document, e.about))
        .collect()
}

/// Returns the progress bar, which is visible on a terminal only.
fn progress_bar(name: &str) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(STEPS), target);
    let style = "{msg} {wide_bar} {percent}% {elapsed} (left: {eta})";
    bar.with_style(
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
    // An experiment's file is not trusted: `plain` removes control characters from its texts.
    .with_message(plain(name, true))
}

/// Returns the text for standard output.
fn text_of(args: &Sim, heading: &Heading, outcome: &Outcome) -> String {
    match args.json {
        true => json_lines(&show::json(heading, outcome, args.timings)) + "\n",
        // An experiment's file is not trusted: its texts must not control the terminal.
        false => {
            let text = show::text(heading, outcome, args.timings);
            text.lines().map(|line| plain(line, true) + "\n").collect()
        }
    }
}

/// Prints figures that depend on this machine to standard error, unless they are part of the
/// results.
fn print_timings(args: &Sim, heading: &Heading, outcome: &Outcome) {
    if args.timings || outcome.timings.is_empty() {
        return;
    }
    let only = Outcome {
        tables: outcome.timings.clone(),
        ..Outcome::default()
    };
    let text = show::text(heading, &only, false);
    let lines = text.lines().skip(2).map(|line| plain(line, true));
    let text = lines.collect::<Vec<_>>().join("\n");
    // A failed write to standard error cannot be reported.
    let _ = writeln!(std::io::stderr(), "On this machine:\n{text}");
}

/// Returns the failure if there are claims that do not hold.
fn unmet(outcome: &Outcome) -> Option<Failure> {
    let failed = outcome.claims.iter().filter(|c| !c.holds).count();
    let all = outcome.claims.len();
    (failed > 0).then(|| {
        Failure::new(
            format!("{failed} of {all} claims do not hold"),
            "see the table of claims; at a smaller scale figures are rougher",
        )
    })
}

/// Refuses to write the HTML page over a file that the experiment reads, such as a recording.
fn refuse_what_is_read(page: &Path, args: &Sim, job: &Job) -> Result<(), Failure> {
    let Job::File { plans, .. } = job else {
        return Ok(());
    };
    let file = args.what.as_deref().map(Path::new);
    let mut read = file.into_iter().chain(plans.recordings());
    match read.find(|read| is_same(page, read)) {
        Some(read) => Err(Failure::new(
            format!(
                "cannot write the page to {}: the experiment reads that",
                read.display()
            ),
            "give another file with --html",
        )),
        None => Ok(()),
    }
}

/// Where results are written.
struct OutputPaths<'a> {
    args: &'a Sim,
    page: Option<Page>,
}

impl<'a> OutputPaths<'a> {
    /// Makes the directories, and opens the HTML page. An existing page stays until the new one is
    /// complete.
    fn open(args: &'a Sim, job: &Job) -> Result<Self, Failure> {
        if let Some(page) = &args.html {
            refuse_what_is_read(page, args, job)?;
        }
        for dir in [&args.out, &args.csv, &args.parquet].into_iter().flatten() {
            fs::create_dir_all(dir).map_err(|error| cannot(dir, &error))?;
        }
        let page = args.html.as_deref().map(Page::open).transpose()?;
        Ok(Self { args, page })
    }

    fn write(&self, heading: &Heading, outcome: &Outcome, timings: bool) -> Result<(), Failure> {
        let (args, tables) = (self.args, show::tables(outcome, timings));
        let names = show::file_names(&tables);
        let put = |path: &Path, bytes: &[u8]| {
            fs::write(path, bytes).map_err(|error| cannot(path, &error))
        };
        for dir in [&args.csv, &args.out].into_iter().flatten() {
            for (name, table) in names.iter().zip(&tables) {
                put(
                    &dir.join(format!("{name}.csv")),
                    show::csv(table).as_bytes(),
                )?;
            }
        }
        for dir in [&args.parquet, &args.out].into_iter().flatten() {
            for (name, table) in names.iter().zip(&tables) {
                let (path, mut bytes) = (dir.join(format!("{name}.parquet")), Vec::new());
                let written = show::parquet(table, &mut bytes);
                written.map_err(|error| cannot(&path, &error))?;
                put(&path, &bytes)?;
            }
        }
        if let Some(page) = &self.page {
            page.write(&show::html(heading, outcome, timings))?;
        }
        if let Some(dir) = &args.out {
            let page = show::html(heading, outcome, timings);
            put(&dir.join("index.html"), page.as_bytes())?;
            let json = format!("{:#}\n", show::json(heading, outcome, timings));
            put(&dir.join("outcome.json"), json.as_bytes())?;
        }
        Ok(())
    }
}

fn cannot(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(
        format!("cannot write {}: {error}", path.display()),
        "give a place where you may write and that has room",
    )
}
