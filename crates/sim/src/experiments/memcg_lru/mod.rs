//! Repeats the experiment of source document 000 (docs/experiments.md), the patch series of the
//! memcg LRU: reclaim of the root group takes equally from all memcgs, and takes the requested
//! amount.
//!
//! There are 128 memcgs; a program in each touches random pages, at the same rate in all. Then 256
//! MiB are written to memory.reclaim of the root, 600 times. The runs differ in how reclaim chooses
//! among memcgs: with the kernel's memcg LRU and the one of the document, with walks over the
//! hierarchy, by heat levels, and as `serve` does on a host. The walks and heat levels run with
//! generations, and with active and inactive lists. The last run has the memcg LRU and a tree of
//! three levels.
//!
//! The document's gain over "without the memcg LRU" does not show here. That kernel's walk
//! requested from every memcg all that was missing; the engine's walk requests what is still
//! missing. With active and inactive lists, this walk is fairer than the memcg LRU.
//! spec: memcg-lru.md 8.
//!
//! Invariant: every reclaim runs through the engine's tree, memcg LRU and generations. No result is
//! replaced by a random distribution.

mod pictures;
mod world;

pub use world::{Design, Run, World};

use super::Settings;
use crate::outcome::{Cell, Claim, Outcome, Table};
use crate::stats::{mean, number, stddev};
use crate::stopwatch::{Seconds, Stopwatch};
use engine::active_inactive::Stage;
use engine::machine::GlobalReclaim;
use engine::memcg::MemcgProfile;
use engine::{MachineConfig, Pages, Policy};

/// The two figures that the document prints, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// stddev(pgsteal) / mean(pgsteal).
    pub spread: f64,
    /// sum(pgsteal) / sum(requested).
    pub taken: f64,
}

/// The document's figures with the memcg LRU.
const DOCUMENT_ON: Figures = Figures {
    spread: 20.0,
    taken: 95.0,
};
/// The document's figures without the memcg LRU.
const DOCUMENT_OFF: Figures = Figures {
    spread: 75.0,
    taken: 425.0,
};

impl Run {
    /// Returns the same two figures for this run.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let pgsteal: Vec<f64> = self.pgsteal.iter().map(|&pages| number(pages)).collect();
        Figures {
            spread: stddev(&pgsteal) / mean(&pgsteal) * 100.0,
            taken: pgsteal.iter().sum::<f64>() / number(self.requested) * 100.0,
        }
    }
}

/// A part of the experiment: one way in which reclaim chooses among memcgs.
struct Part {
    name: &'static str,
    /// The document's figures for this way, or for the most similar way; `None` if it has none.
    document: Option<Figures>,
    config: MachineConfig,
    is_tree: bool,
}

/// Indices in the array that [`parts`] returns.
const LRU: usize = 0;
const ITERATOR: usize = 2;
const LISTS: usize = 3;
const HEAT: usize = 4;
const TREE: usize = 7;

/// Returns the parts, in the order in which they run.
fn parts(design: &Design) -> [Part; 8] {
    let pages = Pages(u64::from(design.memcgs) * u64::from(design.pages));
    let part = |name, document, config| Part {
        name,
        document,
        config,
        is_tree: false,
    };
    let lru = MachineConfig::default();
    let two_slots = MachineConfig {
        memcg_profile: MemcgProfile::Seed,
        ..lru
    };
    let iterator = MachineConfig {
        global: GlobalReclaim::Iterator,
        ..lru
    };
    let heat = MachineConfig {
        global: GlobalReclaim::HeatLevel,
        ..lru
    };
    let on_lists = |above: MachineConfig| MachineConfig {
        policy: Policy::ActiveInactive(Stage::default(), pages),
        ..above
    };
    let (on, off) = (Some(DOCUMENT_ON), Some(DOCUMENT_OFF));
    [
        part("memcg LRU", on, lru),
        part("memcg LRU of the series", on, two_slots),
        part("hierarchy iterator", off, iterator),
        part(
            "hierarchy iterator, active and inactive lists",
            off,
            on_lists(iterator),
        ),
        part("heat levels", None, heat),
        part(
            "heat levels, active and inactive lists",
            None,
            on_lists(heat),
        ),
        part(
            "memcg LRU as `serve` runs it",
            None,
            MachineConfig::of_host(),
        ),
        Part {
            is_tree: true,
            ..part("memcg LRU, three levels", on, lru)
        },
    ]
}

/// Runs the experiment.
pub(super) fn run(settings: &Settings, progress: &mut dyn FnMut(f64)) -> Outcome {
    let design = Design::document(settings.scale);
    let parts = parts(&design);
    let whole = number(parts.len() as u64);
    let (mut runs, mut took) = (Vec::new(), Vec::new());
    for part in &parts {
        let watch = Stopwatch::start();
        let of = if part.is_tree {
            design.in_tree()
        } else {
            design
        };
        let world = World::new(of, part.config, settings.seed);
        let before = number(runs.len() as u64);
        runs.push(world.experiment(&mut |done| progress((before + done) / whole)));
        took.push(watch.read());
    }
    let (lru, iterator, lists) = (&runs[LRU], &runs[ITERATOR], &runs[LISTS]);
    let mut claims = claims(&design, lru.figures(), iterator.figures());
    let tree = runs[TREE].figures().spread;
    claims.push(claim(
        "memcg LRU in a tree of three levels: stddev/mean of pgsteal <= 5%".to_owned(),
        DOCUMENT_ON.spread,
        tree,
        tree <= 5.0,
    ));
    Outcome {
        tables: vec![
            summary(&design, &parts, &runs),
            by_memcg([lru, iterator, &runs[HEAT]]),
        ],
        claims,
        pictures: pictures::pictures(lru, iterator),
        timings: vec![table_of_times(&parts, &took)],
        notes: notes(&design, lists.figures()),
    }
}

