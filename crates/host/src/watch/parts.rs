//! Divides a target into parts that users have names for (units, containers, users), each with a
//! refault curve.
//!
//! Invariant: a process is in only one part at a time. If it changes to another part, its earlier
//! pages stay in the curve of the former part. A part without processes in a whole scan is
//! forgotten.

use std::collections::BTreeMap;

use engine::Millis;
use engine::workingset::RefaultCurve;

use super::Watch;
use super::curve::{Seen, report_of};
use super::group;
use crate::report::{Curve, Part, Process};

/// Returns the name of the part that a process belongs to; `None` if it belongs to no part.
pub type NameOf = Box<dyn FnMut(&Process) -> Option<String> + Send>;

/// All parts, and the function that assigns processes to parts.
pub(super) struct Parts {
    name_of: NameOf,
    all: BTreeMap<String, (RefaultCurve, Part)>,
}

impl Watch {
    /// Makes each later scan add to a curve for each part ([`Watch::parts`]). `name_of` returns the
    /// name of a process's part.
    pub fn split_by(&mut self, name_of: NameOf) {
        self.parts = Some(Parts {
            name_of,
            all: BTreeMap::new(),
        });
    }

    /// Adds the last scan to the curve of each part. `processes`: the processes of the scan's
    /// report, the largest first.
    pub(super) fn note_parts(&mut self, processes: &[Process]) {
        let Some(mut parts) = self.parts.take() else {
            return;
        };
        let mut found: BTreeMap<String, (Seen, Part)> = BTreeMap::new();
        let owners: BTreeMap<u32, _> = self
            .members
            .iter()
            .filter_map(|one| Some((one.pid, self.ages.space(*one)?.owner)))
            .collect();
        for process in processes {
            let Some(name) = (parts.name_of)(process) else {
                continue;
            };
            let (seen, part) = found.entry(name.clone()).or_default();
            if let Some(owner) = owners.get(&process.pid) {
                seen.add(self.ages.age_table(), *owner);
            }
            part.name = name;
            part.add(process);
        }
        parts.all.retain(|name, _| found.contains_key(name));
        let age_table = self.ages.age_table();
        for (name, (seen, part)) in found {
            let (curve, last) = parts.all.entry(name).or_default();
            curve.rename_begin(|begin| Millis(age_table.representative_ms(begin.0)));
            curve.scan(seen.into_scan(self.now_ms, 0));
            *last = part;
        }
        self.parts = Some(parts);
    }

    /// Returns the parts as of the last scan, with their curves; empty unless [`Watch::split_by`]
    /// was called. If a control group contains exactly a part's processes, the kernel's figures of
    /// that group are added.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let all = self.parts.iter().flat_map(|parts| parts.all.values());
        let reported = all.map(|(curve, part)| {
            let groups = self.groups.as_ref();
            let usage = groups.and_then(|groups| group::usage_of(groups, &part.cgroup, &part.pids));
            let beside = |curve: Curve| match usage {
                Some(usage) => curve
                    .beside(usage.kernel, None)
                    .with_cache(usage.used_cache),
                None => curve,
            };
            Part {
                curve: report_of(curve).map(beside),
                ..part.clone()
            }
        });
        reported.collect()
    }
}
