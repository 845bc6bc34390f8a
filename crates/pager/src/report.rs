//! What is known about one target, as data: the report file of `run`, `report --json`, and what the
//! manager hands to its caller at every tick.
//!
//! Invariant: the first fields, their names and their order are those of `interfaces.md`; scripts
//! rely on them. Fields are added at the end and never change their meaning. Units are in the names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::options::{Algorithm, Compress, Limits};

mod stat;

pub use stat::{STAT_NAMES, Stat};

/// One target and the children that are managed with it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The target.
    pub pid: u32,
    /// Its argument vector (`/proc/PID/cmdline`; bytes that are not UTF-8 replaced).
    pub command: Vec<String>,
    /// Time under management.
    pub wall_ms: u64,
    /// Exit status as a shell gives it (128 + signal for a killed program); none while it runs or
    /// after a detach.
    pub exit: Option<i32>,
    /// Resident bytes of the memory we manage, by the kernel's view.
    pub resident_bytes: u64,
    /// Highest resident bytes by the kernel's view since the limit took hold.
    pub resident_peak_bytes: u64,
    /// Bytes of the target that are out, before compression.
    pub stored_bytes: u64,
    /// Bytes those take in the store.
    pub store_used_bytes: u64,
    /// Pages put out, all in all.
    pub evicted_pages: u64,
    /// Pages that came back from the store, all in all.
    pub refaulted_pages: u64,
    /// Pages that came back from limbo: the accessed bits seen.
    pub limbo_returns: u64,
    /// Stored pages that are one repeated word and take no space.
    pub zero_pages: u64,
    /// Time the target waited for a fault.
    pub faults: Faults,
    /// Bytes by how long they were not touched, one entry a node.
    pub page_age: Vec<NodeAge>,
    /// The limits in force, as the user wrote them.
    pub limits: Limits,
    /// What management cost.
    pub overhead: Overhead,

    /// What takes part: pids of keepers.
    pub keepers: Vec<u32>,
    /// Managed children (by fork and exec) that are alive.
    pub children: Vec<u32>,
    /// Resident pages that cannot leave, by reason.
    pub unevictable_pages: BTreeMap<Unevictable, u64>,
    /// How the store compresses.
    pub compress: Compress,
    /// Where the store is: `mem`, or a directory.
    pub store: String,
    /// Times the resident bytes went over `memory.max` and were brought back.
    pub max_events: u64,
    /// Keepers that died and were replaced.
    pub keepers_replaced: u64,
    /// Things that keepers saw and that should not happen; each is a bug to report.
    pub anomalies: u64,
    /// The last of them: code and error number.
    pub anomaly_last: String,
    /// With `--dry-run`: what would have been done.
    pub dry_run: Option<DryRun>,
    /// Which pages go first. Only multi-gen knows ages: under active-inactive all are young.
    pub policy: Algorithm,
}

/// Fault service, measured by the keeper from the fault's arrival to its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Faults {
    /// Faults answered.
    pub count: u64,
    /// Median, microseconds.
    pub p50_us: u64,
    /// 99th percentile, microseconds.
    pub p99_us: u64,
}

/// The page-age histogram of one node (`spec/workingset-report.md`). The bins add up to the
/// resident bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeAge {
    /// NUMA node.
    pub node: u32,
    /// By increasing age.
    pub bins: Vec<AgeBin>,
}

/// Bytes that were last touched longer ago than this and no longer than the next bin's edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AgeBin {
    /// Lower edge; the first bin's is 0.
    pub older_than_ms: u64,
    /// Anonymous memory.
    pub anon_bytes: u64,
    /// File pages.
    pub file_bytes: u64,
}

/// What management cost so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Overhead {
    /// CPU time of manager and keepers together.
    pub cpu_ms: u64,
    /// The keepers' part of it.
    pub keeper_cpu_ms: u64,
    /// Resident bytes of the tables and the manager, without the store.
    pub memory_bytes: u64,
}

/// Why a resident page stays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unevictable {
    /// A child of a fork still shares it.
    Shared,
    /// `mlock`ed.
    Mlocked,
    /// On a stack the kernel writes to where it cannot wait (`pager.md`, danger 2).
    Stack,
    /// In a mapping of a kind that is not managed: shared, hugetlb, device, read-only.
    Mapping,
    /// Belongs to a userfaultfd of the program's own.
    Userfaultfd,
    /// Pinned or busy when it was last tried.
    Busy,
    /// The store is full.
    StoreFull,
}

impl Unevictable {
    /// The reason in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Unevictable::Shared => "shared with a forked child",
            Unevictable::Mlocked => "mlocked",
            Unevictable::Stack => "thread stacks",
            Unevictable::Mapping => "shared, read-only or special mapping",
            Unevictable::Userfaultfd => "the program's own userfaultfd",
            Unevictable::Busy => "pinned or busy",
            Unevictable::StoreFull => "the store is full",
        }
    }
}

