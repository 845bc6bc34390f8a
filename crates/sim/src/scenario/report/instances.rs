//! Tables of the instances of a tenant (key `count`), which show how evenly reclaim took from them.
//!
//! Invariant: a row has the counts of one instance, without those of tenants below it.

use super::{Course, cell, mib, names};
use crate::outcome::{Cell, Table};
use crate::scenario::plan::{Plan, Plans};
use crate::scenario::world::Counts;
use crate::stats::{least, mean, most, number, stddev};

/// Maximum number of rows of the table "Instances", over all runs.
const ROWS_MAX: usize = 100_000;

/// Returns the tables; none if each tenant has only one instance. If there are too many instances
/// for a row each, returns a note that says so.
pub(super) fn tables(plans: &Plans, courses: &[Course]) -> (Vec<Table>, Option<String>) {
    let runs = || plans.runs.iter().zip(courses);
    let rows: usize = runs().map(|(_, course)| counted(course).count()).sum();
    match rows {
        0 => (Vec::new(), None),
        rows if rows > ROWS_MAX => {
            let note = format!(
                "The table of {rows} instances is left out: it has at most {ROWS_MAX} rows."
            );
            (vec![shares(plans, courses)], Some(note))
        }
        _ => (vec![shares(plans, courses), each(plans, courses)], None),
    }
}

/// Returns the instances of those tenants that have several; for each, the index of its tenant and
/// its counts.
fn counted(course: &Course) -> impl Iterator<Item = &(usize, Counts)> {
    let is_many = |group: usize| counts_of(course, group).nth(1).is_some();
    let groups: Vec<bool> = (0..course.groups.len()).map(is_many).collect();
    course
        .instances
        .iter()
        .filter(move |(group, _)| groups[*group])
}

/// Returns the instances of one tenant.
fn counts_of(course: &Course, group: usize) -> impl Iterator<Item = &Counts> {
    let all = course.instances.iter();
    all.filter(move |(other, _)| *other == group)
        .map(|(_, counts)| counts)
}

fn columns(plans: &Plans, own: &[&'static str]) -> Vec<String> {
    let keys = plans.runs.first().map_or(&[][..], |plan| &plan.values[..]);
    let keys = keys.iter().map(|(key, _)| key.clone());
    keys.chain(own.iter().map(|name| (*name).to_owned()))
        .collect()
}

fn values(plan: &Plan) -> Vec<Cell> {
    plan.values.iter().map(|(_, value)| cell(value)).collect()
}

/// Returns a table with a row for each tenant that has several instances.
fn shares(plans: &Plans, courses: &[Course]) -> Table {
    let own = [
        "tenant",
        "instances",
        "pgsteal, least (pages)",
        "mean",
        "most (pages)",
        "stddev/mean (%)",
    ];
    let mut table = Table {
        title: "Pgsteal over the instances of a tenant".to_owned(),
        columns: columns(plans, &own),
        rows: Vec::new(),
    };
    for (plan, course) in plans.runs.iter().zip(courses) {
        for (group, name) in names(plan).into_iter().enumerate() {
            let pgsteal: Vec<f64> = counts_of(course, group)
                .map(|counts| number(counts.pgsteal))
                .collect();
            if pgsteal.len() < 2 {
                continue;
            }
            let spread = match mean(&pgsteal) {
                0.0 => Cell::Empty,
                mean => Cell::Figure(stddev(&pgsteal) / mean * 100.0),
            };
            let mut cells = values(plan);
            cells.extend([
                Cell::Text(name),
                Cell::Count(pgsteal.len() as u64),
                Cell::Figure(least(&pgsteal)),
                Cell::Figure(mean(&pgsteal)),
                Cell::Figure(most(&pgsteal)),
                spread,
            ]);
            table.row(cells);
        }
    }
    table
}

/// Returns a table with a row for each instance.
fn each(plans: &Plans, courses: &[Course]) -> Table {
    let own = [
        "tenant",
        "instance",
        "touches",
        "misses",
        "refaults (pages)",
        "pgsteal (pages)",
        "resident (MiB)",
    ];
    let mut table = Table {
        title: "Instances".to_owned(),
        columns: columns(plans, &own),
        rows: Vec::new(),
    };
    for (plan, course) in plans.runs.iter().zip(courses) {
        let names = names(plan);
        let mut numbers = vec![0; names.len()];
        for (group, counts) in counted(course) {
            numbers[*group] += 1;
            let mut cells = values(plan);
            cells.extend([
                Cell::Text(names[*group].clone()),
                Cell::Count(numbers[*group]),
                Cell::Count(counts.touches),
                Cell::Count(counts.misses),
                Cell::Count(counts.refaults),
                Cell::Count(counts.pgsteal),
                Cell::Figure(mib(counts.resident)),
            ]);
            table.row(cells);
        }
    }
    table
}
