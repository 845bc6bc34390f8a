//! How evenly a reclaim of all tenants takes from equal tenants, for the sweep of `bench tenants`.
//!
//! Invariant: the tenants of one measurement are equal: the same program, size and rate.

use std::time::Duration;

use crate::guard::Running;
use crate::idle_program::IdleProgram;
use crate::tenants::{Tree, start_busy};
use crate::wait;

/// How `serve` chooses among tenants: the values of its option `--global`.
pub const PICKERS: [&str; 3] = ["memcg-lru", "iterator", "heat-level"];

/// Time limit for scans to find the memory of all tenants.
const KNOWN: Duration = Duration::from_secs(180);
/// Time in which each page of a busy tenant is touched once.
pub const TOUCHED: Duration = Duration::from_millis(2500);
/// Time before the first request, in which scans open generations: more than two intervals.
const FIRST_SCANS: Duration = Duration::from_secs(25);
/// EAGAIN: less was reclaimed than requested.
const TRY_AGAIN: i32 = 11;
/// Pages in a MiB.
const MIB_PAGES: u64 = 256;

/// What tenants do with their memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heat {
    /// Nothing.
    Idle,
    /// They touch each page once in [`TOUCHED`].
    Busy,
}

impl Heat {
    /// The heat in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Heat::Idle => "idle",
            Heat::Busy => "touched each 2.5 s",
        }
    }
}

/// Equal tenants, and how they are reclaimed from.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of tenants.
    pub tenants: u64,
    /// Size of each, MiB.
    pub mib: u64,
    /// What they do.
    pub heat: Heat,
    /// Number of requests in which a tenth of the memory is requested. As many further requests
    /// follow, after which a half has been requested in total.
    pub rounds: u64,
    /// Pause after each request.
    pub rest: Duration,
}

/// The pages that were reclaimed from equal tenants.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReclaimedPages {
    /// Pages reclaimed from each tenant.
    pub steals: Vec<f64>,
    /// Pages requested.
    pub requested: f64,
    /// Number of requests that reclaimed less than they requested.
    pub refused: usize,
}

impl ReclaimedPages {
    /// Sum over all tenants.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.steals.iter().sum()
    }

    /// Standard deviation of the pages reclaimed from each tenant, in percent of the mean.
    #[must_use]
    pub fn spread(&self) -> f64 {
        let nr = self.steals.len() as f64;
        let mean = self.sum() / nr;
        let squares = self.steals.iter().map(|one| (one - mean) * (one - mean));
        100.0 * (squares.sum::<f64>() / nr).sqrt() / mean
    }

    /// Reclaimed pages in percent of the requested pages.
    #[must_use]
    pub fn percent(&self) -> f64 {
        100.0 * self.sum() / self.requested
    }
}

/// The running programs, one in each tenant.
#[expect(dead_code, reason = "they end when they are dropped")]
enum Programs {
    Idle(Vec<IdleProgram>),
    Busy(Vec<Running>),
}

impl Shape {
    /// Memory of all tenants, MiB.
    #[must_use]
    pub fn total_mib(&self) -> u64 {
        self.tenants * self.mib
    }

    /// Measures reclaim from fresh tenants by one picker: first a tenth of their memory is
    /// requested, then more until it is a half. Returns what was taken by then each time.
    ///
    /// # Panics
    /// If the tenants cannot be made, or a request fails for another reason than EAGAIN.
    #[must_use]
    pub fn measure(&self, picker: &str) -> [ReclaimedPages; 2] {
        let tree = Tree::serve(&["--global", picker]);
        let _programs = self.start(&tree);
        wait::until("the memory of all is known", KNOWN, || {
            tree.line("memory.stat", "anon") >= self.total_mib() << 20
        });
        std::thread::sleep(FIRST_SCANS);
        let pages = self.total_mib() * MIB_PAGES;
        let mut taken = ReclaimedPages::default();
        [pages / 10, pages * 4 / 10].map(|amount| {
            self.request(&tree, amount, &mut taken);
            taken.clone()
        })
    }

    /// Starts the program of each tenant.
    fn start(&self, tree: &Tree) -> Programs {
        let names = (0..self.tenants).map(name);
        let made = names.inspect(|name| tree.make(name));
        match self.heat {
            Heat::Idle => Programs::Idle(
                made.map(|name| IdleProgram::start(tree.inside(&name), self.mib))
                    .collect(),
            ),
            Heat::Busy => Programs::Busy(
                made.map(|name| start_busy(tree, &name, self.mib, TOUCHED))
                    .collect(),
            ),
        }
    }

    /// Requests `amount` pages from all tenants, in rounds; updates what was taken.
    fn request(&self, tree: &Tree, amount: u64, taken: &mut ReclaimedPages) {
        let each = (amount / self.rounds).max(1);
        for _ in 0..self.rounds {
            match tree.try_write("memory.reclaim", &(each * 4096).to_string()) {
                Ok(()) => {}
                Err(TRY_AGAIN) => taken.refused += 1,
                Err(errno) => panic!("memory.reclaim: {errno}"),
            }
            std::thread::sleep(self.rest);
        }
        taken.requested += (each * self.rounds) as f64;
        let steal = |at| tree.line(&format!("{}/memory.stat", name(at)), "pgsteal") as f64;
        taken.steals = (0..self.tenants).map(steal).collect();
    }
}

/// Name of the tenant with this number.
fn name(at: u64) -> String {
    format!("t{at}")
}

/// The shapes of a sweep: each number of tenants with each size, if all of them together have at
/// most `most_mib` MiB.
#[must_use]
pub fn shapes(tenants: &[u64], sizes: &[u64], most_mib: u64) -> Vec<(u64, u64)> {
    let pairs = tenants
        .iter()
        .flat_map(|nr| sizes.iter().map(move |mib| (*nr, *mib)));
    pairs.filter(|(nr, mib)| nr * mib <= most_mib).collect()
}
