//! `pagetide recommend`.
//!
//! Invariant: standard output has the answer only, once, when watching is over; progress goes to standard error, and only to a terminal.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use daemon::options::{Bytes, Millis};
use host::report::{Confidence, Part, Price, Report, Unknown};
use host::system::Proc;
use host::workload::{By, Kind, Workload};
use indicatif::ProgressBar;

use crate::args::{Plan, Recommend};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::recommend::{self as view, Answer, Format};
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
    let Some(mut report) = rows.newest else {
        let what = "cannot say what is needed: stopped before the first look";
        return Err(Failure::new(what, "let it run for a moment"));
    };
    let parts = shown(report.parts, args.above);
    refuse_nothing(&parts, args.format, &report.unknown_because)?;
    report
        .notes
        .extend(why_not(&parts, &report.unknown_because));
    let answer = Answer {
        parts,
        watched_ms: report.wall_ms,
        price: rows.price,
        notes: report.notes,
    };
    let text = view::answer(&answer, args.format, Style::of_stdout());
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(0)
}

/// Why some part has no number, where one has none.
fn why_not(parts: &[Part], unknown: &[Unknown]) -> Option<String> {
    let without = parts.iter().find(|part| part.needed.is_none())?;
    let reasons: Vec<&str> = unknown.iter().map(|one| one.reason.as_str()).collect();
    let reasons = match reasons.is_empty() {
        true => "too little was seen of it".to_owned(),
        false => format!("the age of its memory is not known: {}", reasons.join("; ")),
    };
    Some(format!("no number for {}: {reasons}", without.name))
}

/// A file of limits without any would empty the one that it is written into.
///
/// # Errors
/// No part has a number, and what is asked for are limits.
fn refuse_nothing(parts: &[Part], format: Format, unknown: &[Unknown]) -> Result<(), Failure> {
    let is_of_limits = matches!(format, Format::Systemd | Format::K8s | Format::Compose);
    if !is_of_limits || parts.iter().any(|part| part.needed.is_some()) {
        return Ok(());
    }
    let why = why_not(parts, unknown);
    let why = why.unwrap_or_else(|| "nothing has as much memory as that (--above)".to_owned());
    let hint = "watch it for longer (--for 5m), and with one pagetide at a time";
    Err(Failure::new(
        format!("cannot recommend anything: {why}"),
        hint,
    ))
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
        let target = &self.plan.settings.target;
        let is_managed = matches!(target, Target::Tenant(_)) && report.parts.is_empty();
        if is_managed || matches!(target, Target::Pid(_)) {
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

/// The unit or container that a process is in, or what the process is called: others may share its control group.
fn name_of(report: &Report) -> String {
    let group = report.processes.first().map(|process| &process.cgroup);
    let workload = group.map(|group| Workload::of(Path::new(group)));
    if let Some(workload) = workload.filter(|workload| workload.kind != Kind::Group) {
        return workload.key(By::Container);
    }
    let program = report.command.split(' ').next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or(program);
    name.to_owned()
}

/// All that is watched as one part, where it has a manager or is one process with its descendants.
fn whole(report: &Report) -> Part {
    let first = report.processes.first();
    Part {
        name: name_of(report),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: limits of a process whose ages were not known were an empty file, and exit code 0.
    #[test]
    fn limits_without_a_number_are_refused_and_the_reason_is_told() {
        let part = Part {
            name: "redis-server".to_owned(),
            ..Part::default()
        };
        let unknown = [Unknown {
            reason: "another pagetide clears its accessed bits".to_owned(),
            bytes: 1 << 20,
        }];
        for format in [Format::Systemd, Format::K8s, Format::Compose] {
            let parts = std::slice::from_ref(&part);
            let refused = refuse_nothing(parts, format, &unknown).expect_err("nothing is known");
            let told = refused.to_string();
            assert!(
                told.contains("redis-server") && told.contains("another pagetide"),
                "{told}"
            );
            assert!(refuse_nothing(&[], format, &[]).is_err());
        }
        let known = Part {
            needed: Some(host::report::Needed::default()),
            ..part.clone()
        };
        assert!(refuse_nothing(&[part.clone(), known], Format::K8s, &unknown).is_ok());
        assert!(refuse_nothing(&[part], Format::Json, &unknown).is_ok());
    }

    #[test]
    fn a_process_is_called_by_its_unit_or_by_its_program() {
        let report = |cgroup: &str| Report {
            command: "/usr/bin/redis-server 127.0.0.1:6379".to_owned(),
            processes: vec![host::report::Process {
                cgroup: cgroup.to_owned(),
                ..host::report::Process::default()
            }],
            ..Report::default()
        };
        assert_eq!(name_of(&report("/session/5a0d")), "redis-server");
        let unit = name_of(&report("/system.slice/redis.service"));
        assert_eq!(unit, "redis.service");
    }
}
