//! Measures proactive reclaim that uses working-set reports: the memory and refaults of a program
//! with the document's policy and without it.
//! spec: workingset-report.md 9.

use super::super::Settings;
use crate::hardware;
use crate::in_words::InWords;
use crate::outcome::{By, Cell, Claim, Kind, Outcome, Picture, Series, Table};
use crate::rng::Rng;
use crate::stats::number;
use ::engine::machine::{MachineConfig, ReclaimRequest};
use ::engine::memcg::MemcgId;
use ::engine::vmstat::VmEvent;
use ::engine::workingset_report::Bins;
use ::engine::{FaultKind, FolioId, FolioType, Machine, Millis, ScanReason};

/// Number of pages in a MiB.
const MIB: u64 = 256;
/// Time between two runs of the document's policy, seconds.
const PERIOD: u64 = 40;
/// Minimum idle time of a cold page.
const COLD: Millis = Millis(10_000);

/// A program, with the pages that it touches in each second.
struct Program {
    name: &'static str,
    seconds: u64,
    pages: u64,
    second: fn(&mut Target, u64),
    /// Peak memory in the document, MiB: with the policy, then without.
    document: [f64; 2],
}

const PROGRAMS: [Program; 2] = [
    Program {
        name: "build: files read once, short-lived jobs",
        seconds: 680,
        pages: 10_000 * MIB,
        second: build,
        document: [4_982.613_28, 9_569.136_7],
    },
    Program {
        name: "store: keys by zipf 0.9, a quarter only loaded",
        seconds: 600,
        pages: 510 * MIB,
        second: store,
        document: [375.902_3, 509.765],
    },
];

/// A machine without limits, with one memcg.
struct Target {
    machine: Machine,
    id: MemcgId,
    rng: Rng,
    scale: u64,
    touches: u64,
}

impl Target {
    fn new(program: &Program, settings: &Settings) -> Self {
        let mut machine = Machine::new(MachineConfig::default(), Millis(0));
        let id = machine.create(MemcgId::ROOT, Millis(0));
        let pages = usize::try_from(program.pages / settings.scale).unwrap_or(0);
        machine.lruvec_mut(id).ensure(pages + 1);
        let edges = [1000, 2000, 5000, 10_000, 20_000, 40_000].map(Millis);
        let reports = machine.reports_mut();
        reports.set_bins(Bins::new(&edges).expect("increasing edges"));
        reports.state(id).set_refresh_interval(Millis(5000));
        Self {
            machine,
            id,
            rng: Rng::stream(settings.seed, 3),
            scale: settings.scale,
            touches: 0,
        }
    }

    fn touch(&mut self, page: u64, ty: FolioType) {
        let id = FolioId(u32::try_from(page).unwrap_or(u32::MAX));
        self.touches += 1;
        if !self.machine.lruvec_mut(self.id).touch(id) {
            let at = (self.id, id);
            hardware::fault(&mut self.machine, at, ty, FaultKind::Refault, true);
        }
    }

    fn touch_all(&mut self, from: u64, len: u64, ty: FolioType) {
        (from..from + len).for_each(|page| self.touch(page, ty));
    }

    /// Runs the document's policy once.
    fn reclaim_cold(&mut self, now: Millis) {
        self.machine.refresh(self.id, now, &mut InWords);
        let report = self.machine.reports_mut().state(self.id).report();
        let cold = report.map(|report| report.page_age.cold_bytes(COLD));
        let request =
            ReclaimRequest::new(ScanReason::Proactive, cold.unwrap_or_default().pages(), now);
        // The document's policy ignores how much was reclaimed, so this does, too.
        let _ = self
            .machine
            .proactive_reclaim(self.id, request, &mut InWords);
    }
}

/// Touches the pages of a build in the given second. There are 16 jobs, each with 250 MiB of memory
/// for 40 s; 8 MiB/s of files that are read once or twice; and 200 MiB of headers that all jobs
/// read.
fn build(target: &mut Target, second: u64) {
    // Each amount is scaled separately, because a rounding error of one MiB would be multiplied by
    // the scale in the results.
    let scale = target.scale;
    let mib = |mib: u64| mib * MIB / scale;
    let headers = mib(200);
    let (jobs, own) = (16, mib(250));
    target.touch_all(0, headers, FolioType::File);
    for job in 0..jobs {
        let age = (second + job * 40 / jobs) % 40;
        let from = headers + job * own;
        if age == 0 {
            let first = FolioId(u32::try_from(from).unwrap_or(u32::MAX));
            let len = usize::try_from(own).unwrap_or(0);
            target.machine.unmap_range(target.id, first, len);
        }
        // A job's memory grows for half of its life. Every other second the job uses all of it.
        let len = own * (age + 1).min(20) / 20;
        if (second + job).is_multiple_of(2) {
            target.touch_all(from, len, FolioType::Anon);
        }
    }
    let files = headers + jobs * own;
    target.touch_all(files + second * mib(8), mib(8), FolioType::File);
    if let Some(before) = second.checked_sub(5) {
        target.touch_all(files + before * mib(8), mib(4), FolioType::File);
    }
}

