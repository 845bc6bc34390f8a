//! Experiments of the source documents, one module each.
//!
//! Invariant: every experiment is in `ALL`, under one name, and its deterministic results depend on
//! `Settings` alone.

pub mod memcg_lru;

use crate::outcome::Outcome;

/// What a run is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Seed of everything random.
    pub seed: u64,
    /// Sizes are divided by this: 1 is the document's size, 16 that of the tests.
    pub scale: u64,
}

/// An experiment that `pagetide sim` can run by name.
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The source document, e.g. `000`.
    pub document: &'static str,
    /// Runs it; the closure is told the part done, 0 to 1.
    pub run: fn(&Settings, &mut dyn FnMut(f64)) -> Outcome,
}

/// All experiments, in the order of the documents.
pub const ALL: &[Experiment] = &[Experiment {
    name: "memcg-lru",
    about: "reclaim of the root takes from all memcgs alike, and takes what was asked for",
    document: "000",
    run: memcg_lru::run,
}];
