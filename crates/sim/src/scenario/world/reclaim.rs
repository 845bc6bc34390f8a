//! Reclaim before charges; aging, with the tenants' policies; and the reclaim that the file
//! requests.

use super::{Guest, World};
use crate::scenario::file::{Global, Reclaim};
use engine::lru_gen::LruGen;
use engine::machine::{Ongoing, ReclaimRequest};
use engine::{MemcgId, Memory, Millis, NodeId, Pages, ScanReason, Swappiness};

impl World {
    /// Reclaims until one page fits on the machine and under the limits of `id`.
    pub(super) fn make_room(&mut self, n: usize, id: MemcgId) {
        if self.is_host() {
            self.hold_limits(n);
        }
        let root = self.machine.tree().get(MemcgId::ROOT).usage();
        if let Some(memory) = self.file.run.memory
            && root.0 + 1 > memory.pages()
        {
            let nr = Pages((root.0 + 1 - memory.pages()).max(128));
            self.reclaim_root(nr);
        }
        #[cfg(test)]
        if self.bug == Some(crate::scenario::oracle::Bug::IgnoresMax) {
            return;
        }
        let now = Millis(self.now);
        // The failure is counted for the tenant whose limit was reached, which may be above the
        // tenant that faulted.
        if let Err(oom) = self.machine.make_room(id, Pages(1), now, &mut self.spaces) {
            let mut path = std::iter::successors(Some(n), |&at| self.guests[at].parent);
            let at = path.find(|&at| self.guests[at].memcg == Some(oom.at));
            self.guests[at.unwrap_or(n)].counts.ooms += 1;
        }
    }

    /// Reclaims `nr` pages of the machine directly. The file says how many reclaimers do so at the
    /// same time; the order in which they proceed is random.
    fn reclaim_root(&mut self, nr: Pages) {
        let root = MemcgId::ROOT;
        let request = self.request(ScanReason::Direct, nr, None);
        let reclaimers = self.file.run.reclaimers;
        if reclaimers > 1 {
            let nr = Pages(nr.0.div_ceil(u64::from(reclaimers)));
            let requests = vec![ReclaimRequest { nr, ..request }; usize::from(reclaimers)];
            let order = &mut self.order;
            let mut pick = |among: usize| order.below(u32::try_from(among).unwrap_or(1)) as usize;
            self.machine
                .reclaim_together(root, &requests, &mut pick, &mut self.spaces);
            return;
        }
        match self.file.run.global() {
            Global::MemcgLru => self.machine.reclaim_root(request, &mut self.spaces),
            Global::Iterator => self
                .machine
                .reclaim_subtree(root, request, &mut self.spaces),
            Global::HeatLevel => self.machine.reclaim_by_heat(request, &mut self.spaces),
        };
    }

    pub(super) fn request(
        &self,
        reason: ScanReason,
        nr: Pages,
        swappiness: Option<Swappiness>,
    ) -> ReclaimRequest {
        ReclaimRequest {
            reason,
            nr,
            swappiness,
            now: Millis(self.now),
        }
    }

    pub(super) fn age(&mut self, before: u64) {
        let is_time = |every: u64| before / every != self.now / every;
        if !self
            .file
            .run
            .age_every
            .is_some_and(|every| is_time(every.0))
        {
            return;
        }
        let is_host = self.is_host();
        if is_host {
            self.scan_host();
        }
        for guest in &mut self.guests {
            let Some(id) = guest.memcg else { continue };
            let lruvec = self.machine.lruvec_mut(id);
            let Some(seq) = lruvec.multi_gen().map(LruGen::max_seq) else {
                continue;
            };
            if is_host {
                self.machine.age_after_scan(id, Millis(self.now));
            } else if lruvec.begin_walk(seq) {
                self.spaces.walk_all(id, lruvec);
                lruvec.inc_max_seq(seq, Swappiness::default(), Millis(self.now));
            }
            if let Some(policy_runner) = &mut guest.policy_runner {
                let before = policy_runner.done().evicted;
                policy_runner.scan(Millis(self.now));
                policy_runner.run_policy((&mut self.machine, id), &mut self.spaces);
                guest.counts.evicted += policy_runner.done().evicted - before;
            }
        }
    }

    pub(super) fn reclaim(&mut self, before: u64) {
        for r in 0..self.file.reclaim.len() {
            let reclaim = self.file.reclaim[r].get_ref().clone();
            let start = reclaim.start.0;
            let times = |t: u64| match (t.checked_sub(start), reclaim.every) {
                (None, _) => 0,
                (Some(since), Some(every)) => since / every.0 + 1,
                (Some(_), None) => 1,
            };
            let first = u64::from(before == 0 && start == 0);
            for _ in times(before) - first.min(times(before))..times(self.now) {
                self.write_reclaim(&reclaim);
            }
        }
    }

    fn write_reclaim(&mut self, reclaim: &Reclaim) {
        let swappiness = reclaim.swappiness.and_then(Swappiness::new);
        let nr = Pages(reclaim.size.pages());
        let request = self.request(ScanReason::Proactive, nr, swappiness);
        let named = |guest: &&Guest| {
            let name = &self.file.tenant[guest.group].get_ref().name;
            reclaim.tenant.as_ref() == Some(name)
        };
        let targets: Vec<MemcgId> = match &reclaim.tenant {
            None => vec![MemcgId::ROOT],
            Some(_) => {
                let guests = self.guests.iter().filter(named);
                guests.filter_map(|guest| guest.memcg).collect()
            }
        };
        if self.is_host() {
            self.scan_before_reclaim();
        }
        let node = reclaim.node.map(|node| NodeId::of_index(node.into()));
        for id in targets {
            let mut ongoing = Ongoing::proactive(id, request).on_node(node);
            // The simulated memory never pauses a reclaim, so one call completes it. To reclaim
            // less than the requested amount is a valid result, and shows in pgsteal.
            self.machine
                .resume(&mut ongoing, request.now, &mut self.spaces);
        }
        #[cfg(test)]
        crate::scenario::oracle::plant(self);
    }
}
