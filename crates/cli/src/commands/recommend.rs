//! `pagetide recommend`: watches processes, then prints how much memory they need and which limits
//! to set.
//!
//! Invariant: only the result is written to standard output, once, when watching is over. Progress
//! goes to standard error, and only to a terminal.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use daemon::options::{Bytes, Millis};
use host::report::{Confidence, Part, Price, Report, Unknown};
use host::system::{Groups, Proc};
use host::workload::{By, Kind, Workload};
use indicatif::ProgressBar;

use crate::args::{Plan, Recommend};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::recommend::{self as view, Answer, Format};
use crate::watching::{self, Target};
use crate::workloads::{self, Found};

use super::report::watch_bar;
use super::scans::{ReportSink, follow};
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
        let what = "cannot say what is needed: stopped before the first scan";
        return Err(Failure::new(what, "let it run for a moment"));
    };
    let mut parts = largest_parts(report.parts, args.above);
    add_pressure(&mut parts);
    require_a_limit(&parts, args.format, &report.unknown_because)?;
    report
        .notes
        .extend(why_not(&parts, &report.unknown_because));
    let answer = Answer {
        parts,
        watched_ms: report.wall_ms,
        price: rows.price,
        pressure_some_avg10: report.kernel_says.pressure_some_avg10,
        pressure_of: report.kernel_says.pressure_of,
        notes: report.notes,
    };
    let text = view::answer(&answer, args.format, Style::of_stdout());
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(0)
}

/// Adds for how long processes of units, containers and pods waited for memory. Other parts have no
/// control group of their own.
fn add_pressure(parts: &mut [Part]) {
    let groups = Proc::system().and_then(|proc| Groups::find(&proc));
    let Ok(groups) = groups else {
        return;
    };
    for part in parts {
        let workload = Workload::of(Path::new(&part.cgroup));
        if !matches!(workload.kind, Kind::Unit | Kind::Container | Kind::Pod) {
            continue;
        }
        let group = groups.resolve(&workload.path.to_string_lossy());
        let pressure = group.and_then(|group| groups.pressure(&group));
        part.pressure_some_avg10 = pressure.ok().flatten().map(|found| found.some.avg10);
    }
}

/// Returns a note that says why the first part without a number has none; `None` if each part has
/// one.
fn why_not(parts: &[Part], unknown: &[Unknown]) -> Option<String> {
    let without = parts.iter().find(|part| part.needed.is_none())?;
    let reasons: Vec<&str> = unknown.iter().map(|one| one.reason.as_str()).collect();
    let reasons = match reasons.is_empty() {
        true => "too little was seen of it".to_owned(),
        false => format!("the age of its memory is not known: {}", reasons.join("; ")),
    };
    Some(format!("no number for {}: {reasons}", without.name))
}

/// Checks that a file of limits would have at least one limit. A file without limits would replace
/// the limits that the user has, so it is refused.
///
/// # Errors
/// No part has a number, and the requested format is one for limits.
fn require_a_limit(parts: &[Part], format: Format, unknown: &[Unknown]) -> Result<(), Failure> {
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

/// Returns the parts, largest first, without those that are too small.
fn largest_parts(mut parts: Vec<Part>, above: Bytes) -> Vec<Part> {
    parts.retain(|part| part.resident_bytes >= above.0);
    parts.sort_by(|one, other| {
        let size = other.resident_bytes.cmp(&one.resident_bytes);
        size.then_with(|| one.name.cmp(&other.name))
    });
    parts
}

/// Receives reports until all numbers have high confidence.
struct Rows<'a> {
    args: &'a Recommend,
    plan: &'a Plan,
    price: Price,
    bar: ProgressBar,
    started: Instant,
    /// Only parts in these groups are shown; if empty, all parts are.
    only: Vec<PathBuf>,
    newest: Option<Report>,
}

impl ReportSink for Rows<'_> {
    fn report(&mut self, mut report: Report) -> Result<(), Failure> {
        let target = &self.plan.settings.target;
        let is_managed = matches!(target, Target::Tenant(_)) && report.parts.is_empty();
        if is_managed || matches!(target, Target::Pid(_)) {
            report.parts = vec![as_one_part(&report)];
        }
        if !self.only.is_empty() {
            let is_wanted = |part: &Part| {
                let group = Path::new(&part.cgroup);
                self.only.iter().any(|only| group.starts_with(only))
            };
            report.parts.retain(is_wanted);
        }
        for part in &mut report.parts {
            part.set_needed(self.args.budget(), &self.price);
            part.curve = None;
        }
        // If all processes have ended, the last report that had parts stays the result.
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

/// Returns the unit or container that a process is in, or otherwise the name of its program. (A
/// plain control group is no name for it, as other processes may share the group.)
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

/// Returns all watched processes as one part, for a target that has a manager or is one process
/// with its descendants.
fn as_one_part(report: &Report) -> Part {
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
        pressure_some_avg10: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: for a process of unknown ages the file of limits was empty, and the exit code 0.
    #[test]
    fn limits_without_a_number_are_refused_with_the_reason() {
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
            let refused = require_a_limit(parts, format, &unknown).expect_err("nothing is known");
            let reported = refused.to_string();
            assert!(
                reported.contains("redis-server") && reported.contains("another pagetide"),
                "{reported}"
            );
            assert!(require_a_limit(&[], format, &[]).is_err());
        }
        let known = Part {
            needed: Some(host::report::Needed::default()),
            ..part.clone()
        };
        assert!(require_a_limit(&[part.clone(), known], Format::K8s, &unknown).is_ok());
        assert!(require_a_limit(&[part], Format::Json, &unknown).is_ok());
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
