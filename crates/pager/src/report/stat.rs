//! Counters under the names of cgroup v2's `memory.stat`.
//!
//! Invariant: names are the kernel's (`Documentation/admin-guide/cgroup-v2.rst`, memory.stat); what
//! the kernel has no name for is not here but in the report.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The kernel's order of the names that a target may have values for.
pub const STAT_NAMES: [&str; 46] = [
    "anon",
    "file",
    "pagetables",
    "shmem",
    "zswap",
    "zswapped",
    "file_mapped",
    "file_dirty",
    "file_writeback",
    "swapcached",
    "anon_thp",
    "file_thp",
    "inactive_anon",
    "active_anon",
    "inactive_file",
    "active_file",
    "unevictable",
    "workingset_refault_anon",
    "workingset_refault_file",
    "workingset_activate_anon",
    "workingset_activate_file",
    "workingset_restore_anon",
    "workingset_restore_file",
    "workingset_nodereclaim",
    "pswpin",
    "pswpout",
    "pgscan",
    "pgsteal",
    "pgscan_kswapd",
    "pgscan_direct",
    "pgscan_proactive",
    "pgsteal_kswapd",
    "pgsteal_direct",
    "pgsteal_proactive",
    "pgfault",
    "pgmajfault",
    "pgrefill",
    "pgactivate",
    "pgdeactivate",
    "pglazyfree",
    "pglazyfreed",
    "swpin_zero",
    "swpout_zero",
    "zswpin",
    "zswpout",
    "zswpwb",
];

/// Counters by name. Sizes (`anon`, `file`, ...) are bytes, events are counts, as in the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stat(BTreeMap<String, u64>);

impl Stat {
    /// Sets one counter.
    pub fn set(&mut self, name: &str, value: u64) {
        self.0.insert(name.to_owned(), value);
    }

    /// One counter, if it is there.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Every counter, those of [`STAT_NAMES`] first and in that order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        let known = STAT_NAMES
            .iter()
            .filter_map(|name| Some((*name, self.get(name)?)));
        let others = self
            .0
            .iter()
            .filter(|(name, _)| !STAT_NAMES.contains(&name.as_str()))
            .map(|(name, value)| (name.as_str(), *value));
        known.chain(others)
    }
}

/// The text of a `memory.stat` file: `name value` lines.
impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter()
            .try_for_each(|(name, value)| writeln!(f, "{name} {value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_in_the_kernels_order_and_others_last() {
        let mut stat = Stat::default();
        for name in ["pgsteal", "aaa", "file", "anon"] {
            stat.set(name, 1);
        }
        assert_eq!(stat.to_string(), "anon 1\nfile 1\npgsteal 1\naaa 1\n");
        assert_eq!(stat.get("file"), Some(1));
        assert_eq!(stat.get("zswpout"), None);
    }
}
