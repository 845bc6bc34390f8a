//! A part of what is watched that people have a name for: a unit, a container, a pod, a user.
//!
//! Invariant: its sums are those of its processes, each frame counted once among all parts.

use serde::{Deserialize, Serialize};

use super::{Beside, Budget, Curve, Needed, Price, Process};

/// The part.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// Its name: `redis.service`, `shop/web/nginx`.
    pub name: String,
    /// The control group of its largest process.
    pub cgroup: String,
    /// Its processes, the largest first.
    pub pids: Vec<u32>,
    /// In memory.
    pub resident_bytes: u64,
    /// Of that: not accessed for a minute.
    pub older_than_1m_bytes: u64,
    /// Of that: nobody knows.
    pub unknown_age_bytes: u64,
    /// In swap.
    pub swapped_bytes: u64,
    /// How much it needs; none before two looks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<Needed>,
    /// What less memory would cost; none before two looks, and where nobody asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curve: Option<Curve>,
}

impl Part {
    /// One more process. They come largest first.
    pub(crate) fn add(&mut self, process: &Process) {
        if self.pids.is_empty() {
            self.cgroup.clone_from(&process.cgroup);
        }
        self.pids.push(process.pid);
        self.resident_bytes += process.resident_bytes;
        self.older_than_1m_bytes += process.older_than_1m_bytes;
        self.unknown_age_bytes += process.unknown_age_bytes;
        self.swapped_bytes += process.swapped_bytes;
    }

    /// Says how much it needs, as [`super::Report::tell_needed`].
    pub fn tell_needed(&mut self, budget: Budget, price: &Price) {
        let beside = Beside {
            resident_bytes: self.resident_bytes,
            unknown_bytes: self.unknown_age_bytes,
        };
        let curve = self.curve.as_ref();
        self.needed = curve.and_then(|curve| Needed::of(curve, beside, budget, price));
    }
}
