//! Reproduces a bug that was reported for the first version of the patch. That version, the same
//! with the fix, and the engine get the same updates and flushes.
//! spec: rstat.md 4.1.
//!
//! Invariant: a group counts as having lost changes if its own value differs, after a flush, from
//! the sum of its workers' counters.

use super::first_version::FirstVersion;
use crate::outcome::{Cell, Claim, Kind, Outcome, Picture, Series, Table};
use crate::rng::Rng;
use crate::stats::number;
use ::engine::rstat::{GroupId, Rstat};

const PAIRS: usize = 100;
/// Number of flushes in the run with random updates.
const ROUNDS: usize = 20;
/// Number of pages with which each group begins, so that no count is ever negative: the engine
/// reads a negative count as zero.
const BEGIN: i64 = 1000;

/// Pairs of a parent and its child, each in all three implementations.
struct Pairs {
    kernels: [FirstVersion; 2],
    engine: Rstat,
    /// Parent and child of each pair: for each, its number in the first version and its id in the
    /// engine.
    pairs: Vec<[(usize, GroupId); 2]>,
}

/// Number of parents that lost changes: in the first version, in the same with the fix, and in the
/// engine.
type Lost = [u64; 3];

const NAMES: [&str; 3] = ["first version", "first version, mended", "engine"];

impl Pairs {
    fn new(workers: usize) -> Self {
        let mut kernels = [false, true].map(|mended| FirstVersion::new(workers, mended));
        let mut engine = Rstat::new(1, workers);
        let mut create = |above: (usize, GroupId)| {
            let [a, b] = kernels.each_mut().map(|kernel| kernel.create(above.0));
            assert_eq!(a, b, "both make the same groups");
            (a, engine.create(above.1))
        };
        let pairs = (0..PAIRS).map(|_| {
            let parent = create((0, GroupId::ROOT));
            [parent, create(parent)]
        });
        let pairs = pairs.collect();
        let mut all = Self {
            kernels,
            engine,
            pairs,
        };
        for at in 0..2 * PAIRS {
            all.update(0, all.pairs[at / 2][at % 2], BEGIN);
        }
        all.flush();
        all
    }

    fn update(&mut self, worker: usize, group: (usize, GroupId), delta: i64) {
        for kernel in &mut self.kernels {
            kernel.update(worker, group.0, delta);
        }
        self.engine.update(worker, group.1, 0, delta);
    }

    fn flush(&mut self) {
        self.kernels.iter_mut().for_each(FirstVersion::flush);
        self.engine.flush(GroupId::ROOT);
    }

    fn lost(&self) -> Lost {
        let count = |is_lost: &dyn Fn(usize, GroupId) -> bool| {
            let parents = self.pairs.iter().map(|pair| pair[0]);
            parents.filter(|&(number, id)| is_lost(number, id)).count() as u64
        };
        let kernel = |n: usize| {
            count(&|number, _| {
                let (local, sum) = self.kernels[n].local(number);
                local != sum
            })
        };
        let engine =
            count(&|_, id| self.engine.local(id, 0) != self.engine.local_by_summing(id, 0));
        [kernel(0), kernel(1), engine]
    }

    /// Returns whether all implementations have the same totals of the parents, which include their
    /// children. These totals are right also in the first version.
    fn totals_agree(&self) -> bool {
        self.pairs.iter().map(|pair| pair[0]).all(|(number, id)| {
            let engine = i64::try_from(self.engine.total(id, 0));
            self.kernels.iter().all(|k| engine == Ok(k.total(number)))
        })
    }
}

/// The reported case: children free as many pages as their parents charge, on the same worker.
/// Returns the numbers of [`Lost`], and whether the totals agree.
fn opposite() -> (Lost, bool) {
    let mut all = Pairs::new(1);
    for (pages, [parent, child]) in (1..).zip(all.pairs.clone()) {
        all.update(0, child, -pages);
        all.update(0, parent, pages);
    }
    all.flush();
    (all.lost(), all.totals_agree())
}

/// Makes random updates of 1 to 4 pages, up or down. Returns the numbers of [`Lost`], and whether
/// the totals agree.
fn at_random(seed: u64) -> (Lost, bool) {
    let (mut all, mut rng) = (Pairs::new(4), Rng::stream(seed, 4));
    for _ in 0..ROUNDS {
        for pair in all.pairs.clone() {
            for group in pair {
                let pages = i64::from(rng.below(4) + 1);
                let delta = if rng.below(2) == 0 { pages } else { -pages };
                all.update(rng.below(4) as usize, group, delta);
            }
        }
        all.flush();
    }
    (all.lost(), all.totals_agree())
}

/// Adds the table, the picture and the claims to `outcome`.
pub(super) fn run(seed: u64, outcome: &mut Outcome) {
    let cases = [
        ("children free what their parents charge", opposite()),
        (
            "1 to 4 pages more or less, 4 workers, 20 flushes",
            at_random(seed),
        ),
    ];
    let mut table = Table::new(
        "Parents whose own value was lost, of 100",
        &["updates", NAMES[0], NAMES[1], NAMES[2]],
    );
    for (name, (lost, _)) in &cases {
        let mut row = vec![Cell::Text((*name).to_owned())];
        row.extend(lost.map(Cell::Count));
        table.row(row);
    }
    outcome.tables.push(table);
    let of = |n: usize| {
        let values = cases.iter().map(|(_, (lost, _))| Some(number(lost[n])));
        Series::bars(NAMES[n], values)
    };
    outcome.pictures.push(Picture::new(
        "How many parents lose their own value for ever to the first version's bug?",
        Kind::Bars(cases.iter().map(|(name, _)| (*name).to_owned()).collect()),
        [
            "what is updated between two flushes",
            "parents that lost it, of 100",
        ],
        vec![of(0), of(1), of(2)],
    ));
    let sum = |n: usize| number(cases.iter().map(|(_, (lost, _))| lost[n]).sum());
    let right = cases.iter().filter(|(_, (_, agree))| *agree).count() as u64;
    let claim = |what: &str, ours: f64, holds| Claim {
        what: what.to_owned(),
        document: None,
        ours,
        holds,
    };
    outcome.claims.extend([
        claim(
            "the first version loses parents' own values, in the thread's case all (of 100)",
            number(cases[0].1.0[0]),
            cases[0].1.0[0] == PAIRS as u64,
        ),
        claim(
            "mended by its one test it loses none, so that test is the bug",
            sum(1),
            sum(1) == 0.0,
        ),
        claim("the engine loses none", sum(2), sum(2) == 0.0),
        claim(
            "values with all below are right in all three (cases of 2)",
            number(right),
            right == 2,
        ),
    ]);
}