/// Touches the pages of a store in the given second. The store loads 510 MiB in 300 s; meanwhile,
/// requests go to three quarters of what is loaded.
fn store(target: &mut Target, second: u64) {
    let pages = 510 * MIB / target.scale;
    let loaded = |second: u64| pages * second.min(300) / 300;
    let (from, to) = (loaded(second), loaded(second + 1));
    target.touch_all(from, to - from, FolioType::Anon);
    let used = number(to * 3 / 4);
    for _ in 0..pages / 4 {
        // The inverse of a zipf distribution of exponent 0.9.
        let rank = used * target.rng.unit().powi(10);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 <= rank < pages"
        )]
        target.touch(rank as u64, FolioType::Anon);
    }
}

/// Memory, refaults and touches of one run, in pages.
#[derive(Clone, Copy, Debug)]
struct Run {
    peak: u64,
    mean: u64,
    refaults: u64,
    touches: u64,
}

fn run_one(program: &Program, settings: &Settings, with_policy: bool) -> Run {
    let mut target = Target::new(program, settings);
    let (mut peak, mut sum) = (0, 0);
    for second in 0..program.seconds {
        (program.second)(&mut target, second);
        let usage = target.machine.tree().get(target.id).usage().0;
        peak = peak.max(usage);
        sum += usage;
        let now = Millis((second + 1) * 1000);
        if with_policy && (second + 1) % PERIOD == 0 {
            target.reclaim_cold(now);
        } else if with_policy && (second + 1) % 5 == 0 {
            // The aging thread keeps the generations apart.
            target.machine.aging_thread(now, &mut InWords);
        }
    }
    target.machine.check_invariants();
    let stat = target.machine.lruvec(target.id).stat();
    Run {
        peak,
        mean: sum / program.seconds,
        refaults: stat.get(VmEvent::WorkingsetRefaultAnon)
            + stat.get(VmEvent::WorkingsetRefaultFile),
        touches: target.touches,
    }
}

/// Adds the table and its claims to `outcome`.
pub(super) fn run(settings: &Settings, outcome: &mut Outcome, progress: &mut dyn FnMut(f64)) {
    let mut table = Table::new(
        "All that is idle for 10 s goes every 40 s",
        &[
            "program",
            "policy",
            "peak (MiB)",
            "mean (MiB)",
            "peak saved (%)",
            "document's peak (MiB)",
            "document's peak saved (%)",
            "pages that came back (% of touches)",
        ],
    );
    let mib = |pages: u64| number(pages * settings.scale) / 256.0;
    let mut savings = Vec::new();
    for (n, program) in (1..).zip(&PROGRAMS) {
        let runs = [true, false].map(|with| run_one(program, settings, with));
        let saved = |peaks: [f64; 2]| (1.0 - peaks[0] / peaks[1]) * 100.0;
        let ours = saved(runs.map(|run| mib(run.peak)));
        for (with, run) in [(true, runs[0]), (false, runs[1])] {
            let only = |figure: f64| {
                if with {
                    Cell::Figure(figure)
                } else {
                    Cell::Empty
                }
            };
            table.row(vec![
                Cell::Text(program.name.to_owned()),
                Cell::Text(if with { "10 s / 40 s" } else { "none" }.to_owned()),
                Cell::Figure(mib(run.peak)),
                Cell::Figure(mib(run.mean)),
                only(ours),
                Cell::Figure(program.document[usize::from(!with)]),
                only(saved(program.document)),
                Cell::Figure(number(run.refaults) * 100.0 / number(run.touches)),
            ]);
        }
        outcome.claims.push(Claim {
            what: format!("{}: the policy lowers the mean (%)", program.name),
            document: None,
            ours: (1.0 - mib(runs[0].mean) / mib(runs[1].mean)) * 100.0,
            holds: runs[0].mean < runs[1].mean && runs[0].peak <= runs[1].peak,
        });
        savings.push([ours, saved(program.document)]);
        progress(number(n) / number(PROGRAMS.len() as u64));
    }
    outcome.tables.push(table);
    outcome.pictures.push(picture(&savings));
}

/// Returns a picture of the share of the peak that is saved: the simulator's and the document's.
fn picture(savings: &[[f64; 2]]) -> Picture {
    let bars = |name: &str, n: usize| Series::bars(name, savings.iter().map(|both| Some(both[n])));
    let programs = PROGRAMS.iter().map(|program| program.name.to_owned());
    Picture::new(
        "How much of its peak does a program save when all that is idle for 10 s goes every 40 s?",
        Kind::Bars(programs.collect()),
        [
            "program (the document's: a kernel compilation, Redis)",
            "peak saved (%)",
        ],
        vec![bars("ours", 0), bars("document", 1).by(By::Document)],
    )
}
