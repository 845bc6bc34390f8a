//! What is watched, divided into parts that people have names for: units, containers, users. Each has a curve of its own.
//!
//! Invariant: a process is in one part at a time; what it had in its former part stays in that part's curve. A part that has had no process for
//! a whole look is forgotten.

use std::collections::BTreeMap;

use engine::Millis;
use engine::workingset::RefaultCurve;

use super::Watch;
use super::curve::{Seen, report_of};
use crate::report::{Part, Process};

/// The name of the part that a process is in; none where it is to be left out.
pub type NameOf = Box<dyn FnMut(&Process) -> Option<String> + Send>;

/// All parts.
pub(super) struct Parts {
    name_of: NameOf,
    all: BTreeMap<String, (RefaultCurve, Part)>,
}

impl Watch {
    /// From now on each look is told by parts, too: [`Watch::parts`].
    pub fn split_by(&mut self, name_of: NameOf) {
        self.parts = Some(Parts {
            name_of,
            all: BTreeMap::new(),
        });
    }

    /// Adds a scan to the curve of each part. `processes` are those of its report, the largest first.
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
                seen.add(self.ages.books(), *owner);
            }
            part.name = name;
            part.add(process);
        }
        parts.all.retain(|name, _| found.contains_key(name));
        let books = self.ages.books();
        for (name, (seen, part)) in found {
            let (curve, last) = parts.all.entry(name).or_default();
            curve.begin_is(|begin| Millis(books.representative_ms(begin.0)));
            curve.look(seen.into_look(self.now_ms, 0));
            *last = part;
        }
        self.parts = Some(parts);
    }

    /// The parts as the last look found them, with their curves; none where nobody asked for them.
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        let all = self.parts.iter().flat_map(|parts| parts.all.values());
        let told = all.map(|(curve, part)| Part {
            curve: report_of(curve),
            ..part.clone()
        });
        told.collect()
    }
}
