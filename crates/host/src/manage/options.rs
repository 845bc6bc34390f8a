//! What a manager is asked for, and what it answers.

use std::time::Duration;

use engine::policy::WriteBudget;
pub use engine::vmscan::Kept;
use engine::{Bytes, Limit, Millis, Swappiness, policy};
use serde::{Deserialize, Serialize};

use crate::swap::Tier;
use crate::system::family::Target;

/// Limits of a tenant, with the meaning of cgroup v2's files of these names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Never reclaimed for another tenant below this.
    pub min: Limit,
    /// Reclaimed below this only if nothing else is left.
    pub low: Limit,
    /// Reclaimed above this, and slowed where a control group lets us.
    pub high: Limit,
    /// Never above this: a control group of our own sees to it, else it holds between two looks.
    pub max: Limit,
    /// At most so much in swap by our hand.
    pub swap_max: Limit,
}

/// Protects nothing.
const NOTHING: Limit = Limit::Bytes(Bytes(0));

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            min: NOTHING,
            low: NOTHING,
            high: Limit::Max,
            max: Limit::Max,
            swap_max: Limit::Max,
        }
    }
}

/// What a manager is made with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose memory.
    pub target: Target,
    /// Time between two looks, where nothing asks for more of them.
    pub interval: Duration,
    /// The longest that clearing accessed bits may hold up a program that takes page faults.
    pub max_wait: Option<Duration>,
    /// Its limits.
    pub limits: Limits,
    /// Active and inactive lists instead of generations.
    pub classic: bool,
    /// Anonymous memory against files.
    pub swappiness: Swappiness,
    /// What leaves though no limit asks for it.
    pub policy: Option<policy::Settings>,
    /// What is out and was not used for so long goes on to a disk.
    pub write_back: Option<(WriteBackAsked, Millis)>,
    /// Decide, say why, and move nothing.
    pub dry_run: bool,
}

/// What is out is to go on from compressed memory to the disk behind it.
#[derive(Clone, Debug)]
pub struct WriteBackAsked {
    /// From which zram.
    pub tier: Tier,
    /// How much.
    pub budget: WriteBudget,
    /// It is decided and said why, and nothing is written.
    pub dry_run: bool,
}

/// What may be asked of a manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// So many bytes, the coldest first.
    Bytes(u64),
    /// What was not accessed for so long.
    OlderThan(Duration),
    /// Everything that is not in use this moment (parking).
    All,
}

/// What a reclaim got.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reclaimed {
    /// Pages that were asked for; as many as there are, by age or for all.
    pub asked_pages: u64,
    /// Pages that left, by the kernel's tables.
    pub evicted_pages: u64,
    /// Pages that would have, in a dry run.
    pub would_pages: u64,
    /// Pages that did not.
    pub kept: Kept,
    /// Pages of unknown age: what leaves by age, or as the coldest, is none of these.
    pub unknown_pages: u64,
    /// It ended because there is no free swap.
    pub no_swap: bool,
    /// What the kernel said, if it did not let us page out.
    pub refused: Option<String>,
}
