//! Keeping the engine's books in step with what the keeper did.

use super::Target;
use keeper::layout::{CHUNK, CHUNK_PAGES, log};
use keeper::word::{PAGE_SIZE, State};

const PAGE: u64 = PAGE_SIZE as u64;

/// Pages of a target by state, counted from the table.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) limbo: u64,
    pub(crate) stored: u64,
    pub(crate) same: u64,
}

impl Target {
    /// Takes in the log; makes the books anew if entries were lost.
    pub(crate) fn read_log(&mut self) {
        let mut entries = Vec::new();
        let whole = self
            .link
            .read_log(|kind, pages, addr| entries.push((kind, pages, addr)));
        for (kind, pages, addr) in entries {
            match kind {
                log::REFAULT => self.came_back(addr, pages),
                log::REMOVED | log::UNMAPPED | log::REMAP_FROM => self.went(addr, pages),
                _ => {}
            }
        }
        if !whole {
            self.rebuild_books();
        }
    }

    fn came_back(&mut self, addr: u64, pages: u64) {
        let Some(first) = self.id_of(addr) else {
            return;
        };
        let in_chunk = CHUNK_PAGES - first as usize % CHUNK_PAGES;
        let n = usize::try_from(pages).map_or(in_chunk, |n| n.min(in_chunk));
        for (i, id) in (first..).take(n).enumerate() {
            // Out again or removed already: a later entry, or the table, tells the rest.
            if matches!(self.state_of(id).state(), State::Mapped | State::Limbo) {
                self.lru.refault(id, i == 0);
                self.newcomers.note(id);
                self.steady.forget(id);
            }
        }
    }

    fn went(&mut self, addr: u64, pages: u64) {
        let end = addr.saturating_add(pages.saturating_mul(PAGE)).min(1 << 47);
        let mut at = addr;
        while at < end {
            let stop = ((at / CHUNK + 1) * CHUNK).min(end);
            if let Some(first) = self.id_of(at) {
                let n = usize::try_from((stop - at) / PAGE).unwrap_or(0);
                self.lru.forget(first, n);
            }
            at = stop;
        }
    }

    /// Makes the books agree with the table, page by page.
    pub(crate) fn rebuild_books(&mut self) {
        for c in 0..self.link.chunks() {
            for i in 0..CHUNK_PAGES {
                let Ok(id) = u32::try_from(c * CHUNK_PAGES + i) else {
                    return;
                };
                let state = self.link.state(c, i).state();
                let resident = matches!(state, State::Mapped | State::Limbo | State::Writeback);
                match (resident, self.lru.known(id)) {
                    (true, false) => self.lru.first_touch(id),
                    (false, true) => self.lru.forget(id, 1),
                    _ => {}
                }
            }
        }
    }

    /// Counts pages by state.
    pub(crate) fn census(&self) -> Census {
        let mut n = Census::default();
        for c in 0..self.link.chunks() {
            for i in 0..CHUNK_PAGES {
                let word = self.link.state(c, i);
                match word.state() {
                    State::Limbo | State::Writeback => n.limbo += 1,
                    State::Stored => {
                        n.stored += 1;
                        let bytes = word.place().and_then(keeper::Place::bytes);
                        n.same += u64::from(matches!(bytes, Some(keeper::word::Bytes::Same(_))));
                    }
                    State::None | State::Mapped => {}
                }
            }
        }
        n
    }
}
