//! Histograms against the truth: pages that are used every 1, 4 and 16 s, and never again.

use super::super::Settings;
use crate::hardware;
use crate::in_words::InWords;
use crate::outcome::{Cell, Claim, Outcome, Table};
use crate::stats::number;
use ::engine::machine::MachineConfig;
use ::engine::memcg::MemcgId;
use ::engine::workingset_report::{Aggregation, Bins, PageAge};
use ::engine::{FaultKind, FolioId, FolioType, Machine, Millis};

const PAGES: u64 = 1 << 18;
/// Seconds between two uses of a page, for each quarter of the pages.
const PERIODS: [Option<u64>; 4] = [Some(1), Some(4), Some(16), None];
const EDGES: [Millis; 4] = [Millis(1000), Millis(5000), Millis(10_000), Millis(20_000)];
const SECONDS: u64 = 60;
const INTERVALS: [u64; 4] = [1, 2, 5, 10];

struct World {
    machine: Machine,
    id: MemcgId,
    last_used: Vec<u64>,
}

impl World {
    fn new(pages: u32, interval: Millis, mode: Aggregation) -> Self {
        let mut machine = Machine::new(MachineConfig::default(), Millis(0));
        let id = machine.create(MemcgId::ROOT, Millis(0));
        machine.lruvec_mut(id).ensure(pages as usize);
        for page in (0..pages).map(FolioId) {
            let (ty, kind) = (FolioType::Anon, FaultKind::FirstTouch);
            hardware::fault(&mut machine, (id, page), ty, kind, true);
        }
        let reports = machine.reports_mut();
        reports.set_bins(Bins::new(&EDGES).expect("increasing edges"));
        reports.set_aggregation(mode);
        reports.state(id).set_refresh_interval(interval);
        let last_used = vec![0; pages as usize];
        Self {
            machine,
            id,
            last_used,
        }
    }

    /// A tenth of a second: each page whose turn it is.
    fn tick(&mut self, now: Millis) {
        let quarter = (self.last_used.len() / PERIODS.len()).max(1);
        for (page, last) in (0..).zip(&mut self.last_used) {
            let Some(period) = PERIODS[(page as usize / quarter).min(3)] else {
                continue;
            };
            let turn = u64::from(page) % (period * 10);
            if now.0 / 100 % (period * 10) == turn {
                self.machine.lruvec_mut(self.id).touch(FolioId(page));
                *last = now.0;
            }
        }
    }

    /// Pages by bin, from the times of their touches.
    fn truth(&self, now: Millis) -> Vec<u64> {
        let mut bins = vec![0; EDGES.len() + 1];
        for last in &self.last_used {
            let age = now.0 - last;
            let bin = EDGES.iter().position(|edge| age <= edge.0);
            bins[bin.unwrap_or(EDGES.len())] += 1;
        }
        bins
    }

    fn report(&mut self, now: Millis) -> PageAge {
        self.machine.refresh(self.id, now, &mut InWords);
        let state = self.machine.reports_mut().state(self.id);
        let report = state.report().expect("an enabled report");
        report.page_age.clone()
    }
}

fn one(pages: u32, interval: u64, mode: Aggregation) -> (Vec<u64>, Vec<u64>) {
    let interval = Millis(interval * 1000);
    let mut world = World::new(pages, interval, mode);
    let (mut reported, mut now) = (Vec::new(), Millis(0));
    for tick in 1..=SECONDS * 10 {
        now = Millis(tick * 100);
        world.tick(now);
        // A tick after the interval, so that it has passed.
        let report = world.report(now.after(Millis(1)));
        reported = report.bins().iter().map(|bin| bin.pages[0].0).collect();
    }
    (reported, world.truth(now))
}

/// The table, and conservation.
pub(super) fn run(settings: &Settings, outcome: &mut Outcome) {
    let pages = u32::try_from((PAGES / settings.scale).max(4096)).unwrap_or(4096);
    let mut table = Table::new(
        "Idle ages reported, and true (% of pages)",
        &[
            "refresh interval (s)",
            "aggregation",
            "<= 1 s",
            "<= 5 s",
            "<= 10 s",
            "<= 20 s",
            "older",
            "in a wrong bin",
        ],
    );
    let (mut kept, mut runs) = (0, 0);
    let share = |count: u64| Cell::Figure(number(count) * 100.0 / f64::from(pages));
    for interval in INTERVALS {
        for mode in [Aggregation::Exact, Aggregation::Compat] {
            let (reported, truth) = one(pages, interval, mode);
            let wrong: u64 = reported
                .iter()
                .zip(&truth)
                .map(|(a, b)| a.abs_diff(*b))
                .sum();
            kept += u64::from(reported.iter().sum::<u64>() == u64::from(pages));
            runs += 1;
            if interval == INTERVALS[0] && mode == Aggregation::Exact {
                table.row(row("", "the truth", &truth, share, Cell::Empty));
            }
            let name = format!("{mode:?}").to_lowercase();
            table.row(row(
                &interval.to_string(),
                &name,
                &reported,
                share,
                share(wrong / 2),
            ));
        }
    }
    outcome.tables.push(table);
    outcome.claims.push(Claim {
        what: format!("reports whose bins sum to the pages in memory, of {runs}"),
        document: None,
        ours: number(kept),
        holds: kept == runs,
    });
}

fn row(
    interval: &str,
    name: &str,
    bins: &[u64],
    share: impl Fn(u64) -> Cell,
    wrong: Cell,
) -> Vec<Cell> {
    let mut row = vec![Cell::Text(interval.to_owned()), Cell::Text(name.to_owned())];
    row.extend(bins.iter().map(|&bin| share(bin)));
    row.push(wrong);
    row
}