/// What a dry run would have done.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DryRun {
    /// Pages that would have left.
    pub would_evict_pages: u64,
    /// Decisions, the latest last; at most [`DryRun::DECISIONS_MAX`].
    pub decisions: Vec<Decision>,
    /// Decisions that found no room in the list.
    pub left_out: u64,
}

impl DryRun {
    /// Length of [`DryRun::decisions`]: an explanation, not a log.
    pub const DECISIONS_MAX: usize = 64;

    /// Adds a decision, pushing out the oldest when the list is full.
    pub fn push(&mut self, decision: Decision) {
        self.would_evict_pages += decision.pages;
        if self.decisions.len() >= Self::DECISIONS_MAX {
            self.decisions.remove(0);
            self.left_out += 1;
        }
        self.decisions.push(decision);
    }
}

/// One range that would have left, and why it and not another.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Decision {
    /// Process.
    pub pid: u32,
    /// First address.
    pub start: u64,
    /// Pages of 4096 bytes.
    pub pages: u64,
    /// For how long it was not touched.
    pub age_ms: u64,
    /// Why: which limit or policy asked, and what made these pages the ones.
    pub reason: String,
}

impl Report {
    /// Bytes out for each byte of store; none while nothing takes space.
    #[must_use]
    pub fn compression_ratio(&self) -> Option<f64> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a ratio for people, exact below 2^53 bytes"
        )]
        let ratio = self.stored_bytes as f64 / self.store_used_bytes as f64;
        (self.store_used_bytes > 0).then_some(ratio)
    }

    /// All nodes' bins added up, by increasing age.
    #[must_use]
    pub fn age_bins(&self) -> Vec<AgeBin> {
        let mut sums: BTreeMap<u64, AgeBin> = BTreeMap::new();
        for bin in self.page_age.iter().flat_map(|node| &node.bins) {
            let sum = sums.entry(bin.older_than_ms).or_insert(AgeBin {
                older_than_ms: bin.older_than_ms,
                ..AgeBin::default()
            });
            sum.anon_bytes = sum.anon_bytes.saturating_add(bin.anon_bytes);
            sum.file_bytes = sum.file_bytes.saturating_add(bin.file_bytes);
        }
        sums.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promised_fields_come_first_and_in_order() {
        let json = serde_json::to_string(&Report::default()).unwrap();
        let promised = [
            "pid",
            "command",
            "wall_ms",
            "exit",
            "resident_bytes",
            "resident_peak_bytes",
            "stored_bytes",
            "store_used_bytes",
            "evicted_pages",
            "refaulted_pages",
            "limbo_returns",
            "zero_pages",
            "faults",
            "count",
            "p50_us",
            "p99_us",
            "page_age",
            "limits",
            "overhead",
            "cpu_ms",
            "keepers",
        ];
        let places: Vec<usize> = promised
            .iter()
            .map(|name| json.find(&format!("\"{name}\":")).expect(name))
            .collect();
        assert!(places.is_sorted(), "{json}");
        assert_eq!(
            serde_json::from_str::<Report>(&json).unwrap(),
            Report::default()
        );
    }

    #[test]
    fn a_report_of_an_older_version_still_reads() {
        let report: Report = serde_json::from_str(r#"{"pid":7,"new_field":1}"#).unwrap();
        assert_eq!(report.pid, 7);
    }

    #[test]
    fn reasons_are_keys_of_the_json() {
        let mut report = Report::default();
        report.unevictable_pages.insert(Unevictable::StoreFull, 3);
        let value = serde_json::to_value(&report).unwrap();
        assert_eq!(value["unevictable_pages"]["store_full"], 3);
    }

    #[test]
    fn a_dry_run_keeps_the_latest() {
        let mut dry = DryRun::default();
        for pages in 1..=70 {
            dry.push(Decision {
                pages,
                ..Decision::default()
            });
        }
        assert_eq!(dry.decisions.len(), DryRun::DECISIONS_MAX);
        assert_eq!((dry.left_out, dry.decisions[0].pages), (6, 7));
        assert_eq!(dry.would_evict_pages, (1..=70).sum::<u64>());
    }

    #[test]
    fn nodes_add_up_by_age() {
        let bin = |older_than_ms, anon_bytes| AgeBin {
            older_than_ms,
            anon_bytes,
            file_bytes: 1,
        };
        let node = |node, bins| NodeAge { node, bins };
        let report = Report {
            page_age: vec![
                node(0, vec![bin(0, 5), bin(1000, 7)]),
                node(1, vec![bin(0, 1)]),
            ],
            ..Report::default()
        };
        let ages: Vec<_> = report.age_bins();
        assert_eq!((ages[0].anon_bytes, ages[0].file_bytes), (6, 2));
        assert_eq!((ages[1].older_than_ms, ages[1].anon_bytes), (1000, 7));
    }
}
