//! The first experiment: memory that becomes hot late, beside cold memory.
//! spec: workingset.md 9.
//!
//! A program first reads its cold memory, touches hot-1 until it is active, and then allocates
//! hot-2. Each repetition after that reads a quarter of the cold memory, then hot-2. So cold pages
//! refault after four repetitions, and pages of hot-2 after one; hot-1 is never used again.

use super::document::SCENARIO;
use super::kernel::{Kernel, Machine};
use crate::outcome::{By, Cell, Claim, Kind, Outcome, Picture, Series, Table};
use crate::stats::number;
use ::engine::vmstat::VmEvent;
use ::engine::{FolioId, Millis, Pages};
use std::ops::Range;

/// Number of pages in a MiB.
const MIB: u64 = 256;
const COLD: u64 = 512 * MIB;
const HOT: u64 = 96 * MIB;
const COLD_PART: u64 = 128 * MIB;
const MEMORY: u64 = 280 * MIB;

/// Number of repetitions. The document does not say how many; with 20, the totals of base and
/// detection are within 3% of the document's.
const ROUNDS: u64 = 20;

/// Pages swapped in, pages swapped out.
type Swapped = (f64, f64);

fn run(kernel: Kernel, scale: u64) -> Swapped {
    let pages = |n: u64| u32::try_from(n / scale).unwrap_or(u32::MAX);
    let (cold, hot, part) = (pages(COLD), pages(HOT), pages(COLD_PART));
    let limit = Pages(MEMORY / scale);
    let mut machine = Machine::new(kernel, cold + 2 * hot, limit, 1);
    let mut step = 0;
    let mut access = |machine: &mut Machine, range: Range<u32>| {
        step += 1;
        machine.tenant_mut().at(Millis(step * 1000));
        range.for_each(|page| machine.touch(page, 0));
    };
    access(&mut machine, 0..cold);
    access(&mut machine, cold..cold + hot);
    activate(&mut machine, cold..cold + hot);
    access(&mut machine, cold + hot..cold + 2 * hot);
    for round in 0..ROUNDS {
        let from = pages(round * COLD_PART % COLD);
        access(&mut machine, from..from + part);
        access(&mut machine, cold + hot..cold + 2 * hot);
    }
    let stat = |event| number(machine.tenant().stat(event));
    (stat(VmEvent::Pswpin), stat(VmEvent::Pswpout))
}

/// Touches these pages until they are on the active list.
fn activate(machine: &mut Machine, range: Range<u32>) {
    let lruvec = machine.tenant_mut().lruvec_mut();
    for page in range.map(FolioId) {
        lruvec.mark_accessed(page);
        lruvec.mark_accessed(page);
        lruvec.touch(page);
    }
}

/// Returns the results: a table, its picture and the claims.
pub(super) fn outcome(scale: u64) -> Outcome {
    let runs = Kernel::ALL.map(|kernel| (kernel, run(kernel, scale)));
    let times = number(scale);
    Outcome {
        tables: vec![table(&runs, times)],
        claims: claims(&runs),
        pictures: vec![picture(&runs, times)],
        ..Outcome::default()
    }
}

type Runs = [(Kernel, Swapped); Kernel::ALL.len()];

fn of(runs: &Runs, wanted: Kernel) -> Swapped {
    let found = runs.iter().find(|(kernel, _)| *kernel == wanted);
    found.map_or((0.0, 0.0), |(_, swapped)| *swapped)
}

fn table(runs: &Runs, times: f64) -> Table {
    let mut table = Table::new(
        "Hot memory that was allocated late (pages)",
        &[
            "kernel",
            "swap-in",
            "change (%)",
            "swap-out",
            "change (%) ",
            "document's swap-in",
            "document's change (%)",
            "document's swap-out",
            "document's change (%) ",
        ],
    );
    let base = of(runs, Kernel::Base);
    for (kernel, ours) in runs {
        let mut row = vec![
            Cell::Text(kernel.name().to_owned()),
            Cell::Figure(ours.0 * times),
            Cell::Figure(percent(ours.0, base.0)),
            Cell::Figure(ours.1 * times),
            Cell::Figure(percent(ours.1, base.1)),
        ];
        row.extend(documents(*kernel));
        table.row(row);
    }
    table
}

fn picture(runs: &Runs, times: f64) -> Picture {
    let thousands = |pages: f64| Some(pages / 1000.0);
    let [was, is] = SCENARIO;
    let documents = |kernel: Kernel| match kernel {
        Kernel::Base => Some(was),
        Kernel::Detection => Some(is),
        _ => None,
    };
    let ours = |of: fn(Swapped) -> f64| runs.map(|(_, swapped)| thousands(of(swapped) * times));
    let theirs = |of: fn(Swapped) -> f64| {
        runs.map(|(kernel, _)| documents(kernel).and_then(|swapped| thousands(of(swapped))))
    };
    let [ins, outs]: [fn(Swapped) -> f64; 2] = [|swapped| swapped.0, |swapped| swapped.1];
    let document = |name: &str, values| Series::bars(name, values).by(By::Document);
    Picture::new(
        "Hot memory that was allocated late: how much is swapped?",
        Kind::Bars(runs.map(|(kernel, _)| kernel.name().to_owned()).into()),
        ["kernel", "pages (thousands)"],
        vec![
            Series::bars("swapped in", ours(ins)),
            document("swapped in, document", theirs(ins)),
            Series::bars("swapped out", ours(outs)),
            document("swapped out, document", theirs(outs)),
        ],
    )
}

fn claims(runs: &Runs) -> Vec<Claim> {
    let [base, prot, detect] =
        [Kernel::Base, Kernel::Protection, Kernel::Detection].map(|kernel| of(runs, kernel));
    let claim = |what: &str, document, before, after| Claim {
        what: what.to_owned(),
        document,
        ours: percent(after, before),
        holds: after < before,
    };
    let [was, is] = SCENARIO;
    vec![
        claim(
            "scenario: detection swaps in less than base (%)",
            Some(percent(is.0, was.0)),
            base.0,
            detect.0,
        ),
        claim(
            "scenario: detection swaps out less than base (%)",
            Some(percent(is.1, was.1)),
            base.1,
            detect.1,
        ),
        claim(
            "scenario: detection swaps in less than protection alone (%)",
            None,
            prot.0,
            detect.0,
        ),
    ]
}

fn percent(after: f64, before: f64) -> f64 {
    (after / before - 1.0) * 100.0
}

fn documents(kernel: Kernel) -> [Cell; 4] {
    let [base, patch] = SCENARIO;
    let (ins, outs) = match kernel {
        Kernel::Base => base,
        Kernel::Detection => patch,
        _ => return [const { Cell::Empty }; 4],
    };
    [ins, percent(ins, base.0), outs, percent(outs, base.1)].map(Cell::Figure)
}
