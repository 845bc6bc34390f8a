//! A policy at work on one simulated tenant: it is shown what a host's looks would tell, and what it orders is done by the
//! engine's own calls.
//!
//! Invariant: what is shown comes from looks alone: a page is as old as the last look that found it used, exactly as on a
//! host; touches between two looks are one use. What was used since the last look never leaves.

use engine::policy::{AgeHistogram, Order, Policy, Seen, Settings};
use engine::word::State;
use engine::{FolioId, Lruvec, Machine, MemcgId, Memory, Millis, PageOut, Pages};

/// A look, by its number from 1; 0 is none.
type Look = u32;

/// The policy, and what it goes by.
#[derive(Clone, Debug)]
pub struct Minder {
    policy: Policy,
    /// When each look was; that at 0 is when it began.
    looks: Vec<Millis>,
    /// By page: the last look that found it used.
    last: Vec<Look>,
    /// Pages that were used since, a bit each.
    used: Vec<u64>,
    /// Of those, pages that had left.
    refaults: u64,
    /// What a page that comes back makes its program wait, microseconds.
    cost_us: u64,
    stalled_us: u64,
    back: AgeHistogram,
    done: Done,
}

/// What came of it until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Orders.
    pub orders: u64,
    /// Pages that left by them.
    pub evicted: u64,
    /// Pages that had left and were used again.
    pub refaults: u64,
}

impl Minder {
    /// For a tenant of so many pages; one that comes back takes `cost_us`.
    #[must_use]
    pub fn new(settings: Settings, pages: usize, cost_us: u64, now: Millis) -> Self {
        Self {
            policy: Policy::new(settings, now),
            looks: vec![now],
            last: vec![0; pages],
            used: vec![0; pages.div_ceil(64)],
            refaults: 0,
            cost_us,
            stalled_us: 0,
            back: AgeHistogram::new(),
            done: Done::default(),
        }
    }

    /// The policy, to look at.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What was done until now.
    #[must_use]
    pub const fn done(&self) -> Done {
        self.done
    }

    /// What was used again since the last look, by how long it had been idle: [`Seen::back`].
    #[must_use]
    pub const fn back(&self) -> &AgeHistogram {
        &self.back
    }

    /// How long its program has waited for pages, microseconds.
    #[must_use]
    pub const fn stalled_us(&self) -> u64 {
        self.stalled_us
    }

    /// A page was used; whether it `had_left`.
    #[inline]
    pub fn touch(&mut self, page: FolioId, had_left: bool) {
        self.used[page.0 as usize / 64] |= 1 << (page.0 % 64);
        self.refaults += u64::from(had_left);
    }

    /// Its program has given a page back: what it uses there next is another.
    pub fn forget(&mut self, page: FolioId) {
        self.last[page.0 as usize] = 0;
        self.used[page.0 as usize / 64] &= !(1 << (page.0 % 64));
    }

    /// A look: what was used since the last one. The engine's own walk is the caller's.
    pub fn look(&mut self, now: Millis) {
        let before = self.looks.last().copied().unwrap_or_default();
        let look = Look::try_from(self.looks.len()).unwrap_or(Look::MAX);
        self.back.clear();
        for (word, used) in self.used.iter_mut().enumerate() {
            let mut left = std::mem::take(used);
            while left != 0 {
                let page = word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                let last = std::mem::replace(&mut self.last[page], look);
                if last > 0 {
                    let idle = before.since(self.looks[last as usize]);
                    self.back.add(idle, Pages(1));
                }
            }
        }
        self.looks.push(now);
        // Nobody waits for longer than the time that passes.
        let waited = self.refaults * self.cost_us;
        self.stalled_us += waited.min(now.since(before).0 * 1000);
    }

    /// Shows the policy what the last look told, and carries out what it orders; what that was.
    pub fn mind<M: Memory>(
        &mut self,
        (machine, id): (&mut Machine, MemcgId),
        memory: &mut M,
    ) -> Option<Order> {
        let now = self.looks.last().copied().unwrap_or_default();
        if self.policy.due().is_some_and(|due| now < due) {
            return None;
        }
        let (ages, out) = self.ages(machine.lruvec(id), now);
        let refaults = std::mem::take(&mut self.refaults);
        self.done.refaults += refaults;
        let order = self.policy.decide(&Seen {
            now,
            ages: &ages,
            // A simulated tenant has none.
            cache: &AgeHistogram::new(),
            out: &out,
            back: &self.back,
            refaults: Pages(refaults),
            stalled_us: Some(self.stalled_us),
            usage: machine.tree().get(id).usage(),
            is_dry: false,
        })?;
        let since = now.since(order.older_than);
        // Looks after this one were too late for a page to be old enough.
        let youngest = self.looks.partition_point(|at| *at <= since).max(1) - 1;
        let mut idle = Idle {
            minder: self,
            youngest: Look::try_from(youngest).unwrap_or(Look::MAX),
            memory,
        };
        let most = order.most.min(machine.unprotected(id));
        let shrunk = machine.reclaim_own_by_age(id, most, now, &mut idle);
        self.done.orders += 1;
        self.done.evicted += shrunk.reclaimed.0;
        Some(order)
    }

