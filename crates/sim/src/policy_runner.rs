//! The policy runner applies a policy to one simulated tenant. It passes to the policy the data
//! that scans of a host would find, and carries out the policy's orders with the engine's own
//! calls.
//!
//! Invariant: the policy's input comes only from scans, as on a host. The age of a page is the time
//! since the last scan that found it used; several touches between two scans are one use. A page
//! used since the last scan is never evicted.

use engine::policy::{AgeHistogram, Order, Policy, PolicySettings, Seen};
use engine::word::State;
use engine::{FolioId, Lruvec, Machine, MemcgId, Memory, Millis, PageOut, Pages};

/// Number of a scan; the first scan is number 1, and 0 means no scan.
type Scan = u32;

/// A policy, with the input collected for it.
#[derive(Clone, Debug)]
pub struct PolicyRunner {
    policy: Policy,
    /// The time of each scan; element 0 is the time when the runner was made.
    scans: Vec<Millis>,
    /// For each page, the last scan that found it used.
    last: Vec<Scan>,
    /// A bit for each page: whether it was used since the last scan.
    used: Vec<u64>,
    /// Number of uses of evicted pages since the policy last decided.
    refaults: u64,
    /// Time that a refault makes the program wait, microseconds.
    cost_us: u64,
    stalled_us: u64,
    back: AgeHistogram,
    done: Done,
}

/// What the policy has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Number of orders.
    pub orders: u64,
    /// Number of pages that the orders evicted.
    pub evicted: u64,
    /// Number of uses of evicted pages.
    pub refaults: u64,
}

impl PolicyRunner {
    /// Makes a policy runner for a tenant of `pages` pages; a refault takes `cost_us` microseconds.
    #[must_use]
    pub fn new(settings: PolicySettings, pages: usize, cost_us: u64, now: Millis) -> Self {
        Self {
            policy: Policy::new(settings, now),
            scans: vec![now],
            last: vec![0; pages],
            used: vec![0; pages.div_ceil(64)],
            refaults: 0,
            cost_us,
            stalled_us: 0,
            back: AgeHistogram::new(),
            done: Done::default(),
        }
    }

    /// Returns the policy.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns what the policy has done so far.
    #[must_use]
    pub const fn done(&self) -> Done {
        self.done
    }

    /// Returns the refaulted pages since the last scan, by how long each was idle: [`Seen::back`].
    #[must_use]
    pub const fn back(&self) -> &AgeHistogram {
        &self.back
    }

    /// Returns the total time for which the program has waited for refaults, microseconds.
    #[must_use]
    pub const fn stalled_us(&self) -> u64 {
        self.stalled_us
    }

    /// Records a use of a page. `had_left` says whether the page was evicted before.
    #[inline]
    pub fn touch(&mut self, page: FolioId, had_left: bool) {
        self.used[page.0 as usize / 64] |= 1 << (page.0 % 64);
        self.refaults += u64::from(had_left);
    }

    /// Forgets a page that the program has freed: a later use of its address is a new page.
    pub fn forget(&mut self, page: FolioId) {
        self.last[page.0 as usize] = 0;
        self.used[page.0 as usize / 64] &= !(1 << (page.0 % 64));
    }

    /// Makes a scan: records which pages were used since the last scan. The caller must make the
    /// engine's own walk separately.
    pub fn scan(&mut self, now: Millis) {
        let before = self.scans.last().copied().unwrap_or_default();
        let scan = Scan::try_from(self.scans.len()).unwrap_or(Scan::MAX);
        self.back.clear();
        for (word, used) in self.used.iter_mut().enumerate() {
            let mut left = std::mem::take(used);
            while left != 0 {
                let page = word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                let last = std::mem::replace(&mut self.last[page], scan);
                if last > 0 {
                    let idle = before.since(self.scans[last as usize]);
                    self.back.add(idle, Pages(1));
                }
            }
        }
        self.scans.push(now);
        // Tasks cannot wait for longer than the time since the last scan.
        let waited = self.refaults * self.cost_us;
        self.stalled_us += waited.min(now.since(before).0 * 1000);
    }

