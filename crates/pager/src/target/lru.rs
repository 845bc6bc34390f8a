//! The engine as a target uses it: one tenant, anonymous pages by id.

use super::page_out::PageId;
use crate::options::{Algorithm, Policy};
use crate::record::{Event, Recorder};
use engine::active_inactive::Stage;
use engine::lru_gen::Profile;
use engine::memcg::MemcgLimits;
use engine::vmstat::VmStat;
use engine::workingset::{Aggregation, Bins, PageAge};
use engine::{
    FaultKind, FolioId, FolioType, Lruvec, Machine, MachineConfig, MemcgId, Millis, PageOut, Pages,
    ScanReason, Swappiness,
};

const ONE: MemcgId = MemcgId::FIRST;

/// The order in which a target's pages leave. Anonymous memory only: file pages are the kernel's.
pub(crate) struct Lru {
    machine: Machine,
    out: Vec<FolioId>,
    record: Option<Recorder>,
    /// Pages handed out since the last look at what is in use.
    since_watch: u64,
}

/// As far as anonymous memory goes: with 0 none of it leaves, and there is nothing else to
/// balance it against.
fn swappiness_of(policy: &Policy) -> Swappiness {
    match policy.swappiness {
        0 => Swappiness::FILE_ONLY,
        _ => Swappiness::ANON_ONLY,
    }
}

impl Lru {
    pub(crate) fn new(policy: &Policy, now: Millis) -> Lru {
        let (host, _) = super::proc::host_memory();
        let order = match policy.policy {
            Algorithm::MultiGen => engine::Policy::MultiGen(Profile::P616),
            Algorithm::ActiveInactive => {
                engine::Policy::ActiveInactive(Stage::Detection, Pages(host / 4096))
            }
        };
        // Limits are the supervisor's, which measures the kernel's own count.
        let config = MachineConfig {
            policy: order,
            ..MachineConfig::default()
        };
        let mut machine = Machine::of_one(config, MemcgLimits::default(), now);
        machine.set_swappiness(ONE, swappiness_of(policy));
        Lru {
            machine,
            out: Vec::new(),
            since_watch: u64::MAX,
            record: None,
        }
    }

    /// From now on, notes what happens in `recorder`.
    pub(crate) fn record(&mut self, recorder: Recorder) {
        self.record = Some(recorder);
    }

    fn note(&self, event: Event, page: u64) {
        if let Some(recorder) = &self.record {
            recorder.note(event, page);
        }
    }

    /// Whether to look at what is in use before more is taken. The multi-gen LRU asks by handing
    /// out nothing; the classic lists hand out pages for as long as they have any.
    pub(crate) fn wants_watch(&self) -> bool {
        let classic = self.lruvec().classic().is_some();
        classic && self.since_watch > self.lruvec().resident().0 / 4
    }

    fn ensure(&mut self, id: PageId) {
        let need = id as usize + 1;
        if self.lruvec().folios().len() < need {
            self.machine
                .lruvec_mut(ONE)
                .ensure(need.next_multiple_of(1 << 16));
        }
    }

    /// Whether the page is resident by the engine's books.
    pub(crate) fn known(&self, id: PageId) -> bool {
        let folios = self.lruvec().folios();
        (id as usize) < folios.len() && folios.get(FolioId(id)).is_present()
    }

    /// The page is there and was not before.
    pub(crate) fn first_touch(&mut self, id: PageId) {
        self.note(Event::FirstTouch, id.into());
        self.comes_in(id, FaultKind::FirstTouch);
    }

    /// The page came back from the store; `touched`, or beside one that was.
    pub(crate) fn refault(&mut self, id: PageId, touched: bool) {
        let (event, kind) = if touched {
            (Event::Refault, FaultKind::Refault)
        } else {
            (Event::Readahead, FaultKind::Readahead)
        };
        self.note(event, id.into());
        self.comes_in(id, kind);
    }

    fn comes_in(&mut self, id: PageId, kind: FaultKind) {
        self.ensure(id);
        let _ = self
            .machine
            .fault_in(ONE, FolioId(id), FolioType::Anon, kind, true);
    }

    /// The page was touched since the last pass.
    pub(crate) fn young(&mut self, id: PageId) {
        if self.known(id) {
            self.note(Event::Touched, id.into());
            self.machine.lruvec_mut(ONE).young(FolioId(id));
        }
    }

