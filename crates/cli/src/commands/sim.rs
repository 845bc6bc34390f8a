//! `pagetide sim`.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sim::outcome::Outcome;
use sim::show::{self, Heading};

use crate::args::Sim;
use crate::failure::Failure;

/// Thousandths of the work.
const STEPS: u64 = 1000;

pub(super) fn sim(args: &Sim) -> Result<u8, Failure> {
    if args.list {
        return list(args.json);
    }
    let what = args.what.as_deref().unwrap_or_default();
    let job = sim::job::Job::find(what, &args.set, args.seed, args.scale);
    let job = job.map_err(|error| match error.is_usage() {
        true => Failure::usage(error.to_string(), error.hint()),
        false => Failure::new(error.to_string(), error.hint()),
    })?;
    // Before the work, not after it, for what cannot be written.
    let places = Places::open(args)?;
    let bar = progress_bar(job.name());
    let (heading, outcome) = job.run(&mut |done| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part between 0 and 1"
        )]
        bar.set_position((done.clamp(0.0, 1.0) * 1000.0) as u64);
    });
    bar.finish_and_clear();
    places.write(&heading, &outcome, args.timings)?;
    print(args, &heading, &outcome)?;
    Ok(verdict(&outcome))
}

fn list(json: bool) -> Result<u8, Failure> {
    let mut out = std::io::stdout().lock();
    if json {
        let all: Vec<_> = sim::experiments::ALL
            .iter()
            .map(|e| serde_json::json!({"name": e.name, "about": e.about, "document": e.document}))
            .collect();
        writeln!(out, "{:#}", serde_json::Value::from(all))?;
        return Ok(0);
    }
    let width = sim::experiments::ALL.iter().map(|e| e.name.len()).max();
    for e in sim::experiments::ALL {
        let width = width.unwrap_or(0);
        writeln!(out, "{:width$}  {:3}  {}", e.name, e.document, e.about)?;
    }
    Ok(0)
}

/// On a terminal only.
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
    .with_message(name.to_owned())
}

fn print(args: &Sim, heading: &Heading, outcome: &Outcome) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", show::json(heading, outcome, args.timings))?;
    } else {
        write!(out, "{}", show::text(heading, outcome, args.timings))?;
    }
    if !args.timings && !outcome.timings.is_empty() {
        let only = Outcome {
            tables: outcome.timings.clone(),
            ..Outcome::default()
        };
        let text = show::text(heading, &only, false);
        let text = text.lines().skip(2).collect::<Vec<_>>().join("\n");
        // Nobody is left to be told when standard error is gone.
        let _ = writeln!(std::io::stderr(), "On this machine:\n{text}");
    }
    Ok(())
}

/// 1 if a claim does not hold.
fn verdict(outcome: &Outcome) -> u8 {
    let failed = outcome.claims.iter().filter(|c| !c.holds).count();
    if failed == 0 {
        return 0;
    }
    let all = outcome.claims.len();
    Failure::new(
        format!("{failed} of {all} claims do not hold"),
        "see the table of claims; at a smaller scale figures are rougher",
    )
    .tell()
}

/// Where results are written.
struct Places<'a> {
    args: &'a Sim,
}

impl<'a> Places<'a> {
    /// Makes the directories.
    fn open(args: &'a Sim) -> Result<Self, Failure> {
        for dir in [&args.out, &args.csv, &args.parquet].into_iter().flatten() {
            fs::create_dir_all(dir).map_err(|error| cannot(dir, &error))?;
        }
        if let Some(file) = &args.html {
            fs::write(file, "").map_err(|error| cannot(file, &error))?;
        }
        Ok(Self { args })
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
        let page = args.out.as_ref().map(|dir| dir.join("index.html"));
        for path in [&page, &args.html].into_iter().flatten() {
            put(path, show::html(heading, outcome, timings).as_bytes())?;
        }
        if let Some(dir) = &args.out {
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
