//! Decides which processes are not walked if pagetide's memory for ages is limited.
//!
//! Invariant: if the pages of all processes fit, every process is walked. Otherwise tenants share
//! the limit max-min fairly. Of a tenant with more pages than its share, only the smallest
//! processes are walked, as many as fit. A process that starts or grows during a scan is walked if
//! it fits beside all pages that are known by then.

use std::collections::BTreeMap;

use crate::fair;
use crate::system::Identity;

/// Upper bound of pagetide's memory for one page, in bytes: the page's age record, its id and the
/// engine's data. Most pages take half of that (docs/benchmarks.md, "Memory for a page").
const BYTES_A_PAGE: u64 = 25;
/// Memory for each walked process, besides that for its pages; expressed as a number of pages.
const PAGES_A_PROCESS: u64 = 120;

/// A process when a scan begins: its tenant, and how many pages it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Size {
    pub(super) identity: Identity,
    /// Number of the tenant that the process belongs to.
    pub(super) tenant: u64,
    /// Pages of the process in the age table and in swap; 0 if it was never walked.
    pub(super) pages: u64,
}

/// A process that is about to be walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    /// Resident pages of the process.
    pub(super) resident: u64,
    /// Resident pages that the last walk did not find.
    pub(super) grown: u64,
    /// Whether the process was walked before.
    pub(super) is_known: bool,
}

/// Accounts for pagetide's memory for ages, and its limit.
#[derive(Debug, Default)]
pub(super) struct AgeMemory {
    /// Number of pages that fit into the limit; `None` without a limit.
    fit: Option<u64>,
    /// Memory for one walked process without its pages, as a number of pages:
    /// [`PAGES_A_PROCESS`], or another value in tests.
    each: u64,
    /// Processes that this scan does not walk, and their numbers of pages.
    left_out: BTreeMap<Identity, u64>,
    /// Pages that were known when the scan began and whose processes are in `left_out`: the end of
    /// the scan drops them from the age table.
    leaving: u64,
    /// Pages of admitted processes that are not in the age table yet.
    coming: u64,
    /// Memory for all known processes without their pages, expressed as a number of pages.
    taken_by_processes: u64,
}

impl AgeMemory {
    /// Sets the limit in bytes; `None` for no limit.
    pub(super) fn limit(&mut self, bytes: Option<u64>) {
        self.fit = bytes.map(|bytes| bytes / BYTES_A_PAGE);
        self.each = PAGES_A_PROCESS;
    }

    pub(super) fn is_limited(&self) -> bool {
        self.fit.is_some()
    }

    /// Returns the resident pages of a process that the last scan did not walk for lack of memory;
    /// `None` if the scan walked it.
    pub(super) fn left_out(&self, identity: Identity) -> Option<u64> {
        self.left_out.get(&identity).copied()
    }

    /// Begins a scan. `pages` and `processes`: how many are known now. `sizes` returns the size of
    /// each process; it is called only if the processes might not all fit.
    pub(super) fn begin(
        &mut self,
        (pages, processes): (u64, u64),
        sizes: impl FnOnce() -> Vec<Size>,
    ) {
        let before = std::mem::take(&mut self.left_out);
        (self.leaving, self.coming) = (0, 0);
        self.taken_by_processes = processes * self.each;
        let Some(fit) = self.fit else {
            return;
        };
        let left_out: u64 = before.values().map(|pages| pages + self.each).sum();
        if pages + self.taken_by_processes + left_out <= fit {
            return;
        }
        let mut sizes = sizes();
        let (mut wants, mut kept) = (BTreeMap::<u64, u64>::new(), BTreeMap::<u64, u64>::new());
        for size in &mut sizes {
            let pages = before.get(&size.identity).copied();
            size.pages = pages.unwrap_or(size.pages) + self.each;
            *wants.entry(size.tenant).or_default() += size.pages;
        }
        let share = fair::share(wants.into_values().collect(), fit);
        sizes.sort_unstable_by_key(|size| (size.pages, size.identity));
        for size in sizes {
            let kept = kept.entry(size.tenant).or_default();
            if *kept + size.pages <= share {
                *kept += size.pages;
                continue;
            }
            self.left_out.insert(size.identity, size.pages - self.each);
            if !before.contains_key(&size.identity) {
                self.leaving += size.pages;
            }
        }
    }