    /// The program removed the pages.
    pub(crate) fn forget(&mut self, first: PageId, pages: usize) {
        if self.record.is_some() {
            let pages = (u64::from(first)..).take(pages);
            let known = |page: &u64| PageId::try_from(*page).is_ok_and(|id| self.known(id));
            pages
                .filter(known)
                .for_each(|page| self.note(Event::Unmapped, page));
        }
        self.machine.unmap_range(ONE, FolioId(first), pages);
    }

    /// A generation is made.
    pub(crate) fn age(&mut self, now: Millis) {
        self.since_watch = 0;
        self.machine.age(ONE, now);
        self.note(Event::Aged, 0);
    }

    /// Isolates up to `nr` of the oldest pages into a sorted list; empty when aging must come
    /// first (or nothing is left).
    pub(crate) fn isolate(&mut self, reason: ScanReason, nr: usize) -> Vec<PageId> {
        self.out.clear();
        self.machine.isolate(ONE, nr, reason, &mut self.out);
        self.since_watch = self.since_watch.saturating_add(self.out.len() as u64);
        self.sorted()
    }

    /// Isolates up to `nr` pages that were not touched for `age`.
    pub(crate) fn isolate_older(&mut self, age: Millis, now: Millis, nr: usize) -> Vec<PageId> {
        self.out.clear();
        self.machine
            .isolate_older_than(ONE, (age, now), nr, &mut self.out);
        self.sorted()
    }

    fn sorted(&self) -> Vec<PageId> {
        let mut ids: Vec<PageId> = self.out.iter().map(|f| f.0).collect();
        ids.sort_unstable();
        ids
    }

    /// Tells what became of an isolated page.
    pub(crate) fn settle(&mut self, id: PageId, outcome: PageOut, reason: ScanReason) {
        if outcome == PageOut::Stored {
            self.note(Event::Evicted, id.into());
        }
        self.machine.settle(ONE, FolioId(id), (outcome, reason));
    }

    /// For how long the oldest pages have been idle at least, milliseconds; 0 where no ages are
    /// known.
    pub(crate) fn idle_ms(&self, now: Millis) -> u64 {
        let lru = self.lruvec().multi_gen();
        lru.map_or(0, |lru| {
            lru.idle_at_least(lru.min_seq(FolioType::Anon), now).0
        })
    }

    /// The counters.
    pub(crate) fn stats(&self) -> &VmStat {
        self.machine.stats(ONE)
    }

    /// How old the pages are.
    pub(crate) fn page_age(&self, now: Millis, bins: &Bins) -> PageAge {
        self.machine.page_age(ONE, now, bins, Aggregation::Exact)
    }

    fn lruvec(&self) -> &Lruvec {
        self.machine.lruvec(ONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(policy: Policy) -> Lru {
        let mut lru = Lru::new(&policy, Millis(0));
        (0..1000).for_each(|id| lru.first_touch(id));
        lru
    }

    fn take(lru: &mut Lru, nr: usize) -> Vec<PageId> {
        for pass in 1..5 {
            let ids = lru.isolate(ScanReason::Direct, nr);
            if !ids.is_empty() {
                return ids;
            }
            lru.age(Millis(pass));
        }
        Vec::new()
    }

    #[test]
    fn with_swappiness_0_no_anonymous_page_leaves() {
        for policy in [Algorithm::MultiGen, Algorithm::ActiveInactive] {
            let with = |swappiness| Policy {
                policy,
                swappiness,
                ..Policy::default()
            };
            assert!(take(&mut filled(with(0)), 100).is_empty());
            for some in [1, 60, 200] {
                assert!(!take(&mut filled(with(some)), 100).is_empty(), "{policy:?}");
            }
        }
    }

    #[test]
    fn the_classic_lists_need_no_generations_and_spare_what_is_in_use() {
        let policy = Policy {
            policy: Algorithm::ActiveInactive,
            ..Policy::default()
        };
        let mut lru = filled(policy);
        assert!(lru.wants_watch(), "nothing was looked at yet");
        (0..100).for_each(|id| lru.young(id));
        lru.age(Millis(1));
        assert!(!lru.wants_watch());
        let mut gone = Vec::new();
        while gone.len() < 300 {
            let ids = lru.isolate(ScanReason::Direct, 64);
            assert!(!ids.is_empty(), "after {} pages", gone.len());
            for &id in &ids {
                lru.settle(id, PageOut::Stored, ScanReason::Direct);
            }
            gone.extend(ids);
        }
        assert!(gone.iter().all(|&id| id >= 100), "{gone:?}");
        assert!(lru.wants_watch());
        assert_eq!(lru.idle_ms(Millis(9)), 0);
    }
}
