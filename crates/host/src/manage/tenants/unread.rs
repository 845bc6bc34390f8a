//! Processes of tenants that scans do not read because the memory for ages is limited.
//!
//! Invariant: a tenant with such processes is logged once, and again only if a scan in between has
//! read all of its processes.

use std::collections::{BTreeMap, BTreeSet};

use engine::memcg::MemcgId;
use engine::units::PAGE_SIZE;

use super::Tenants;

/// Processes of a tenant that were not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Unread {
    /// Number of these processes.
    processes: u64,
    /// Number of resident pages of these processes.
    pub(super) pages: u64,
}

impl Tenants {
    /// Sets the maximum memory that ages may take in pagetide, in bytes; `None` to choose it by the
    /// limits of pagetide itself.
    pub fn set_own_memory(&mut self, bytes: Option<u64>) {
        self.driver.watch.limit_memory(bytes);
    }

    /// Returns what the last scan did not read, for each tenant with such processes.
    pub(super) fn unread(&self) -> BTreeMap<MemcgId, Unread> {
        let ages = self.driver.watch.ages();
        let mut all = BTreeMap::<MemcgId, Unread>::new();
        for (identity, home) in &self.tenant_map {
            if let Some(pages) = ages.unscanned_pages(*identity) {
                let of_tenant = all.entry(*home).or_default();
                of_tenant.processes += 1;
                of_tenant.pages += pages;
            }
        }
        all
    }

    /// Logs which tenants have processes that the scan that has just ended did not read.
    pub(super) fn note_unread(&mut self) {
        let mut said = BTreeSet::new();
        for (memcg, Unread { processes, pages }) in self.unread() {
            let Some(serial) = self.serial(memcg) else {
                continue;
            };
            said.insert(serial);
            if self.said_unread.contains(&serial) {
                continue;
            }
            let path = self.path(memcg).map(|path| path.display().to_string());
            let path = path.unwrap_or_default();
            let mib = pages * PAGE_SIZE / (1 << 20);
            self.act(format!(
                "/{path}: {processes} of its processes, {mib} MiB resident, are not read and their ages are not known: \
                 pagetide's own memory is limited (own-memory), and this tenant's share of it is used up"
            ));
        }
        self.said_unread = said;
    }
}
