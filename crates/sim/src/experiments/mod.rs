//! The built-in experiments. Most repeat an experiment of a *source document*: a patch series for
//! Linux, numbered 000 to 004 (docs/experiments.md). The others test the engine's policies.
//!
//! Invariant: every experiment is in `ALL` under a unique name. Its deterministic results depend
//! only on `Settings`.

pub mod anon_workingset;
pub mod memcg_lru;
pub mod memcg_scale;
pub mod mmu_gather;
pub mod noreuse;
pub mod policies;
pub mod rstat;
pub mod workingset_report;

use crate::outcome::Outcome;

/// The settings of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Divisor of all sizes: 1 for the document's sizes, 16 in tests.
    pub scale: u64,
}

/// An experiment that `pagetide sim` can run by name.
pub struct Experiment {
    /// Name of the experiment on the command line.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Number of the source document, e.g. `000`; empty if the experiment has none.
    pub document: &'static str,
    /// Runs the experiment. The closure gets the completed share, 0 to 1.
    pub run: fn(&Settings, &mut dyn FnMut(f64)) -> Outcome,
}

/// All experiments, in the order of their documents.
pub const ALL: &[Experiment] = &[
    Experiment {
        name: "memcg-lru",
        about: "reclaim of the root takes from all memcgs alike, and takes what was asked for",
        document: "000",
        run: memcg_lru::run,
    },
    Experiment {
        name: "memcg-scale",
        about: "finding and reclaiming 1,024 pages costs the same with 10 tenants and with 100,000",
        document: "000",
        run: memcg_scale::run,
    },
    Experiment {
        name: "noreuse",
        about: "a stream marked FADV_NOREUSE leaves the hot set alone",
        document: "000",
        run: noreuse::run,
    },
    Experiment {
        name: "rstat",
        about: "reading the statistics of 1,000 memcgs: flushing against summing",
        document: "001",
        run: rstat::run,
    },
    Experiment {
        name: "anon-workingset",
        about: "protection and detection of the working set on the anon lists; ebizzy, 90 rows",
        document: "002",
        run: anon_workingset::run,
    },
    Experiment {
        name: "workingset-report",
        about: "idle-age reports: accuracy, rates, announcements, and reclaim by them",
        document: "003",
        run: workingset_report::run,
    },
    Experiment {
        name: "mmu-gather",
        about: "tearing 1 GiB of mappings down: by ranges against page by page",
        document: "004",
        run: mmu_gather::run,
    },
    Experiment {
        name: "promotion-rate",
        about: "the policy of that name: what comes back stays at 0.2% of what is in use, a minute",
        document: "",
        run: policies::promotion_rate,
    },
    Experiment {
        name: "pressure",
        about: "the policy of that name: a limit that comes to rest where tasks wait as long as they may",
        document: "",
        run: policies::pressure,
    },
    Experiment {
        name: "fit",
        about: "the policy of that name: a limit within a tenth of what the program needs",
        document: "",
        run: policies::fit,
    },
];
