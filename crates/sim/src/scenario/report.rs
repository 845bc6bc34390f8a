//! Makes tables of the results of an experiment file: a row for each tenant and combination, and
//! tables over time.

mod instances;

use super::hierarchy::Hierarchy;
use super::plan::{Plan, Plans};
use super::world::{Counts, World};
use crate::outcome::{Cell, Outcome, Table};
use crate::stats::number;
use engine::Bytes;
use toml::Value;

/// Number of points in a table over time.
const SAMPLES: f64 = 240.0;

/// The result of one run.
pub struct Course {
    /// Counts of each tenant of the file, in the order of the file; all its instances and all
    /// tenants below it are included.
    pub groups: Vec<Counts>,
    /// For each instance of each tenant: the index of the tenant in the file, and the instance's
    /// counts, without those of tenants below it. The instances of a tenant are in the order of
    /// arrival.
    pub instances: Vec<(usize, Counts)>,
    /// Samples over time: milliseconds, and the counts of each tenant of the file.
    samples: Vec<(u64, Vec<Counts>)>,
}

impl Course {
    /// Runs `plan` to its end. Samples over time are kept only if `is_kept`, because for thousands
    /// of runs they would take gigabytes.
    pub fn run(plan: &Plan, is_kept: bool, progress: &mut dyn FnMut(f64)) -> Self {
        let (mut world, mut samples, mut seen) = (World::new(plan), Vec::new(), 0);
        while !world.is_over() {
            world.step();
            if world.done() * SAMPLES >= number(seen + 1) || world.is_over() {
                seen += 1;
                if is_kept {
                    samples.push((world.now, groups(&world)));
                }
                progress(world.done());
            }
        }
        let instances = world.guests.iter();
        Self {
            groups: groups(&world),
            instances: instances.map(|guest| (guest.group, guest.counts)).collect(),
            samples,
        }
    }
}

/// Returns the counts of each tenant of the file, with all tenants below it.
fn groups(world: &World) -> Vec<Counts> {
    let mut sums = vec![Counts::default(); world.file.tenant.len()];
    for guest in &world.guests {
        for group in world.tree.path(guest.group) {
            sums[group].add(&guest.counts);
        }
    }
    sums
}

/// Returns the outcome of all runs.
#[must_use]
pub fn outcome(plans: &Plans, courses: &[Course]) -> Outcome {
    let mut tables = vec![tenants(plans, courses)];
    if let [course] = courses {
        tables.extend(
            plans
                .runs
                .first()
                .map(|plan| over_time(plan, course))
                .into_iter()
                .flatten(),
        );
    } else {
        tables.extend(by_value(plans, courses));
    }
    let (of_instances, note) = instances::tables(plans, courses);
    tables.extend(of_instances);
    let mut notes = notes(plans);
    notes.extend(note);
    Outcome {
        tables,
        notes,
        ..Outcome::default()
    }
}

/// Returns the remarks about replayed recordings, each once.
fn notes(plans: &Plans) -> Vec<String> {
    let mut all = std::collections::BTreeSet::new();
    for plan in &plans.runs {
        let works = plan
            .file
            .tenant
            .iter()
            .flat_map(|tenant| &tenant.get_ref().work);
        for work in works.map(toml::Spanned::get_ref) {
            let (Some(name), Some(recorded)) = (&work.file, &work.recorded) else {
                continue;
            };
            let notes = recorded.notes(plan.file.run.duration.0);
            all.extend(notes.into_iter().map(|note| format!("{name}: {note}")));
        }
    }
    all.into_iter().collect()
}

/// Returns the names of a run's tenants. (Values of `--set` or of a sweep may have changed them.)
fn names(plan: &Plan) -> Vec<String> {
    // A file that was parsed has a valid tree.
    let tree = Hierarchy::new(&plan.file).unwrap_or_default();
    let tenants = 0..plan.file.tenant.len();
    tenants.map(|n| tree.name(&plan.file, n)).collect()
}

fn mib(pages: u64) -> f64 {
    number(pages) / 256.0
}

fn percent(part: u64, whole: u64) -> Cell {
    if whole == 0 {
        Cell::Empty
    } else {
        Cell::Figure(number(part) / number(whole) * 100.0)
    }
}

