//! Limits of all tenants, as the kernel measures them.
//!
//! Invariant: usage is never counted from pages: it is what the kernel charges to each group with all below it, each byte to
//! whom it is the engine's to take from ([`Tenants::used`]). How much a limit asks for is the engine's arithmetic, who gives
//! it the engine's choice, by each tenant's protection.

use std::time::{Duration, Instant};

use engine::machine::{Ongoing, ReclaimRequest};
use engine::memcg::MemcgId;
use engine::{Limit, Pages, ScanReason};

use super::super::IDLE_MAX;
use super::super::room::Room;
use super::super::tally::Tally;
use super::Tenants;
use super::under_way::Why;
use crate::system::cgroup::Version;

/// Most pages that one measurement asks for: then usage is measured again.
const AT_ONCE: u64 = 8192;
/// What could not be measured is tried again after this.
const AGAIN: Duration = Duration::from_millis(200);

impl Tenants {
    /// Tells the engine what each tenant uses.
    pub(super) fn measure(&mut self) {
        let all = self.tenants.values();
        let used: Vec<(MemcgId, u64)> = all
            .filter_map(|tenant| Some((tenant.memcg, self.used(tenant).ok()?)))
            .collect();
        for (memcg, used) in used {
            self.driver.machine.set_measured(memcg, Pages(used / 4096));
        }
    }

    /// Sets out to bring those who are over their limits under them; how long none need be measured.
    pub(super) fn hold(&mut self) -> Duration {
        let held = self.tenants.values().filter(|tenant| tenant.is_held());
        let held: Vec<MemcgId> = held.map(|tenant| tenant.memcg).collect();
        let mut pause = IDLE_MAX;
        for memcg in held {
            let Some(next) = self.tenants.get(&memcg).map(|tenant| tenant.next_hold) else {
                continue;
            };
            let now = Instant::now();
            // One that gives already is measured when it has.
            if self.is_held_down(memcg) {
                continue;
            }
            let wait = match now < next {
                true => next - now,
                false => self.hold_one(memcg),
            };
            pause = pause.min(wait);
        }
        pause
    }

    /// One of them; how long it need not be measured.
    fn hold_one(&mut self, memcg: MemcgId) -> Duration {
        let has_wall = memcg != MemcgId::ROOT || self.budget_of_host().is_none();
        // Version 1 has no memory.high.
        let has_high = self.groups.version == Version::V2;
        let used = self.tenants.get(&memcg).map(|tenant| self.used(tenant));
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return IDLE_MAX;
        };
        let Some(Ok(used)) = used else {
            // One that is gone is dropped by the next look; the host may lack descriptors for a moment.
            tenant.next_hold = Instant::now() + AGAIN;
            return AGAIN;
        };
        tenant.next_hold = Instant::now() + IDLE_MAX;
        let usage = Pages(used / 4096);
        let _ = tenant.due.put(&tenant.wall);
        let Some(wanted) = Room::wanted(&tenant.limits, usage) else {
            return IDLE_MAX;
        };
        // Page cache that nobody maps goes first, and the kernel drops it by itself at the wall.
        let cache = match wanted.pages > Pages(0) && has_wall {
            true => tenant.wall.cache_unmapped().unwrap_or(0),
            false => 0,
        };
        let pages = wanted.pages.less(Pages(cache / 4096));
        if pages == Pages(0) {
            let wait = tenant.room.pause(usage, wanted.left);
            tenant.next_hold = Instant::now() + wait;
            return wait;
        }
        self.driver.machine.set_measured(memcg, usage);
        let why = Why::Limit {
            usage,
            left: wanted.left,
            most: Pages(pages.0.min(AT_ONCE)),
            has_wall: has_wall && (has_high || tenant.limits.high == Limit::Max),
        };
        self.set_out(memcg, why);
        Duration::ZERO
    }

    /// What the engine is asked for.
    pub(super) fn step_for_limit(&self, memcg: MemcgId, most: Pages) -> Vec<Ongoing> {
        let request = ReclaimRequest {
            reason: ScanReason::Direct,
            nr: most,
            swappiness: None,
            now: self.now(),
        };
        vec![Ongoing::once(memcg, request)]
    }

    /// What came of it.
    pub(super) fn end_hold(
        &mut self,
        memcg: MemcgId,
        tally: &Tally,
        (usage, left, most): (Pages, Pages, Pages),
    ) {
        self.pressed.insert(memcg);
        let got = Pages(tally.evicted);
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return;
        };
        tenant.room.note(got, most);
        let wait = match got == Pages(0) {
            true => tenant.room.pause(usage, left),
            false => Duration::ZERO,
        };
        tenant.next_hold = Instant::now() + wait;
        let name = tenant.path.display().to_string();
        if got > Pages(0) {
            self.act(format!(
                "paged out {} pages of /{name}: over memory.high, or too near to memory.max",
                got.0
            ));
        }
    }
}