    /// Ages of what is in memory, and of what is out.
    #[must_use]
    pub fn ages(&self, lruvec: &Lruvec, now: Millis) -> (AgeHistogram, AgeHistogram) {
        let mut counts = vec![[0u64; 2]; self.looks.len()];
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
        for (at, [present, gone]) in self.looks.iter().zip(counts) {
            ages.add(now.since(*at), Pages(present));
            out.add(now.since(*at), Pages(gone));
        }
        (ages, out)
    }
}

/// Memory from which only what is old enough leaves, as a host's books say.
struct Idle<'a, M> {
    minder: &'a Minder,
    /// What this look or a later one found used stays.
    youngest: Look,
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
            let is_used = self.minder.used[page / 64] >> (page % 64) & 1 == 1;
            let last = self.minder.last[page];
            outcome.push(match () {
                () if is_used => PageOut::Referenced,
                () if last == 0 || last > self.youngest => PageOut::TooYoung,
                () => PageOut::Stored,
            });
            if outcome.last() == Some(&PageOut::Stored) {
                leaving.push(*id);
            }
        }
        let mut told = Vec::with_capacity(leaving.len());
        self.memory.page_out(memcg, &leaving, &mut told);
        let asked = outcome[first..]
            .iter_mut()
            .filter(|what| **what == PageOut::Stored);
        for (what, told) in asked.zip(told) {
            *what = told;
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
        minder: Minder,
    }

    impl World {
        fn new(older_than: u64) -> Self {
            let mut machine =
                Machine::of_one(MachineConfig::default(), Default::default(), Millis(0));
            machine.lruvec_mut(MemcgId::FIRST).ensure(PAGES as usize);
            let settings = Settings::ColdAge(ColdAgeSettings {
                older_than: Millis(older_than),
                every: Millis(SECOND),
                cache_older_than: Millis(0),
            });
            Self {
                machine,
                minder: Minder::new(settings, PAGES as usize, 20, Millis(0)),
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
            self.minder.touch(at.1, had_left);
        }

        fn look(&mut self, now: u64) {
            self.machine
                .walk_and_age(MemcgId::FIRST, Millis(now), &mut InWords);
            self.minder.look(Millis(now));
            self.minder
                .mind((&mut self.machine, MemcgId::FIRST), &mut InWords);
        }

        fn is_in(&self, page: u32) -> bool {
            let lruvec = self.machine.lruvec(MemcgId::FIRST);
            lruvec.folios().get(FolioId(page)).is_present()
        }
    }

    #[test]
    fn what_leaves_is_what_looks_say_is_old_enough() {
        let mut world = World::new(5 * SECOND);
        (0..PAGES).for_each(|page| world.touch(page));
        for second in 1..=10 {
            // Half of the pages are used until second 4, then no more.
            (0..if second <= 4 { 50 } else { 10 }).for_each(|page| world.touch(page));
            world.look(second * SECOND);
            for (page, last) in [(5, second), (20, second.min(4)), (80, 1)] {
                assert_eq!(world.is_in(page), second - last < 5, "{page} at {second}");
            }
        }
        assert_eq!(world.minder.done().evicted, 90);
    }

    /// What the policies that go by histograms stand on. The engine may keep a page of a tier that it protects for a
    /// generation more (lru-gen.md 6.4), so a little less comes back than could.
    #[test]
    fn what_comes_back_is_what_the_histogram_says_of_that_age() {
        let mut world = World::new(5 * SECOND);
        let (mut expected, mut noise) = (0, 7u32);
        for second in 1..=400 {
            for page in 0..PAGES {
                noise = noise.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                // Some pages each second, others each hour.
                if (noise >> 16) % (2 + page * 2) == 0 {
                    world.touch(page);
                }
            }
            world.look(second * SECOND);
            expected += world.minder.back().at_least(Millis(5 * SECOND)).0;
        }
        let refaults = world.minder.done().refaults;
        assert!(expected > 500);
        assert!(refaults <= expected && expected - refaults <= expected / 100);
    }
}
