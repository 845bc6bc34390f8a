//! `pagetide recommend`.
//!
//! Invariant: standard output has the answer only, once, when watching is over; progress goes to standard error, and only to a terminal.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use daemon::options::{Bytes, Millis};
use host::report::{Confidence, Part, Price, Report};
use host::system::Proc;
use indicatif::ProgressBar;

use crate::args::{Plan, Recommend};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::recommend::{self as view, Answer};
use crate::watching::{self, Target};
use crate::workloads::{self, Found};

use super::looks::{User, follow};
use super::report::watch_bar;
use super::stop::stop_flag;

pub(super) fn recommend(args: &Recommend) -> Result<u8, Failure> {
    let mut only = Vec::new();
    let target = match &args.name {
        Some(name) => match workloads::find(name)? {
            Found::Pid(pid) => Target::Pid(pid),
            Found::Group(path) => Target::Cgroup(path),
            Found::Several(paths) => {
                only = paths;
                Target::All
            }
        },
        None => Target::All,
    };
    let plan = args.plan(target)?;
    let stop = stop_flag()?;
    let price = Proc::system().map(|proc| host::price::price(&proc))?;
    let mut rows = Rows {
        args,
        plan: &plan,
        price,
        bar: watch_bar(&plan, "{msg} {wide_bar} {elapsed} (at most {eta} left)")
            .with_message("watching"),
        started: Instant::now(),
        only,
        newest: None,
    };
    follow(&plan, watching::open, &stop, &mut rows)?;
    rows.bar.finish_and_clear();
    let Some(report) = rows.newest else {
        let what = "cannot say what is needed: stopped before the first look";
        return Err(Failure::new(what, "let it run for a moment"));
    };
    let answer = Answer {
        parts: shown(report.parts, args.above),
        watched_ms: report.wall_ms,
        price: rows.price,
        notes: report.notes,
    };
    let text = view::answer(&answer, args.format, Style::of_stdout());
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(0)
}

/// The largest first, those that are too small left out.
fn shown(mut parts: Vec<Part>, above: Bytes) -> Vec<Part> {
    parts.retain(|part| part.resident_bytes >= above.0);
    parts.sort_by(|one, other| {
        let size = other.resident_bytes.cmp(&one.resident_bytes);
        size.then_with(|| one.name.cmp(&other.name))
    });
    parts
}

/// Takes reports until the numbers are sure.
struct Rows<'a> {
    args: &'a Recommend,
    plan: &'a Plan,
    price: Price,
    bar: ProgressBar,
    started: Instant,
    /// Of all that is watched the parts in these groups are wanted; empty where all are.
    only: Vec<PathBuf>,
    newest: Option<Report>,
}

impl User for Rows<'_> {
    fn report(&mut self, mut report: Report) -> Result<(), Failure> {
        if report.parts.is_empty()
            && matches!(
                self.plan.settings.target,
                Target::Pid(_) | Target::Tenant(_)
            )
        {
            report.parts = vec![whole(&report)];
        }
        if !self.only.is_empty() {
            let is_wanted = |part: &Part| {
                let group = Path::new(&part.cgroup);
                self.only.iter().any(|only| group.starts_with(only))
            };
            report.parts.retain(is_wanted);
        }
        for part in &mut report.parts {
            part.tell_needed(self.args.budget(), &self.price);
            part.curve = None;
        }
        // What all have ended of is told as it was.
        if report.parts.is_empty() && self.newest.is_some() {
            return Ok(());
        }
        let parts = report.parts.iter().filter_map(|part| part.needed.as_ref());
        let sum: u64 = parts.map(|needed| needed.bytes).sum();
        self.bar
            .set_message(format!("watching: {} needed so far", Bytes(sum)));
        self.newest = Some(report);
        Ok(())
    }

    fn is_enough(&self) -> bool {
        let newest = self.newest.as_ref().filter(|_| self.plan.until_sure);
        let is_sure = |part: &Part| {
            let is_small = part.resident_bytes < self.args.above.0;
            let needed = part.needed.as_ref();
            is_small || needed.is_some_and(|needed| needed.confidence == Confidence::High)
        };
        newest.is_some_and(|report| !report.parts.is_empty() && report.parts.iter().all(is_sure))
    }

    fn idle(&mut self) {
        let passed = self.started.elapsed();
        self.bar.set_position(Millis::from(passed).0);
    }
}

/// All that is watched as one part, where it has a manager or is one process with its descendants.
fn whole(report: &Report) -> Part {
    let first = report.processes.first();
    Part {
        name: report.command.clone(),
        cgroup: first
            .map(|process| process.cgroup.clone())
            .unwrap_or_default(),
        pids: report.processes.iter().map(|process| process.pid).collect(),
        resident_bytes: report.resident_bytes,
        older_than_1m_bytes: report
            .processes
            .iter()
            .map(|one| one.older_than_1m_bytes)
            .sum(),
        unknown_age_bytes: report.unknown_age_bytes,
        swapped_bytes: report.swapped_bytes,
        curve: report.curve.clone(),
        needed: None,
    }
}
