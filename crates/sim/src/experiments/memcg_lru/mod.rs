//! Document 000: reclaim of the root takes from all memcgs alike, and takes what was asked for.
//!
//! 128 memcgs touch all they have, at random and at one rate; 600 times 256 MiB are written to
//! memory.reclaim of the root. In the same run the walk over the hierarchy that the memcg LRU
//! replaced, with the same tenants, touches and requests; and the memcg LRU with the tenants in a tree of three
//! levels. spec: memcg-lru.md 8.
//!
//! Invariant: everything goes through the engine's tree, memcg LRU and generations; nothing is drawn
//! from a distribution that stands for them.

mod pictures;
mod world;

pub use world::{Design, Run, World};

use super::Settings;
use crate::outcome::{Cell, Claim, Outcome, Table};
use crate::stats::{mean, number, stddev};
use crate::stopwatch::{Seconds, Stopwatch};
use engine::Policy;
use engine::machine::GlobalReclaim;

/// The two figures of the document, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// stddev(pgsteal) / mean(pgsteal).
    pub spread: f64,
    /// sum(pgsteal) / sum(requested).
    pub taken: f64,
}

/// With the memcg LRU, in the document.
const DOCUMENT_ON: Figures = Figures {
    spread: 20.0,
    taken: 95.0,
};
/// Without.
const DOCUMENT_OFF: Figures = Figures {
    spread: 75.0,
    taken: 425.0,
};

impl Run {
    /// The document's figures of this run.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let pgsteal: Vec<f64> = self.pgsteal.iter().map(|&pages| number(pages)).collect();
        Figures {
            spread: stddev(&pgsteal) / mean(&pgsteal) * 100.0,
            taken: pgsteal.iter().sum::<f64>() / number(self.requested) * 100.0,
        }
    }
}

/// Runs the experiment.
pub(super) fn run(settings: &Settings, progress: &mut dyn FnMut(f64)) -> Outcome {
    let design = Design::document(settings.scale);
    let mut part = |design, global, from: f64| {
        let watch = Stopwatch::start();
        let world = World::new(design, Policy::default(), global, settings.seed);
        let run = world.experiment(&mut |done| progress((from + done) / 3.0));
        (run, watch.read())
    };
    let (lru, lru_took) = part(design, GlobalReclaim::MemcgLru, 0.0);
    let (iterator, iterator_took) = part(design, GlobalReclaim::Iterator, 1.0);
    let (tree, tree_took) = part(design.in_tree(), GlobalReclaim::MemcgLru, 2.0);
    let mut claims = claims(&design, lru.figures(), iterator.figures());
    claims.push(claim(
        "memcg LRU in a tree of three levels: stddev/mean of pgsteal <= 5%".to_owned(),
        DOCUMENT_ON.spread,
        tree.figures().spread,
        tree.figures().spread <= 5.0,
    ));
    Outcome {
        tables: vec![
            summary(&design, [&lru, &iterator, &tree]),
            by_memcg(&lru, &iterator),
        ],
        claims,
        pictures: pictures::pictures(&lru, &iterator),
        timings: vec![seconds([&lru_took, &iterator_took, &tree_took])],
        notes: notes(&design),
    }
}

/// The parts of the experiment, in the order that they are made.
const PARTS: [(&str, Figures); 3] = [
    ("memcg LRU", DOCUMENT_ON),
    ("hierarchy iterator", DOCUMENT_OFF),
    ("memcg LRU, three levels", DOCUMENT_ON),
];

fn summary(design: &Design, runs: [&Run; 3]) -> Table {
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
    for ((name, document), run) in PARTS.into_iter().zip(runs) {
        let ours = run.figures();
        table.row(vec![
            Cell::Text(name.to_owned()),
            Cell::Figure(ours.spread),
            Cell::Figure(document.spread),
            Cell::Figure(ours.taken),
            Cell::Figure(document.taken),
            Cell::Count(run.again),
            Cell::Count(run.refaults.iter().sum()),
            Cell::Count(run.touches),
            Cell::Figure(number(run.footprint) / number(pages)),
        ]);
    }
    table
}

fn by_memcg(lru: &Run, iterator: &Run) -> Table {
    let mut table = Table::new(
        "pgsteal of each memcg",
        &["memcg", "memcg LRU (pages)", "hierarchy iterator (pages)"],
    );
    for (n, (&lru, &iterator)) in (0..).zip(lru.pgsteal.iter().zip(&iterator.pgsteal)) {
        table.row(vec![
            Cell::Count(n),
            Cell::Count(lru),
            Cell::Count(iterator),
        ]);
    }
    table
}

fn seconds(parts: [&Seconds; 3]) -> Table {
    let mut table = Table::new(
        "Time of each part",
        &["", "on the clock (s)", "on the processor (s)"],
    );
    for ((name, _), took) in PARTS.into_iter().zip(parts) {
        table.row(vec![
            Cell::Text(name.to_owned()),
            Cell::Figure(took.wall),
            took.processor.map_or(Cell::Empty, Cell::Figure),
        ]);
    }
    table
}

/// What must hold of the memcg LRU, at any scale: what is not scaled, a batch, is allowed for.
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

/// Pages that a memcg gives at a time; they are not scaled.
const BATCH: u64 = 64;

fn notes(design: &Design) -> Vec<String> {
    let note = "The document's \"without\" is the active/inactive LRU under a hierarchy walk of that \
        time; ours walks the hierarchy with the multi-gen LRU below, so that the way of choosing \
        memcgs is the only difference between the two rows.";
    let mut notes = vec![note.to_owned()];
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
