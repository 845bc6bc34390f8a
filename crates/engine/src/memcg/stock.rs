//! Charging ahead: a worker charges more pages to one memcg than it needs, and keeps them as its
//! stock, so that most charges touch no shared counter.
//! spec: reclaim-control.md 1.
//!
//! Invariant: a stock has at most one batch of pages, which are all charged to one memcg.

use super::MemcgId;
use crate::units::Pages;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug)]
struct Stock {
    memcg: MemcgId,
    pages: Pages,
}

/// The stocks of all workers.
#[derive(Debug)]
pub(super) struct Stocks {
    workers: Vec<Stock>,
    batch: u64,
}

impl Stocks {
    pub(super) fn new(workers: usize, batch: u64) -> Self {
        let empty = Stock {
            memcg: MemcgId::ROOT,
            pages: Pages(0),
        };
        Self {
            workers: alloc::vec![empty; workers],
            batch,
        }
    }

    pub(super) const fn batch(&self) -> u64 {
        self.batch
    }

    /// Takes `nr` pages for `id` from the stock of `worker`. Returns false, and takes none, if the
    /// stock has too few pages or is of another memcg.
    pub(super) fn consume(&mut self, worker: usize, id: MemcgId, nr: Pages) -> bool {
        let stock = &mut self.workers[worker];
        let enough = stock.memcg == id && stock.pages >= nr;
        if enough {
            stock.pages = stock.pages.less(nr);
        }
        enough
    }

    /// Puts `nr` charged pages of `id` into the stock of `worker`. Returns pages that the caller
    /// must uncharge, and their memcg: the worker's former stock of another memcg, or the whole
    /// stock if it has become larger than a batch. `None` if no page must be uncharged.
    pub(super) fn refill(
        &mut self,
        worker: usize,
        id: MemcgId,
        nr: Pages,
    ) -> Option<(MemcgId, Pages)> {
        // A batch of 1 means no stock: charges are exact.
        let batch = if self.batch > 1 { self.batch } else { 0 };
        if nr.0 > batch {
            return Some((id, nr));
        }
        let stock = &mut self.workers[worker];
        let mut to_uncharge = None;
        if stock.memcg != id {
            to_uncharge = Some((stock.memcg, stock.pages));
            *stock = Stock {
                memcg: id,
                pages: Pages(0),
            };
        }
        stock.pages.0 += nr.0;
        if stock.pages.0 > batch {
            to_uncharge = Some((id, core::mem::take(&mut stock.pages)));
        }
        to_uncharge.filter(|(_, pages)| pages.0 > 0)
    }

    /// Empties the stocks of `id`, or all stocks if `None`. Returns the memcgs and pages that the
    /// caller must uncharge.
    pub(super) fn drain(&mut self, id: Option<MemcgId>) -> Vec<(MemcgId, Pages)> {
        let stocks = self
            .workers
            .iter_mut()
            .filter(|s| id.is_none_or(|id| s.memcg == id));
        let taken = stocks.map(|s| (s.memcg, core::mem::take(&mut s.pages)));
        taken.filter(|(_, pages)| pages.0 > 0).collect()
    }

    pub(super) fn of(&self, id: MemcgId) -> Pages {
        let stocks = self.workers.iter().filter(|s| s.memcg == id);
        Pages(stocks.map(|s| s.pages.0).sum())
    }
}
