//! Working-set reports of tenants and nodes: their settings and their texts. spec: workingset-report.md 2, 3.
//!
//! Invariant: a report is taken anew only when its refresh interval has passed since the last one; until then readers
//! see the same text. Ages are exact: they come from page tables, not from generations.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use engine::Millis;
use engine::memcg::MemcgId;
use engine::workingset_report::Bins;
use engine::workingset_report::files::{
    FileError, parse_intervals, parse_millis, parse_node_millis, print_intervals, print_millis,
    print_node_millis,
};
use fuser::PollNotifier;
use host::manage::tenants::{Ages, Tenants};
use rustix::io::Errno;

/// Ticks of the clock that intervals are rounded to.
const HZ: u32 = 1000;
/// The last bin's edge.
const EDGE_MAX: u64 = u64::MAX;

/// Settings of one tenant, or of all (the root).
#[derive(Debug, Default)]
struct Settings {
    /// For each node; 0 for no reports.
    refresh: Vec<Millis>,
    threshold: Vec<Millis>,
    /// The last report, and when it was taken.
    last: Option<(u64, Ages)>,
    /// How often readers were told that there is pressure.
    told: u64,
    /// Who waits to be told (poll(2) on page_age).
    /// By the handle of the open file.
    waiting: BTreeMap<u64, PollNotifier>,
}

/// All settings.
#[derive(Debug, Default)]
pub(super) struct Reports {
    bins: Bins,
    by_serial: BTreeMap<u64, Settings>,
}

/// Which setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Setting {
    Refresh,
    Threshold,
}

/// Which bytes of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    All,
    /// Those whose age no table tells.
    Estimated,
}

impl Reports {
    /// `page_age_intervals`.
    pub(super) fn intervals(&self) -> String {
        print_intervals(&self.bins)
    }

    /// The most bytes that a report of so many nodes has: in a line three numbers of twenty digits and their names.
    pub(super) fn at_most(&self, nodes: usize) -> usize {
        nodes * (self.bins.edges().len() + 2) * 80
    }

    pub(super) fn set_intervals(&mut self, text: &str) -> Result<(), Errno> {
        self.bins = parse_intervals(text, HZ).map_err(errno)?;
        Ok(())
    }

    /// A tenant's setting, all nodes or one.
    pub(super) fn print(
        &self,
        serial: u64,
        which: Setting,
        nodes: usize,
        node: Option<usize>,
    ) -> String {
        let found = self.by_serial.get(&serial);
        let values = found.map(|settings| match which {
            Setting::Refresh => &settings.refresh,
            Setting::Threshold => &settings.threshold,
        });
        let value = |node: usize| {
            let value = values.and_then(|values| values.get(node));
            value.copied().unwrap_or(Millis(0))
        };
        match node {
            Some(node) => print_millis(value(node)),
            None => print_node_millis(&(0..nodes).map(value).collect::<Vec<_>>()),
        }
    }

    pub(super) fn set(
        &mut self,
        serial: u64,
        which: Setting,
        nodes: usize,
        (node, text): (Option<usize>, &str),
    ) -> Result<(), Errno> {
        let (node, value) = match node {
            Some(node) => (node, parse_millis(text).map_err(errno)?),
            None => parse_node_millis(text, nodes).map_err(errno)?,
        };
        let settings = self.by_serial.entry(serial).or_default();
        let values = match which {
            Setting::Refresh => &mut settings.refresh,
            Setting::Threshold => &mut settings.threshold,
        };
        values.resize(nodes.max(node + 1), Millis(0));
        values[node] = value;
        if settings
            .refresh
            .iter()
            .all(|interval| *interval == Millis(0))
        {
            settings.last = None;
        }
        Ok(())
    }