fn tenants(plans: &Plans, courses: &[Course]) -> Table {
    let keys = plans.runs.first().map_or(&[][..], |plan| &plan.values[..]);
    let mut columns: Vec<&str> = keys.iter().map(|(key, _)| key.as_str()).collect();
    columns.extend([
        "tenant",
        "touches",
        "misses",
        "missed (%)",
        "refaults (pages)",
        "pgsteal (pages)",
        "resident (MiB)",
        "OOM",
        "throttled (ms)",
    ]);
    // The tenants of the runs are used, not those of the file: `--set` and a sweep may add keys
    // that are not in the file.
    let tenants = || plans.runs.iter().flat_map(|plan| &plan.file.tenant);
    let guests = tenants().any(|t| t.get_ref().balloon_older_than.is_some());
    if guests {
        columns.push("balloon (MiB)");
    }
    let policies = tenants().any(|t| t.get_ref().policy.is_some());
    if policies {
        columns.push("left by policy (pages)");
    }
    let mut table = Table::new("Tenants", &columns);
    for (plan, course) in plans.runs.iter().zip(courses) {
        for (name, counts) in names(plan).iter().zip(&course.groups) {
            let mut cells: Vec<Cell> = plan.values.iter().map(|(_, v)| cell(v)).collect();
            cells.extend([
                Cell::Text(name.clone()),
                Cell::Count(counts.touches),
                Cell::Count(counts.misses),
                percent(counts.misses, counts.touches),
                Cell::Count(counts.refaults),
                Cell::Count(counts.pgsteal),
                Cell::Figure(mib(counts.resident)),
                Cell::Count(counts.ooms),
                Cell::Count(counts.throttled),
            ]);
            if guests {
                cells.push(Cell::Figure(mib(counts.balloon)));
            }
            if policies {
                cells.push(Cell::Count(counts.evicted));
            }
            table.row(cells);
        }
    }
    table
}

/// Formats a swept value as a cell. Sizes are in MiB, so that they can be drawn; a value that may
/// be a time remains text.
fn cell(value: &Value) -> Cell {
    use serde::Deserialize;
    match value {
        Value::Integer(n) => u64::try_from(*n).map_or(Cell::Empty, Cell::Count),
        Value::Float(x) => Cell::Figure(*x),
        // `2m` may be a time or a size; if other values are times such as `30s`, it is a time. So
        // it stays text.
        Value::String(text) if text.trim_end().ends_with('m') => Cell::Text(text.clone()),
        Value::String(text) => match super::values::Size::deserialize(value.clone()) {
            Ok(size) => Cell::Figure(mib(Bytes(size.0).pages().0)),
            Err(_) => Cell::Text(text.clone()),
        },
        value => Cell::Text(value.to_string()),
    }
}

fn over_time(plan: &Plan, course: &Course) -> [Table; 2] {
    let with = |unit: &str| {
        let names = names(plan).into_iter().map(|n| format!("{n} ({unit})"));
        let mut columns = vec!["time (s)".to_owned()];
        columns.extend(names);
        columns
    };
    let table = |title: &str, unit: &str| Table {
        title: title.to_owned(),
        columns: with(unit),
        rows: Vec::new(),
    };
    let mut resident = table("Resident by time", "MiB");
    let mut misses = table("Misses by time", "misses a second");
    let mut last = (0, vec![Counts::default(); plan.file.tenant.len()]);
    for (now, counts) in &course.samples {
        let time = Cell::Figure(number(*now) / 1000.0);
        let seconds = number(now - last.0) / 1000.0;
        let mut row = vec![time.clone()];
        row.extend(counts.iter().map(|c| Cell::Figure(mib(c.resident))));
        resident.row(row);
        let mut row = vec![time];
        let since = counts.iter().zip(&last.1);
        row.extend(since.map(|(c, b)| Cell::Figure(number(c.misses - b.misses) / seconds)));
        misses.row(row);
        last = (*now, counts.clone());
    }
    [resident, misses]
}

/// Returns a table of misses by the value of the swept key, from which a picture is drawn; `None`
/// if the file does not sweep exactly one key.
fn by_value(plans: &Plans, courses: &[Course]) -> Option<Table> {
    let first = plans.runs.first()?;
    let [(key, _)] = &first.values[..] else {
        return None;
    };
    let names = names(first)
        .into_iter()
        .map(|name| format!("{name} (% missed)"));
    let mut columns = vec![key.clone()];
    columns.extend(names);
    let mut table = Table {
        title: format!("Misses by {key}"),
        columns,
        rows: Vec::new(),
    };
    for (plan, course) in plans.runs.iter().zip(courses) {
        let mut row: Vec<Cell> = plan.values.iter().map(|(_, v)| cell(v)).collect();
        row.extend(course.groups.iter().map(|c| percent(c.misses, c.touches)));
        table.row(row);
    }
    Some(table)
}