    /// Passes the result of the last scan to the policy, carries out its order, and returns the
    /// order; `None` if there is none.
    pub fn run_policy<M: Memory>(
        &mut self,
        (machine, id): (&mut Machine, MemcgId),
        memory: &mut M,
    ) -> Option<Order> {
        let now = self.scans.last().copied().unwrap_or_default();
        if self.policy.due().is_some_and(|due| now < due) {
            return None;
        }
        let (ages, out) = self.ages(machine.lruvec(id), now);
        let refaults = std::mem::take(&mut self.refaults);
        self.done.refaults += refaults;
        let order = self.policy.decide(&Seen {
            now,
            ages: &ages,
            // A simulated tenant has no page cache that is not mapped.
            cache: &AgeHistogram::new(),
            out: &out,
            back: &self.back,
            refaults: Pages(refaults),
            stalled_us: Some(self.stalled_us),
            usage: machine.tree().get(id).usage(),
            is_dry: false,
        })?;
        let since = now.since(order.older_than);
        // The last scan that is at least as old as the order's age. A page that a later scan found
        // used is too young.
        let youngest = self.scans.partition_point(|at| *at <= since).max(1) - 1;
        let mut idle = Idle {
            policy_runner: self,
            youngest: Scan::try_from(youngest).unwrap_or(Scan::MAX),
            memory,
        };
        let most = order.most.min(machine.unprotected(id));
        let shrunk = machine.reclaim_own_by_age(id, most, now, &mut idle);
        self.done.orders += 1;
        self.done.evicted += shrunk.reclaimed.0;
        Some(order)
    }

    /// Returns the ages of the pages in memory, and those of the evicted pages.
    #[must_use]
    pub fn ages(&self, lruvec: &Lruvec, now: Millis) -> (AgeHistogram, AgeHistogram) {
        let mut counts = vec![[0u64; 2]; self.scans.len()];
        for (page, &last) in (0..).zip(&self.last) {
            if last == 0 {
                continue;
            }
            let word = lruvec.folios().get(FolioId(page));
            if word.is_present() {
                counts[last as usize][0] += 1;
            } else if word.state() == State::Shadow {
                counts[last as usize][1] += 1;
            }
        }
        let (mut ages, mut out) = (AgeHistogram::new(), AgeHistogram::new());
        for (at, [present, gone]) in self.scans.iter().zip(counts) {
            ages.add(now.since(*at), Pages(present));
            out.add(now.since(*at), Pages(gone));
        }
        (ages, out)
    }
}

/// A wrapper of `memory` that evicts only pages that are old enough by the scans, as a host does by
/// its age table.
struct Idle<'a, M> {
    policy_runner: &'a PolicyRunner,
    /// Number of a scan. Pages that a later scan found used are not evicted.
    youngest: Scan,
    memory: &'a mut M,
}