    /// Returns whether this scan walks a process. `known`: number of pages that the age table has
    /// now.
    pub(super) fn admits(&mut self, identity: Identity, known: u64, candidate: Candidate) -> bool {
        let Some(fit) = self.fit else {
            return true;
        };
        if let Some(pages) = self.left_out.get_mut(&identity) {
            *pages = candidate.resident;
            return false;
        }
        // Pages that the end of the scan drops take memory until then, so they make no headroom for
        // a new process.
        let leaving = if candidate.is_known { self.leaving } else { 0 };
        let itself = if candidate.is_known { 0 } else { self.each };
        let now = known + self.taken_by_processes + self.coming;
        let after = now.saturating_sub(leaving) + candidate.grown + itself;
        let fits = candidate.grown + itself == 0 || after <= fit;
        if fits {
            self.coming += candidate.grown;
            self.taken_by_processes += itself;
        } else {
            self.left_out.insert(identity, candidate.resident);
        }
        fits
    }

    /// Records that all admitted processes were walked: the age table has their pages now.
    pub(super) fn all_read(&mut self) {
        self.coming = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn process(pid: u32) -> Identity {
        Identity { pid, started: 1 }
    }

    fn age_memory(pages: u64) -> AgeMemory {
        let mut age_memory = AgeMemory::default();
        age_memory.limit(Some(pages * BYTES_A_PAGE));
        age_memory.each = 0;
        age_memory
    }

    fn size(pid: u32, tenant: u64, pages: u64) -> Size {
        let identity = process(pid);
        Size {
            identity,
            tenant,
            pages,
        }
    }

    const fn new(resident: u64) -> Candidate {
        Candidate {
            resident,
            grown: resident,
            is_known: false,
        }
    }

    const fn known(resident: u64, grown: u64) -> Candidate {
        Candidate {
            resident,
            grown,
            is_known: true,
        }
    }

    #[test]
    fn without_a_limit_all_processes_are_walked() {
        let mut age_memory = AgeMemory::default();
        age_memory.begin((u64::MAX / 2, 0), || panic!("nobody is asked"));
        assert!(age_memory.admits(process(1), u64::MAX / 2, new(u64::MAX / 4)));
        assert!(!age_memory.is_limited() && age_memory.left_out(process(1)).is_none());
    }

    #[test]
    fn a_new_process_is_walked_if_it_fits_beside_the_known_pages() {
        let mut age_memory = age_memory(100);
        age_memory.begin((60, 0), || panic!("all fit"));
        assert!(age_memory.admits(process(1), 60, new(30)));
        assert!(!age_memory.admits(process(2), 60, new(30)), "30 are coming");
        assert_eq!(age_memory.left_out(process(2)), Some(30));
        assert!(
            age_memory.admits(process(3), 60, known(60, 0)),
            "it did not grow"
        );
        age_memory.all_read();
        assert!(
            age_memory.admits(process(4), 70, new(30)),
            "the first was smaller"
        );
    }

    /// If a tenant grows, other tenants lose nothing: their processes are walked, and the largest
    /// processes of the growing tenant are not.
    #[test]
    fn the_largest_processes_of_the_largest_tenant_are_not_walked() {
        let mut age_memory = age_memory(100);
        let all = || {
            vec![
                size(1, 1, 20),
                size(2, 2, 30),
                size(3, 2, 40),
                size(4, 2, 90),
                size(5, 3, 10),
            ]
        };
        age_memory.begin((190, 0), all);
        // 70 pages remain for the tenant with five processes.
        let read: Vec<u32> = (1..=5)
            .filter(|pid| age_memory.admits(process(*pid), 190, known(1, 0)))
            .collect();
        assert_eq!(read, [1, 2, 3, 5]);
        // The age table drops the largest process at the end of the scan: until then no new process
        // fits.
        assert!(!age_memory.admits(process(6), 190, new(5)));
        assert!(!age_memory.admits(process(2), 190, known(31, 1)), "100 fit");
    }

    /// A process that was left out is walked once it fits, judged by the size that it had when the
    /// last scan considered it.
    #[test]
    fn a_process_that_was_not_walked_is_walked_once_it_fits() {
        let mut age_memory = age_memory(100);
        let both = || vec![size(1, 1, 60), size(2, 2, 50)];
        age_memory.begin((110, 0), both);
        assert!(!age_memory.admits(process(1), 110, known(60, 0)));
        assert!(age_memory.admits(process(2), 110, known(50, 0)));
        let again = || vec![size(1, 1, 0), size(2, 2, 50)];
        age_memory.begin((50, 0), again);
        assert!(!age_memory.admits(process(1), 50, new(45)), "it had 60");
        age_memory.begin((50, 0), || panic!("45 and 50 fit"));
        assert!(age_memory.admits(process(1), 50, new(45)));
        assert_eq!(age_memory.left_out(process(1)), None);
    }

    /// Regression: each of 8,000 idle processes took 4.7 KiB of `serve`'s memory, which did not
    /// count towards the limit.
    #[test]
    fn processes_take_memory_beside_their_pages() {
        let mut age_memory = age_memory(1000);
        age_memory.each = 100;
        age_memory.begin((0, 0), || panic!("nobody is there"));
        let mut known = 0;
        let read = (0..50).filter(|pid| {
            let fits = age_memory.admits(process(*pid), known, new(10));
            known += if fits { 10 } else { 0 };
            age_memory.all_read();
            fits
        });
        assert_eq!(read.count(), 9, "110 pages each");
        let all = || (0..50).map(|pid| size(pid, 1, 10)).collect();
        age_memory.begin((90, 9), all);
        let read = (0..50).filter(|pid| age_memory.left_out(process(*pid)).is_none());
        assert_eq!(read.count(), 9);
    }

    /// The processes of a host, in the order of their PIDs: tenant number, number of pages.
    type Host = Vec<(u64, u64)>;

    /// Does one scan of all processes; returns the number of pages known after it.
    fn round(
        age_memory: &mut AgeMemory,
        host: &Host,
        age_table: &BTreeMap<Identity, u64>,
    ) -> BTreeMap<Identity, u64> {
        let all: Vec<Size> = (0..)
            .zip(host)
            .map(|(pid, one)| size(pid, one.0, one.1))
            .collect();
        let known = |one: &Size| age_table.get(&one.identity).copied();
        age_memory.begin((age_table.values().sum(), 0), || {
            let sizes = all.iter();
            sizes
                .map(|one| Size {
                    pages: known(one).unwrap_or(0),
                    ..*one
                })
                .collect()
        });
        let (mut now, mut during) = (BTreeMap::new(), age_table.clone());
        for one in &all {
            let candidate = Candidate {
                resident: one.pages,
                grown: one.pages.saturating_sub(known(one).unwrap_or(0)),
                is_known: known(one).is_some(),
            };
            if age_memory.admits(one.identity, during.values().sum(), candidate) {
                now.insert(one.identity, one.pages);
                during.insert(one.identity, one.pages);
            }
            age_memory.all_read();
        }
        now
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Property: however tenants start, grow, shrink and end, the pages known after each scan
        /// fit. Once tenants no longer change, all processes of a tenant that needs no more than
        /// its share are known.
        #[test]
        fn known_pages_fit_and_tenants_below_their_share_are_known(
            fit in 1_u64..400,
            hosts in proptest::collection::vec(proptest::collection::vec((0_u64..5, 0_u64..120), 0..12), 1..8),
        ) {
            let (mut age_memory, mut age_table) = (age_memory(fit), BTreeMap::new());
            for host in &hosts {
                age_table = round(&mut age_memory, host, &age_table);
                prop_assert!(age_table.values().sum::<u64>() <= fit);
            }
            let last = hosts.last().expect("one at least");
            for _ in 0..4 {
                age_table = round(&mut age_memory, last, &age_table);
            }
            prop_assert!(age_table.values().sum::<u64>() <= fit);
            let mut wants = BTreeMap::<u64, u64>::new();
            last.iter().for_each(|(tenant, pages)| *wants.entry(*tenant).or_default() += pages);
            let share = fair::share(wants.values().copied().collect(), fit);
            for (pid, (tenant, pages)) in (0..).zip(last) {
                let is_known = age_table.contains_key(&process(pid));
                prop_assert!(is_known || wants[tenant] > share, "{pid} of {pages}");
            }
        }
    }
}