    /// `page_age` of a tenant: of one node, or of all that have a refresh interval; or what of it is an estimate.
    pub(super) fn page_age(
        &mut self,
        tenants: &mut Tenants,
        (memcg, serial): (MemcgId, u64),
        (node, part): (Option<usize>, Part),
    ) -> Result<String, Errno> {
        let Reports { bins, by_serial } = self;
        let Some(settings) = by_serial.get_mut(&serial) else {
            return Ok(String::new());
        };
        let enabled = settings.refresh.iter().filter(|one| **one != Millis(0));
        let Some(shortest) = enabled.min().copied() else {
            return Ok(String::new());
        };
        let now = tenants.elapsed_ms();
        let is_fresh = |(then, _): &(u64, Ages)| now < then + shortest.0;
        if !settings.last.as_ref().is_some_and(is_fresh) {
            let edges: Vec<u64> = bins.edges().iter().map(|edge| edge.0).collect();
            let ages = tenants.page_age(memcg, &edges)?;
            settings.last = Some((now, ages));
        }
        let mut text = String::new();
        let Some((_, ages)) = &settings.last else {
            return Ok(text);
        };
        for (place, found) in ages.nodes.iter().enumerate() {
            let on = settings
                .refresh
                .get(place)
                .is_some_and(|one| *one != Millis(0));
            if !on || node.is_some_and(|node| node != place) {
                continue;
            }
            if node.is_none() {
                let _ = writeln!(text, "N{}", found.number);
            }
            let edges = found.edges.iter().copied().chain([EDGE_MAX]);
            for ((edge, [anon, file]), estimated) in edges.zip(&found.bytes).zip(&found.estimated) {
                let _ = match part {
                    Part::All => writeln!(text, "{edge} anon={anon} file={file}"),
                    Part::Estimated => writeln!(text, "{edge} file={estimated}"),
                };
            }
        }
        Ok(text)
    }

    /// The shortest interval that any report is to be refreshed by; none if all are off.
    pub(super) fn shortest(&self) -> Option<Duration> {
        let all = self.by_serial.values().flat_map(|one| &one.refresh);
        let shortest = all.filter(|one| **one != Millis(0)).min()?;
        Some(Duration::from_millis(shortest.0))
    }

    /// Whether any report of a tenant is on.
    pub(super) fn is_on(&self, serial: u64) -> bool {
        let found = self.by_serial.get(&serial);
        found.is_some_and(|one| one.refresh.iter().any(|one| *one != Millis(0)))
    }

    /// How often readers of a tenant's page_age were told of pressure; `who` waits to be told the next time.
    pub(super) fn wait(&mut self, serial: u64, handle: u64, who: PollNotifier) -> u64 {
        let settings = self.by_serial.entry(serial).or_default();
        settings.waiting.insert(handle, who);
        settings.told
    }

    /// The file is closed.
    pub(super) fn wait_no_more(&mut self, serial: u64, handle: u64) {
        if let Some(settings) = self.by_serial.get_mut(&serial) {
            settings.waiting.remove(&handle);
        }
    }

    /// The same number, for whoever reads now.
    pub(super) fn told(&self, serial: u64) -> u64 {
        self.by_serial
            .get(&serial)
            .map_or(0, |settings| settings.told)
    }

    /// A tenant is under pressure: whoever waits for its report is told, if that is on and the last report is older than
    /// the threshold. spec: workingset-report.md 5.
    pub(super) fn press(&mut self, serial: u64, now: u64) {
        let Some(settings) = self.by_serial.get_mut(&serial) else {
            return;
        };
        let on = |values: &[Millis], node: usize| {
            values.get(node).is_some_and(|value| *value != Millis(0))
        };
        let taken = settings.last.as_ref().map_or(0, |(taken, _)| *taken);
        let is_due = |(node, threshold): (usize, &Millis)| {
            let enabled = *threshold != Millis(0) && on(&settings.refresh, node);
            enabled && taken + threshold.0 <= now
        };
        if settings.threshold.iter().enumerate().any(is_due) {
            settings.told += 1;
            for (_, who) in std::mem::take(&mut settings.waiting) {
                // It is closed already.
                let _ = who.notify();
            }
        }
    }

    /// The tenants that are there; settings of others go.
    pub(super) fn retain(&mut self, is_there: impl Fn(u64) -> bool) {
        self.by_serial.retain(|serial, _| is_there(*serial));
    }
}

fn errno(error: FileError) -> Errno {
    Errno::from_raw_os_error(error.errno())
}