impl<M: Memory> Memory for Idle<'_, M> {
    fn walk(&mut self, memcg: MemcgId, lruvec: &mut Lruvec) {
        self.memory.walk(memcg, lruvec);
    }

    fn has_recency(&self, memcg: MemcgId, id: FolioId) -> bool {
        self.memory.has_recency(memcg, id)
    }

    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        let mut leaving = Vec::with_capacity(batch.len());
        let first = outcome.len();
        for id in batch {
            let page = id.0 as usize;
            let is_used = self.policy_runner.used[page / 64] >> (page % 64) & 1 == 1;
            let last = self.policy_runner.last[page];
            outcome.push(match () {
                () if is_used => PageOut::Referenced,
                () if last == 0 || last > self.youngest => PageOut::TooYoung,
                () => PageOut::Stored,
            });
            if outcome.last() == Some(&PageOut::Stored) {
                leaving.push(*id);
            }
        }
        let mut reported = Vec::with_capacity(leaving.len());
        self.memory.page_out(memcg, &leaving, &mut reported);
        let requested = outcome[first..]
            .iter_mut()
            .filter(|what| **what == PageOut::Stored);
        for (what, reported) in requested.zip(reported) {
            *what = reported;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware;
    use crate::in_words::InWords;
    use engine::policy::ColdAgeSettings;
    use engine::{FaultKind, FolioType, MachineConfig};

    const PAGES: u32 = 100;
    const SECOND: u64 = 1000;

    struct World {
        machine: Machine,
        policy_runner: PolicyRunner,
    }

    impl World {
        fn new(older_than: u64) -> Self {
            let mut machine =
                Machine::of_one(MachineConfig::default(), Default::default(), Millis(0));
            machine.lruvec_mut(MemcgId::FIRST).ensure(PAGES as usize);
            let settings = PolicySettings::ColdAge(ColdAgeSettings {
                older_than: Millis(older_than),
                every: Millis(SECOND),
                cache_older_than: Millis(0),
            });
            Self {
                machine,
                policy_runner: PolicyRunner::new(settings, PAGES as usize, 20, Millis(0)),
            }
        }

        fn touch(&mut self, page: u32) {
            let at = (MemcgId::FIRST, FolioId(page));
            let lruvec = self.machine.lruvec_mut(at.0);
            let had_left = lruvec.folios().get(at.1).state() == State::Shadow;
            if !lruvec.touch(at.1) {
                hardware::fault(
                    &mut self.machine,
                    at,
                    FolioType::Anon,
                    FaultKind::Refault,
                    true,
                );
            }
            self.policy_runner.touch(at.1, had_left);
        }

        fn scan(&mut self, now: u64) {
            self.machine
                .walk_and_age(MemcgId::FIRST, Millis(now), &mut InWords);
            self.policy_runner.scan(Millis(now));
            self.policy_runner
                .run_policy((&mut self.machine, MemcgId::FIRST), &mut InWords);
        }

        fn is_in(&self, page: u32) -> bool {
            let lruvec = self.machine.lruvec(MemcgId::FIRST);
            lruvec.folios().get(FolioId(page)).is_present()
        }
    }

    #[test]
    fn only_pages_old_enough_by_their_scans_are_evicted() {
        let mut world = World::new(5 * SECOND);
        (0..PAGES).for_each(|page| world.touch(page));
        for second in 1..=10 {
            // Half of the pages are used until second 4, and then no more.
            (0..if second <= 4 { 50 } else { 10 }).for_each(|page| world.touch(page));
            world.scan(second * SECOND);
            for (page, last) in [(5, second), (20, second.min(4)), (80, 1)] {
                assert_eq!(world.is_in(page), second - last < 5, "{page} at {second}");
            }
        }
        assert_eq!(world.policy_runner.done().evicted, 90);
    }

    /// Policies that use histograms rely on this: the histogram of idle times predicts the number
    /// of refaults. The engine may keep a page of a protected tier for one more generation
    /// (lru-gen.md 6.4), so there are slightly fewer refaults than predicted.
    #[test]
    fn refaults_are_as_many_as_the_histogram_has_at_that_age() {
        let mut world = World::new(5 * SECOND);
        let (mut expected, mut noise) = (0, 7u32);
        for second in 1..=400 {
            for page in 0..PAGES {
                noise = noise.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                // Some pages are used each second, others only each hour.
                if (noise >> 16) % (2 + page * 2) == 0 {
                    world.touch(page);
                }
            }
            world.scan(second * SECOND);
            expected += world.policy_runner.back().at_least(Millis(5 * SECOND)).0;
        }
        let refaults = world.policy_runner.done().refaults;
        assert!(expected > 500);
        assert!(refaults <= expected && expected - refaults <= expected / 100);
    }
}
