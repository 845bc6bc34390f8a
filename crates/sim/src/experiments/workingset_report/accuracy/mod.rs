//! Compares the histograms of ages in working-set reports with the exact ones, for pages that are
//! used every 1, 4 or 16 s, or never again.

mod results;

use super::super::Settings;
use crate::hardware;
use crate::in_words::InWords;
use crate::outcome::Outcome;
use crate::stats::number;
use ::engine::lru_gen::Profile;
use ::engine::machine::MachineConfig;
use ::engine::memcg::MemcgId;
use ::engine::workingset_report::{Aggregation, Bins, PageAge};
use ::engine::{FaultKind, FolioId, FolioType, Machine, Millis, Policy};

const PAGES: u64 = 1 << 18;
/// Seconds between two uses of a page, for each quarter of the pages.
const PERIODS: [Option<u64>; 4] = [Some(1), Some(4), Some(16), None];
const EDGES: [Millis; 4] = [Millis(1000), Millis(5000), Millis(10_000), Millis(20_000)];
const SECONDS: u64 = 60;
const INTERVALS: [u64; 4] = [1, 2, 5, 10];
/// The upper edge of the oldest bin that has one.
const COARSEST: Millis = EDGES[EDGES.len() - 1];

struct World {
    machine: Machine,
    id: MemcgId,
    last_used: Vec<u64>,
}

impl World {
    fn new(pages: u32, reporting: Reporting) -> Self {
        let config = MachineConfig {
            policy: Policy::MultiGen(reporting.profile),
            ..MachineConfig::default()
        };
        let mut machine = Machine::new(config, Millis(0));
        let id = machine.create(MemcgId::ROOT, Millis(0));
        machine.lruvec_mut(id).ensure(pages as usize);
        for page in (0..pages).map(FolioId) {
            let (ty, kind) = (FolioType::Anon, FaultKind::FirstTouch);
            hardware::fault(&mut machine, (id, page), ty, kind, true);
        }
        let reports = machine.reports_mut();
        reports.set_bins(Bins::new(&EDGES).expect("increasing edges"));
        reports.set_aggregation(reporting.mode);
        reports.state(id).set_refresh_interval(reporting.interval());
        let last_used = vec![0; pages as usize];
        Self {
            machine,
            id,
            last_used,
        }
    }

    /// Simulates a tenth of a second: touches each page whose period has passed.
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

    /// Returns the exact number of pages in each bin, from the times of their touches.
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

/// The settings of a run: how ages are collected and reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reporting {
    /// Seconds between two refreshes.
    interval: u64,
    mode: Aggregation,
    profile: Profile,
}

/// The pairs of aggregation and profile that are compared at each interval.
const WAYS: [(Aggregation, Profile); 3] = [
    (Aggregation::Exact, Profile::P616),
    (Aggregation::Compat, Profile::P616),
    (Aggregation::Exact, Profile::P63),
];

impl Reporting {
    fn interval(self) -> Millis {
        Millis(self.interval * 1000)
    }

    /// Returns whether the aggregation is exact, by the rules of this profile.
    fn is_exact_by(self, profile: Profile) -> bool {
        (self.mode, self.profile) == (Aggregation::Exact, profile)
    }
}

/// The last report of a run, and the exact numbers at the same time.
struct Row {
    reporting: Reporting,
    /// Number of pages in each bin: as reported, and (`truth`) exact.
    reported: Vec<u64>,
    truth: Vec<u64>,
    /// For each edge: number of pages whose idle time is at least an interval shorter than the
    /// edge.
    well_within: Vec<u64>,
}

fn run_one(pages: u32, reporting: Reporting) -> Row {
    let mut world = World::new(pages, reporting);
    let (mut reported, mut now) = (Vec::new(), Millis(0));
    for tick in 1..=SECONDS * 10 {
        now = Millis(tick * 100);
        world.tick(now);
        // The report is read one millisecond later, so that the refresh interval has passed.
        let report = world.report(now.after(Millis(1)));
        reported = report.bins().iter().map(|bin| bin.pages[0].0).collect();
    }
    let well_within = EDGES.map(|edge| {
        let most = edge.0.checked_sub(reporting.interval().0);
        let young = |last: &&u64| most.is_some_and(|most| now.0 - **last <= most);
        world.last_used.iter().filter(young).count() as u64
    });
    Row {
        reporting,
        reported,
        truth: world.truth(now),
        well_within: well_within.into(),
    }
}

/// Returns the number of pages up to each edge, from the numbers in each bin.
fn cumulated(bins: &[u64]) -> Vec<u64> {
    let mut sum = 0;
    let up_to = bins.iter().map(|bin| {
        sum += bin;
        sum
    });
    up_to.take(EDGES.len()).collect()
}

/// Returns the minimum number of pages that are in a wrong bin. The sum of differences counts each
/// of them twice: in the bin where it is missing and in the bin where it is too many.
fn misplaced(reported: &[u64], truth: &[u64]) -> u64 {
    let apart = reported.iter().zip(truth).map(|(a, b)| a.abs_diff(*b));
    apart.sum::<u64>() / 2
}

impl Row {
    fn wrong(&self) -> u64 {
        misplaced(&self.reported, &self.truth)
    }

    /// Returns whether generations can distinguish ages below and above this edge. They can only if
    /// it is one, two or three whole intervals.
    fn is_in_reach(&self, edge: Millis) -> bool {
        let interval = self.reporting.interval().0;
        edge.0.is_multiple_of(interval) && edge.0 <= 3 * interval
    }

    /// Returns three numbers for each edge in reach. They are the pages reported with at most this
    /// age; the pages with at most this age; and the minimum to be reported if each page may be
    /// reported one interval too old.
    fn in_reach(&self) -> Vec<[u64; 3]> {
        let [reported, truth] = [&self.reported, &self.truth].map(|bins| cumulated(bins));
        let edges = (0..EDGES.len()).filter(|&n| self.is_in_reach(EDGES[n]));
        edges
            .map(|n| [reported[n], truth[n], self.well_within[n]])
            .collect()
    }

    /// Returns the same as [`Self::wrong`], for the wider bins between edges in reach.
    fn wrong_in_reach(&self) -> u64 {
        let whole = |of: usize| {
            let mut below = 0;
            let edges = self.in_reach().into_iter().map(|edge| edge[of]);
            let all: u64 = self.truth.iter().sum();
            edges
                .chain([all])
                .map(|up_to| up_to - std::mem::replace(&mut below, up_to))
                .collect::<Vec<u64>>()
        };
        misplaced(&whole(0), &whole(1))
    }
}

/// Adds the tables, pictures and claims to `outcome`.
pub(super) fn run(settings: &Settings, outcome: &mut Outcome) {
    let pages = u32::try_from((PAGES / settings.scale).max(4096)).unwrap_or(4096);
    let reportings = INTERVALS.into_iter().flat_map(|interval| {
        WAYS.map(|(mode, profile)| Reporting {
            interval,
            mode,
            profile,
        })
    });
    let rows: Vec<Row> = reportings
        .map(|reporting| run_one(pages, reporting))
        .collect();
    let percent = |count: u64| number(count) * 100.0 / f64::from(pages);
    outcome.tables.push(results::table(&rows, percent));
    outcome.pictures.extend(results::pictures(&rows, percent));
    outcome.claims.extend(results::claims(&rows, percent));
}
