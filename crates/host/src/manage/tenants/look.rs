//! A look at all tenants: which groups there are, who is in them, and what of theirs is in memory.
//!
//! Invariant: a process is of the tenant whose group the kernel lists it in, and of the root if that group came later
//! than the listing; one that was moved is read even if it slept.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use engine::memcg::MemcgId;

use super::Tenants;
use super::tenant::Tenant;
use crate::system::Identity;
use crate::wall::Wall;
use crate::watch::WatchError;

/// Looks may take this part of a processor, more often than the interval, while reclaim needs fresh ages.
const LOOKS_SHARE: u32 = 20;
/// All other looks may take this part of it, whatever interval is asked for.
const WORK_SHARE: u32 = 10;
/// Between two looks that reclaim needs at least.
const LOOKS_APART: Duration = Duration::from_millis(200);
/// Between two of them for reports at least. (Read ten times a second beside a busy machine, 261 of 535 pages that one of 16
/// tenants used each second were told to be 5 to 7 seconds old. Not explained.)
const REFRESH_LEAST: Duration = Duration::from_secs(1);
/// Nobody asked for fresh reports.
const IDLE_MAX: Duration = Duration::from_secs(3600);

impl Tenants {
    /// Reads everything, and opens a generation in each tenant.
    pub(super) fn look(&mut self) -> Result<(), WatchError> {
        let begin = Instant::now();
        self.read()?;
        let now = self.now();
        let all: Vec<MemcgId> = self.tenants.keys().copied().collect();
        for memcg in all {
            self.driver.machine.age(memcg, now);
        }
        let pause = self.driver.look_took() * WORK_SHARE;
        self.next_look = begin + self.driver.watch.apart().max(pause);
        Ok(())
    }

    /// Looks between two intervals, if the last look is long enough ago for what looks cost.
    pub(super) fn look_if_worth_it(&mut self) -> Result<(), WatchError> {
        let apart = (self.driver.look_took() * LOOKS_SHARE).max(LOOKS_APART);
        if self.driver.look_age() < apart {
            return Ok(());
        }
        self.read()
    }

    /// Reads between two looks where reports are to be fresh, within what looks may take; how long that is not due. What is
    /// read opens no generation: reclaim goes by looks. spec: workingset-report.md 6.
    pub(super) fn refresh(&mut self) -> Result<Duration, WatchError> {
        let interval = self.driver.watch.interval();
        let refresh = self.refresh.map(|refresh| refresh.max(REFRESH_LEAST));
        let Some(refresh) = refresh.filter(|refresh| *refresh < interval) else {
            return Ok(IDLE_MAX);
        };
        let age = self.driver.look_age();
        if age >= refresh.max(self.driver.look_took() * WORK_SHARE) {
            self.read()?;
        }
        let apart = refresh.max(self.driver.look_took() * WORK_SHARE);
        Ok(apart.saturating_sub(self.driver.look_age()))
    }

    /// Reports are to be no older than this; none for as old as looks make them.
    pub fn set_refresh(&mut self, refresh: Option<Duration>) {
        self.refresh = refresh;
    }

    fn read(&mut self) -> Result<(), WatchError> {
        self.find_groups();
        let strangers = self.strangers();
        self.driver.watch.leave_out(strangers);
        let by_pid = self.processes();
        // Who is in no group that was listed came meanwhile: nothing is taken from it for one look, if that may not be.
        let unlisted = self.host.as_ref().map_or(MemcgId::ROOT, |host| host.memcg);
        let home = |identity: Identity| {
            let found = by_pid.get(&identity.pid).copied();
            found.unwrap_or(unlisted)
        };
        let members = self.driver.watch.members().to_vec();
        let (ages, _) = self.driver.watch.ages_and_proc();
        for identity in &members {
            if self.homes.get(identity) != Some(&home(*identity)) {
                ages.read_again(*identity);
            }
        }
        self.driver.read(&home)?;
        let members = self.driver.watch.members().iter();
        self.homes = members.map(|one| (*one, home(*one))).collect();
        self.measure();
        self.note_caches();
        Ok(())
    }

    /// Groups that came and went by another's hand. Those that are not ours count to the tenant above.
    fn find_groups(&mut self) {
        let is_gone = |memcg: &&MemcgId| {
            let tenant = self.tenants.get(memcg);
            tenant.is_some_and(|tenant| tenant.serial != 0 && !tenant.wall.is_there())
        };
        let gone: Vec<MemcgId> = self.by_path.values().filter(is_gone).copied().collect();
        // From the leaves up: the engine releases nobody who has children.
        for memcg in gone.into_iter().rev() {
            self.drop_tenant(memcg);
        }
        let mut above = vec![MemcgId::ROOT];
        above.extend(self.host.as_ref().map(|host| host.memcg));
        while let Some(parent) = above.pop() {
            let Some(tenant) = self.tenants.get(&parent) else {
                continue;
            };
            let (path, mut below) = (tenant.path.clone(), tenant.wall.below());
            let of_host = tenant.of_host;
            below.retain(|dir| !of_host || self.is_hosts_own(dir));
            for dir in below {
                let path = path.join(dir.file_name().unwrap_or_default());
                above.extend(self.take_up(parent, path, &dir));
            }
        }
    }

    /// The tenant of a group that is there.
    fn take_up(
        &mut self,
        parent: MemcgId,
        path: PathBuf,
        dir: &std::path::Path,
    ) -> Option<MemcgId> {
        if let Some(known) = self.by_path.get(&path) {
            return Some(*known);
        }
        let of_host = self.tenants.get(&parent)?.of_host;
        let wall = match of_host {
            true => Wall::of_host(&self.groups, dir, self.manager),
            false => Wall::tenant(&self.groups, dir, self.manager, true),
        };
        let wall = wall.ok()?;
        let now = self.now();
        let memcg = self.driver.machine.create(parent, now);
        self.admit(memcg, path, wall, of_host);
        Some(memcg)
    }

    /// Whose tenant each process is. Groups below a tenant that are no tenants are of it: those below come later.
    fn processes(&self) -> BTreeMap<u32, MemcgId> {
        let mut by_pid = BTreeMap::new();
        let has_strangers = |tenant: &Tenant| {
            let below = tenant.wall.below().into_iter();
            let known = |dir: &PathBuf| {
                let path = tenant.path.join(dir.file_name().unwrap_or_default());
                self.by_path.contains_key(&path)
            };
            !below.collect::<Vec<_>>().iter().all(known)
        };
        let in_order = self.by_path.values().filter_map(|id| self.tenants.get(id));
        for tenant in in_order {
            // Below a group of the host are other tenants, of both kinds, and groups of other managers.
            let pids = match !tenant.of_host && has_strangers(tenant) {
                true => tenant.wall.pids(),
                false => tenant.wall.own_pids(),
            };
            let pids = pids.unwrap_or_default();
            by_pid.extend(pids.into_iter().map(|pid| (pid, tenant.memcg)));
        }
        by_pid
    }
}
