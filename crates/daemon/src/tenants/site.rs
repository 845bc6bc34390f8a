//! What is shown: metrics, and the page.
//!
//! Invariant: the last snapshot, and the history of all; whoever asks, and however often, costs the tree's owner nothing.

use std::sync::Arc;
use std::time::Duration;

use super::history::History;
use super::keeper::Keeper;
use super::metrics;
use super::page::{self, Query, View};
use super::snapshot::{Board, Snapshot, now_ms};
use crate::http::{Answer, Head, Site, Status, nonce};

/// See the module.
pub(super) struct Shown {
    board: Board,
    last: Option<Last>,
    history: History,
    keeper: Keeper,
    host: String,
}

struct Last {
    snapshot: Snapshot,
    /// Once composed.
    metrics: Option<Arc<[u8]>>,
}

impl Last {
    fn metrics(&mut self) -> Answer {
        let compose = || metrics::text(&self.snapshot).into_bytes().into();
        let body = self.metrics.get_or_insert_with(compose);
        Answer::new(Status::Ok, metrics::CONTENT_TYPE, Arc::clone(body))
    }
}

impl Shown {
    pub(super) fn new(board: Board, history: History, keeper: Keeper) -> Shown {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
        Shown {
            board,
            last: None,
            history,
            keeper,
            host: host.unwrap_or_default().trim().to_owned(),
        }
    }

    /// The owner has ended.
    pub(super) fn end(mut self) {
        self.wake();
        self.keeper.finish(&mut self.history);
    }

    fn page(&self, head: &Head, snapshot: &Snapshot) -> Answer {
        let Ok(nonce) = nonce() else {
            return Answer::line(Status::Unavailable, "the kernel has too little chance");
        };
        let view = View {
            snapshot,
            history: &self.history,
            query: Query::of(&head.query),
            host: &self.host,
            nonce: &nonce,
            now_ms: now_ms(),
        };
        let status = match page::is_known(snapshot, &self.history, &view.query.tenant) {
            true => Status::Ok,
            false => Status::NotFound,
        };
        let text = page::html(&view).into_bytes();
        Answer::new(status, "text/html; charset=utf-8", text).allowing(&page::sources(&nonce))
    }
}

impl Site for Shown {
    fn answer(&mut self, head: &Head) -> Answer {
        let later = || {
            Answer::line(
                Status::Unavailable,
                "nothing was looked at yet: ask again in a moment",
            )
        };
        match head.path.as_str() {
            "/metrics" => self.last.as_mut().map_or_else(later, Last::metrics),
            "/" => {
                let last = self.last.as_ref();
                last.map_or_else(later, |last| self.page(head, &last.snapshot))
            }
            _ => Answer::line(
                Status::NotFound,
                "there is no such thing here: / and /metrics are",
            ),
        }
    }

    fn wake(&mut self) {
        while let Ok(snapshot) = self.board.snapshots.try_recv() {
            self.history.push(&snapshot);
            self.last = Some(Last {
                snapshot,
                metrics: None,
            });
        }
        self.keeper.work(&mut self.history);
    }

    fn pause(&self) -> Duration {
        self.keeper.pause()
    }
}
