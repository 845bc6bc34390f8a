//! What `--listen` serves: metrics, and the dashboard.
//!
//! Invariant: the server keeps the last snapshot, the last curve of each tenant, and the history.
//! So requests cost the tree's owner nothing, however many there are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use host::manage::tenants::figures::NodeFigures;
use host::report::{Beside, Budget, COST_PERCENT, Curve, Needed};

use super::history::History;
use super::keeper::Keeper;
use super::metrics;
use super::page::{self, Query, View};
use super::snapshot::{Snapshot, SnapshotReceiver, name_of, now_ms};
use crate::http::{Answer, Head, Site, Status, nonce};

/// The data that the server shows.
pub(super) struct Shown {
    snapshot_receiver: SnapshotReceiver,
    last: Option<Last>,
    curves: Curves,
    history: History,
    keeper: Keeper,
    host: String,
}

struct Last {
    snapshot: Snapshot,
    /// The text of the metrics, once it is composed for this snapshot.
    metrics: Option<Arc<[u8]>>,
}

/// The last curve of each tenant, by its name.
#[derive(Default)]
struct Curves(BTreeMap<String, Curve>);

impl Curves {
    /// Takes the curves of a snapshot. Drops the earlier curves of tenants that are removed, or for
    /// which the snapshot says that the curve is unknown now.
    fn take(&mut self, snapshot: &mut Snapshot) {
        for (path, curve) in std::mem::take(&mut snapshot.curves) {
            let name = name_of(&path);
            match curve {
                Some(curve) => self.0.insert(name, curve),
                None => self.0.remove(&name),
            };
        }
        let there = snapshot.figures.tenants.iter();
        let there: BTreeSet<String> = there.map(|one| name_of(&one.path)).collect();
        self.0.retain(|name, _| there.contains(name));
    }

    /// Returns how much memory each tenant needs, by path. Tenants of which too little is known are
    /// not included.
    fn needed(&self, snapshot: &Snapshot) -> BTreeMap<PathBuf, Needed> {
        let budget = Budget::Cost(COST_PERCENT);
        let tenants = snapshot.figures.tenants.iter();
        let needed = tenants.filter_map(|tenant| {
            let curve = self.0.get(&name_of(&tenant.path))?;
            let sum = |of: fn(&NodeFigures) -> u64| tenant.nodes.iter().map(of).sum();
            let beside = Beside {
                resident_bytes: sum(|node| node.resident(0) + node.resident(1)),
                unknown_bytes: sum(|node| node.unknown[0] + node.unknown[1]),
            };
            let needed = Needed::of(curve, beside, budget, &snapshot.price)?;
            Some((tenant.path.clone(), needed))
        });
        needed.collect()
    }
}

impl Last {
    fn metrics(&mut self, curves: &Curves) -> Answer {
        let compose = || {
            let needed = curves.needed(&self.snapshot);
            metrics::text(&self.snapshot, &needed).into_bytes().into()
        };
        let body = self.metrics.get_or_insert_with(compose);
        Answer::new(Status::Ok, metrics::CONTENT_TYPE, Arc::clone(body))
    }
}

impl Shown {
    pub(super) fn new(
        snapshot_receiver: SnapshotReceiver,
        history: History,
        keeper: Keeper,
    ) -> Shown {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
        Shown {
            snapshot_receiver,
            last: None,
            curves: Curves::default(),
            history,
            keeper,
            host: host.unwrap_or_default().trim().to_owned(),
        }
    }

    /// Takes the last snapshot when the tree's owner has ended, and waits until the history is
    /// written.
    pub(super) fn end(mut self) {
        self.wake();
        self.keeper.finish(&mut self.history);
    }

    fn page(&self, head: &Head, snapshot: &Snapshot) -> Answer {
        let Ok(nonce) = nonce() else {
            return Answer::line(Status::Unavailable, "the kernel has too little chance");
        };
        let query = Query::of(&head.query);
        let view = View {
            snapshot,
            curve: self.curves.0.get(&query.tenant),
            history: &self.history,
            query,
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
                "no scan has ended yet: try again in a moment",
            )
        };
        match head.path.as_str() {
            "/metrics" => {
                let curves = &self.curves;
                let last = self.last.as_mut();
                last.map_or_else(later, |last| last.metrics(curves))
            }
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
        while let Ok(mut snapshot) = self.snapshot_receiver.snapshots.try_recv() {
            self.history.push(&snapshot);
            self.curves.take(&mut snapshot);
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

#[cfg(test)]
mod tests {
    use host::manage::tenants::figures::{Figures, TenantFigures};

    use super::*;

    fn snapshot(there: &[&str], curves: &[(&str, Option<u64>)]) -> Snapshot {
        let tenant = |path: &&str| TenantFigures {
            path: path.into(),
            ..TenantFigures::default()
        };
        let curve = |(path, watched_ms): &(&str, Option<u64>)| {
            let curve = watched_ms.map(|watched_ms| Curve {
                watched_ms,
                ..Curve::default()
            });
            (PathBuf::from(path), curve)
        };
        Snapshot {
            names: Arc::default(),
            at_ms: 0,
            nodes: vec![0],
            figures: Figures {
                tenants: there.iter().map(tenant).collect(),
                ..Figures::default()
            },
            curves: curves.iter().map(curve).collect(),
            price: host::report::Price::default(),
            swap: None,
            actions: Vec::new(),
        }
    }

    #[test]
    fn curves_stay_until_replaced_or_their_tenants_are_removed() {
        let mut curves = Curves::default();
        let mut take = |mut one: Snapshot| {
            curves.take(&mut one);
            let all = curves.0.iter();
            let all = all.map(|(name, curve)| format!("{name} {}", curve.watched_ms));
            all.collect::<Vec<_>>()
        };
        let first = snapshot(
            &["", "a", "b"],
            &[("", Some(1)), ("a", Some(2)), ("b", None)],
        );
        assert_eq!(take(first), ["/ 1", "/a 2"]);
        let next = snapshot(&["", "a", "b"], &[("b", Some(3))]);
        assert_eq!(take(next), ["/ 1", "/a 2", "/b 3"]);
        // Tenant `a` was removed and made again, and has no curve yet.
        let anew = snapshot(&["", "a", "b"], &[("a", None)]);
        assert_eq!(take(anew), ["/ 1", "/b 3"]);
        assert_eq!(take(snapshot(&[""], &[])), ["/ 1"], "b is gone");
    }
}