fn summary(design: &Design, parts: &[Part], runs: &[Run]) -> Table {
    let mut table = Table::new(
        "Reclaim of the root",
        &[
            "",
            "stddev/mean of pgsteal (%)",
            "the document's (%)",
            "pgsteal/requested (%)",
            "the document's (%) ",
            "EAGAIN",
            "refaults (pages)",
            "touches",
            "metadata (bytes a page)",
        ],
    );
    let pages = u64::from(design.memcgs) * u64::from(design.pages);
    for (Part { name, document, .. }, run) in parts.iter().zip(runs) {
        let ours = run.figures();
        let figure = |of: fn(&Figures) -> f64| {
            let document = document.as_ref().map(of);
            document.map_or(Cell::Empty, Cell::Figure)
        };
        table.row(vec![
            Cell::Text((*name).to_owned()),
            Cell::Figure(ours.spread),
            figure(|document| document.spread),
            Cell::Figure(ours.taken),
            figure(|document| document.taken),
            Cell::Count(run.again),
            Cell::Count(run.refaults.iter().sum()),
            Cell::Count(run.touches),
            Cell::Figure(number(run.footprint) / number(pages)),
        ]);
    }
    table
}

fn by_memcg(runs: [&Run; 3]) -> Table {
    let mut table = Table::new(
        "pgsteal of each memcg",
        &[
            "memcg",
            "memcg LRU (pages)",
            "hierarchy iterator (pages)",
            "heat levels (pages)",
        ],
    );
    for n in 0..runs[0].pgsteal.len() {
        let mut cells = vec![Cell::Count(n as u64)];
        cells.extend(runs.map(|run| Cell::Count(run.pgsteal[n])));
        table.row(cells);
    }
    table
}

/// Returns the table of the time that each part took.
fn table_of_times(parts: &[Part], took: &[Seconds]) -> Table {
    let mut table = Table::new(
        "Time of each part",
        &["", "on the clock (s)", "on the processor (s)"],
    );
    for (part, took) in parts.iter().zip(took) {
        table.row(vec![
            Cell::Text(part.name.to_owned()),
            Cell::Figure(took.wall_clock),
            took.processor.map_or(Cell::Empty, Cell::Figure),
        ]);
    }
    table
}

/// Returns the claims about the memcg LRU, which hold at any scale. They allow for one batch of
/// pages more than requested, because the batch size is not scaled.
fn claims_of_lru(design: &Design, lru: Figures) -> [Claim; 2] {
    let over = 100.0 + number(BATCH) / number(design.request) * 100.0;
    [
        claim(
            "memcg LRU: stddev/mean of pgsteal <= 5%".to_owned(),
            DOCUMENT_ON.spread,
            lru.spread,
            lru.spread <= 5.0,
        ),
        claim(
            format!(
                "memcg LRU: all that is requested, at most a batch of {BATCH} pages a write more: \
                 100 to {over:.2}%"
            ),
            DOCUMENT_ON.taken,
            lru.taken,
            (100.0..=over).contains(&lru.taken),
        ),
    ]
}

fn claim(what: String, document: f64, ours: f64, holds: bool) -> Claim {
    Claim {
        what,
        document: Some(document),
        ours,
        holds,
    }
}

fn claims(design: &Design, lru: Figures, iterator: Figures) -> Vec<Claim> {
    let mut claims = claims_of_lru(design, lru).to_vec();
    claims.push(claim(
        "iterator: takes more than was asked for".to_owned(),
        DOCUMENT_OFF.taken,
        iterator.taken,
        iterator.taken > lru.taken,
    ));
    if design.request >= BATCH * u64::from(design.memcgs) {
        claims.push(claim(
            "iterator: less fair than the memcg LRU".to_owned(),
            DOCUMENT_OFF.spread,
            iterator.spread,
            iterator.spread > lru.spread,
        ));
    }
    claims
}

/// Maximum number of pages that one reclaim step takes from a memcg; not scaled.
const BATCH: u64 = 64;

fn notes(design: &Design, lists: Figures) -> Vec<String> {
    let gain = format!(
        "The document's gain is not shown. Its \"without\" is the active/inactive LRU under a walk \
         that asked every memcg for all that was missing; our walk asks for what is still missing: \
         above active and inactive lists it takes {:.1}% of what is requested, with a stddev/mean \
         of {:.2}%.",
        lists.taken, lists.spread
    );
    let rows = "In the claims, \"iterator\" walks the hierarchy with the multi-gen LRU below, so that the \
        way of choosing memcgs is the only difference from the memcg LRU.";
    let mut notes = vec![gain, rows.to_owned()];
    if design.request < BATCH * u64::from(design.memcgs) {
        let part = u64::from(design.writes) * design.request / u64::from(design.memcgs);
        notes.push(format!(
            "At this scale a write asks for less than a batch of {BATCH} pages of each memcg, and batches are not \
             scaled: the iterator takes one of everybody each time, so it takes too much, and is fair. That it is \
             less fair is claimed down to 1/8 of the document's size. A memcg's part of all writes is {} batches \
             here: below some 100 (1/48) the spread is that of few draws.",
            part / BATCH
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
