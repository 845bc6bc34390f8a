//! One work (`[[tenant.work]]`) of a tenant: how often it touches pages in a step, and which pages.
//!
//! Invariant: the works of a tenant have separate pages, one after the other from page 0.

use crate::rng::Rng;
use crate::scenario::file::{AdviceName, Kind, Work};
use crate::scenario::pattern::Pattern;
use crate::scenario::recorded::Event;
use crate::scenario::space::Space;
use crate::vma::{Advice, Fadvice, OpenFileId, Vma, VmaKind};
use engine::{FolioId, FolioType};

/// A work of a tenant, with its state.
pub(super) struct Worker {
    pub(super) work: Work,
    pattern: Pattern,
    rng: Rng,
    /// Number of the first page of its mapping, which is also the number of the first folio.
    pub(super) first: u32,
    pub(super) pages: u32,
    /// Fraction of a touch that is carried over to the next step, in thousandths.
    owed: u64,
    /// Time when the work continues after a sleep above memory.high, milliseconds; 0 before the
    /// first sleep.
    pub(super) sleeps_until: u64,
}

impl Worker {
    /// Returns the number of touches in a step of `step` ms that begins `since` ms after the
    /// tenant's arrival.
    pub(super) fn due(&mut self, since: u64, step: u64) -> u64 {
        let stopped = self.work.stop.is_some_and(|stop| stop.0 <= since);
        if self.work.start.0 > since || stopped {
            return 0;
        }
        self.owed += self.work.rate() * step;
        let touches = self.owed / 1000;
        self.owed %= 1000;
        touches
    }

    /// Returns the page that the work touches next, at time `now`; `None` if its pattern has ended.
    pub(super) fn next(&mut self, now: u64) -> Option<FolioId> {
        let page = self.pattern.next(&mut self.rng, self.pages, now)?;
        Some(FolioId(self.first + page))
    }

    /// Returns the next event of a recording in a step of `step` ms that begins `since` ms after
    /// the tenant's arrival; `None` if there is none.
    pub(super) fn replay(&mut self, since: u64, step: u64) -> Option<Event> {
        let until = since + step;
        let until = self.work.stop.map_or(until, |stop| until.min(stop.0));
        let until = until.checked_sub(self.work.start.0)?;
        self.pattern.replay(until)
    }

    pub(super) const fn folio_type(&self) -> FolioType {
        match self.work.memory {
            Kind::Anon => FolioType::Anon,
            Kind::File => FolioType::File,
        }
    }

    /// Maps the work's memory into `space`. If it is memory of a file, `file` is the open file
    /// description.
    pub(super) fn map(&self, space: &mut Space, file: OpenFileId) {
        let advice = match self.work.advice {
            AdviceName::Normal | AdviceName::Noreuse => Advice::Normal,
            AdviceName::Sequential => Advice::Sequential,
            AdviceName::Random => Advice::Random,
        };
        let start = u64::from(self.first);
        let vma = Vma {
            start,
            end: start + u64::from(self.pages),
            kind: match self.work.memory {
                Kind::Anon => VmaKind::Anon,
                Kind::File => VmaKind::File(file),
            },
            advice,
            first: FolioId(self.first),
        };
        space.map(vma);
        if self.work.advice == AdviceName::Noreuse {
            space.map.fadvise(file, Fadvice::NoReuse);
        }
    }
}

/// Makes the workers of a tenant; their random numbers come from `seed`.
pub(super) fn workers(works: impl Iterator<Item = Work>, seed: u64) -> Vec<Worker> {
    let mut first = 0;
    let mut all = Vec::new();
    for (n, work) in (0..).zip(works) {
        let pages = u32::try_from(work.pages()).unwrap_or(u32::MAX);
        all.push(Worker {
            pattern: Pattern::new(&work),
            rng: Rng::stream(seed, n),
            work,
            first,
            pages,
            owed: 0,
            sleeps_until: 0,
        });
        first += pages;
    }
    all
}
