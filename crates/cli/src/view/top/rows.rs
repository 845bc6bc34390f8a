//! The rows of `top`, made from a report. In JSON their fields have the names of
//! `docs/interfaces.md`.

use std::collections::BTreeMap;

use host::report::{AgeGrain, AgeSource, Overhead, Process, Report, Saving, SwapStore};
use serde::Serialize;

use crate::view::memory::{source, source_of};

/// What each row is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum By {
    /// One process
    Process,
    /// One control group, with the sums of its processes
    Cgroup,
    /// One tenant of `pagetide serve`, with the sums of all tenants below it
    Tenant,
}

/// The figure by which rows are sorted, largest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Sort {
    /// Resident memory
    Resident,
    /// Memory that was not accessed for 10 s
    Cold,
    /// Memory in swap
    Swapped,
}

impl Sort {
    /// Returns the figure of a row by which rows are sorted.
    pub(crate) fn key(self, row: &Row) -> u64 {
        match self {
            Sort::Resident => row.resident_bytes,
            Sort::Cold => row.older_than_10s_bytes,
            Sort::Swapped => row.swapped_bytes,
        }
    }

    /// Returns the next figure to sort by; the first follows the last.
    #[cfg(feature = "dashboard")]
    pub(crate) fn next(self) -> Sort {
        match self {
            Sort::Resident => Sort::Cold,
            Sort::Cold => Sort::Swapped,
            Sort::Swapped => Sort::Resident,
        }
    }
}

/// One row of the table.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cgroup: Option<String>,
    pub(crate) processes: u64,
    pub(crate) resident_bytes: u64,
    pub(crate) swapped_bytes: u64,
    /// Memory that the compressed copies take, shared out by pages; `None` if unknown.
    pub(crate) compressed_bytes: Option<u64>,
    /// `swapped_bytes - compressed_bytes`; `None` if unknown.
    pub(crate) net_saved_bytes: Option<i64>,
    pub(crate) young_bytes: u64,
    pub(crate) older_than_10s_bytes: u64,
    pub(crate) older_than_1m_bytes: u64,
    pub(crate) older_than_10m_bytes: u64,
    pub(crate) unknown_age_bytes: u64,
}

impl Row {
    fn of(process: &Process) -> Row {
        Row {
            pid: Some(process.pid),
            uid: Some(process.uid),
            command: Some(process.command.clone()),
            cgroup: Some(process.cgroup.clone()),
            processes: 1,
            resident_bytes: process.resident_bytes,
            swapped_bytes: process.swapped_bytes,
            young_bytes: process.young_bytes,
            older_than_10s_bytes: process.older_than_10s_bytes,
            older_than_1m_bytes: process.older_than_1m_bytes,
            older_than_10m_bytes: process.older_than_10m_bytes,
            unknown_age_bytes: process.unknown_age_bytes,
            ..Row::default()
        }
    }

    /// Sets what the swapped-out memory saves; `host` is the host's store of it.
    fn set_saving(&mut self, host: Option<SwapStore>) {
        let saving = Saving::of(self.swapped_bytes, host, None);
        self.compressed_bytes = saving.compressed_bytes;
        self.net_saved_bytes = saving.net_bytes;
    }

    /// Adds the figures of another row to this one; the names of this row stay.
    pub(crate) fn add(&mut self, other: &Row) {
        let pairs = [
            (&mut self.processes, other.processes),
            (&mut self.resident_bytes, other.resident_bytes),
            (&mut self.swapped_bytes, other.swapped_bytes),
            (&mut self.young_bytes, other.young_bytes),
            (&mut self.older_than_10s_bytes, other.older_than_10s_bytes),
            (&mut self.older_than_1m_bytes, other.older_than_1m_bytes),
            (&mut self.older_than_10m_bytes, other.older_than_10m_bytes),
            (&mut self.unknown_age_bytes, other.unknown_age_bytes),
        ];
        for (sum, more) in pairs {
            *sum = sum.saturating_add(more);
        }
    }
}

/// How a manager watches its tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Watched {
    /// Milliseconds for which the tenants have been watched.
    pub(crate) wall_ms: u64,
    /// Milliseconds between two scans.
    pub(crate) interval_ms: u64,
    pub(crate) age_source: AgeSource,
    /// What the host's swap holds in memory; `None` if unknown.
    pub(crate) host_swap: Option<SwapStore>,
}

/// All rows in order, with what applies to all of them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) wall_ms: u64,
    pub(crate) interval_ms: u64,
    pub(crate) age_source: AgeSource,
    pub(crate) overhead: Overhead,
    pub(crate) totals: Row,
    pub(crate) rows: Vec<Row>,
    /// The source of ages in words, for people.
    #[serde(skip)]
    pub(crate) source: &'static str,
}

impl Table {
    pub(crate) fn of(report: &Report, by: By, sort: Sort) -> Table {
        let each: Vec<Row> = report.processes.iter().map(Row::of).collect();
        let mut totals = Row::default();
        for row in &each {
            totals.add(row);
        }
        let mut rows = match by {
            By::Process => each,
            By::Cgroup | By::Tenant => groups(&each),
        };
        for row in rows.iter_mut().chain([&mut totals]) {
            row.set_saving(report.host_swap);
        }
        order(&mut rows, sort);
        Table {
            wall_ms: report.wall_ms,
            interval_ms: report.interval_ms,
            age_source: report.age_source,
            overhead: report.overhead,
            totals,
            rows,
            source: source(report),
        }
    }
}

/// Sorts the rows, the largest first. Rows with equal figures are sorted by name, so that their
/// order is stable.
fn order(rows: &mut [Row], sort: Sort) {
    rows.sort_by(|a, b| {
        (sort.key(b), b.resident_bytes)
            .cmp(&(sort.key(a), a.resident_bytes))
            .then_with(|| (a.pid, &a.cgroup).cmp(&(b.pid, &b.cgroup)))
    });
}

impl Table {
    /// Returns the table of tenants. The totals are those of the first row, the root, which
    /// contains all sums.
    pub(crate) fn of_tenants(mut rows: Vec<Row>, sort: Sort, watched: Watched) -> Table {
        for row in &mut rows {
            row.set_saving(watched.host_swap);
        }
        let totals = rows.first().cloned().unwrap_or_default();
        order(&mut rows, sort);
        Table {
            wall_ms: watched.wall_ms,
            interval_ms: watched.interval_ms,
            age_source: watched.age_source,
            // The cost of watching is reported elsewhere, by the manager that watches the tenants.
            overhead: Overhead::default(),
            totals,
            rows,
            source: source_of(watched.age_source, AgeGrain::default()),
        }
    }
}

fn groups(each: &[Row]) -> Vec<Row> {
    let mut groups: BTreeMap<&str, Row> = BTreeMap::new();
    for row in each {
        let name = row.cgroup.as_deref().unwrap_or_default();
        groups.entry(name).or_default().add(row);
    }
    let named = groups.into_iter().map(|(name, row)| Row {
        cgroup: Some(name.to_owned()),
        ..row
    });
    named.collect()
}
