//! The engine as a target uses it: one tenant, anonymous pages by id.

use super::page_out::PageId;
use crate::record::{Event, Recorder};
use engine::lru_gen::Profile;
use engine::memcg::MemcgLimits;
use engine::{
    Engine, EngineConfig, FaultKind, FolioId, FolioType, Millis, PageOut, ScanReason, Swappiness,
};

/// The order in which a target's pages leave. Anonymous memory only: file pages are the kernel's.
pub(crate) struct Lru {
    engine: Engine,
    out: Vec<FolioId>,
    record: Option<Recorder>,
}

impl Lru {
    pub(crate) fn new(now: Millis) -> Lru {
        // Limits are the supervisor's, which measures the kernel's own count.
        let config = EngineConfig {
            policy: engine::Policy::MultiGen(Profile::P616),
            limits: MemcgLimits::default(),
            swappiness: Swappiness::ANON_ONLY,
        };
        Lru {
            engine: Engine::new(config, now),
            out: Vec::new(),
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

    fn ensure(&mut self, id: PageId) {
        let need = id as usize + 1;
        if self.engine.lruvec().folios().len() < need {
            self.engine.ensure(need.next_multiple_of(1 << 16));
        }
    }

    /// Whether the page is resident by the engine's books.
    pub(crate) fn known(&self, id: PageId) -> bool {
        let folios = self.engine.lruvec().folios();
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
            .engine
            .fault_in(FolioId(id), FolioType::Anon, kind, true);
    }

    /// The page was touched since the last pass.
    pub(crate) fn young(&mut self, id: PageId) {
        if self.known(id) {
            self.note(Event::Touched, id.into());
            self.engine.young(FolioId(id));
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
        self.engine.unmap_range(FolioId(first), pages);
    }

    /// A generation is made.
    pub(crate) fn age(&mut self, now: Millis) {
        self.engine.age(now);
        self.note(Event::Aged, 0);
    }

    /// Isolates up to `nr` of the oldest pages into a sorted list; empty when aging must come
    /// first (or nothing is left).
    pub(crate) fn isolate(&mut self, reason: ScanReason, nr: usize) -> Vec<PageId> {
        self.out.clear();
        self.engine.isolate(nr, reason, &mut self.out);
        self.sorted()
    }

    /// Isolates up to `nr` pages that were not touched for `age`.
    pub(crate) fn isolate_older(&mut self, age: Millis, now: Millis, nr: usize) -> Vec<PageId> {
        self.out.clear();
        self.engine.isolate_older_than(age, nr, now, &mut self.out);
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
        self.engine.settle(FolioId(id), outcome, reason);
    }

    /// For how long the oldest pages have been idle at least, milliseconds.
    pub(crate) fn idle_ms(&self, now: Millis) -> u64 {
        let lru = self.engine.lru_gen();
        lru.idle_at_least(lru.min_seq(FolioType::Anon), now).0
    }

    /// Pages by how long they have been idle at least, milliseconds.
    pub(crate) fn ages(&self, now: Millis) -> Vec<(u64, u64)> {
        let lru = self.engine.lru_gen();
        let seqs = lru.min_seq(FolioType::Anon)..=lru.max_seq();
        seqs.map(|seq| {
            (
                lru.idle_at_least(seq, now).0,
                lru.size(seq, FolioType::Anon),
            )
        })
        .collect()
    }

    /// The engine itself, to look at.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}
