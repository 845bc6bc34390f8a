//! A look at all tenants: who is in them, and what of theirs is in memory.
//!
//! Invariant: a process is of the tenant whose group the kernel lists it in, and of the root if it is not listed any more;
//! one that was moved is read even if it slept.

use std::time::{Duration, Instant};

use engine::memcg::MemcgId;

use super::Tenants;
use super::list::Listing;
use crate::system::Identity;
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
        let Listing {
            homes: by_pid,
            strangers,
        } = self.list();
        self.driver.watch.leave_out(strangers);
        self.driver.watch.list(by_pid.keys().copied().collect());
        // Who is in no group any more and has not ended yet: nothing is taken from it, if that may not be.
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
}
