//! A named part of the watched processes: a systemd unit, a container, a pod, a user.
//!
//! Invariant: the sums of a part are those of its processes. Each frame is counted in only one
//! part.

use serde::{Deserialize, Serialize};

use super::{Beside, Budget, Curve, Needed, Price, Process};

/// A named part of the watched processes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// Name of the part: `redis.service`, `shop/web/nginx`.
    pub name: String,
    /// Control group of the largest process of the part.
    pub cgroup: String,
    /// PIDs of the processes in the part, the largest process first.
    pub pids: Vec<u32>,
    /// Resident memory of the part.
    pub resident_bytes: u64,
    /// The part of `resident_bytes` that was not accessed for 1 minute.
    pub older_than_1m_bytes: u64,
    /// The part of `resident_bytes` that has an unknown age.
    pub unknown_age_bytes: u64,
    /// Memory of the part that is swapped out.
    pub swapped_bytes: u64,
    /// How much memory the part needs; `None` before the second scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<Needed>,
    /// Part of the last 10 s in which at least one process of the part waited for memory (PSI `some
    /// avg10`), in hundredths of a percent. `None` if no control group has exactly the part's
    /// processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure_some_avg10: Option<u32>,
    /// How many refaults the part would have with less memory; `None` before the second scan, or if
    /// it was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curve: Option<Curve>,
}

impl Part {
    /// Adds a process to the part. The caller must add the largest process first.
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

    /// Sets how much memory the part needs, as [`super::Report::set_needed`] does for a target.
    pub fn set_needed(&mut self, budget: Budget, price: &Price) {
        let beside = Beside {
            resident_bytes: self.resident_bytes,
            unknown_bytes: self.unknown_age_bytes,
        };
        let curve = self.curve.as_ref();
        self.needed = curve.and_then(|curve| Needed::of(curve, beside, budget, price));
    }
}
