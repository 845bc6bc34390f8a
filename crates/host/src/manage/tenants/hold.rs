//! Limits of all tenants, as the kernel measures them.
//!
//! Invariant: usage is never counted from pages: it is what the kernel charges to each group with all below it. How much
//! a limit asks for is the engine's arithmetic, who gives it the engine's choice, by each tenant's protection.

use std::time::{Duration, Instant};

use engine::machine::ReclaimRequest;
use engine::memcg::MemcgId;
use engine::{Pages, ScanReason};

use super::super::driver::How;
use super::super::room::Room;
use super::Tenants;
use crate::watch::WatchError;

/// Most pages that one measurement asks for: then usage is measured again.
const AT_ONCE: u64 = 8192;
/// Holding limits gives way to looks and questions after so long.
const HOLD_MAX: Duration = Duration::from_millis(50);
/// Without a limit there is nothing to measure.
const IDLE_MAX: Duration = Duration::from_secs(3600);

impl Tenants {
    /// Tells the engine what each tenant uses.
    pub(super) fn measure(&mut self) {
        for tenant in self.tenants.values() {
            if let Ok(charged) = tenant.wall.charged() {
                let usage = Pages(charged / 4096);
                self.driver.machine.set_measured(tenant.memcg, usage);
            }
        }
    }

    /// Brings those who are over their limits under them; how long none need be measured.
    pub(super) fn hold(&mut self) -> Result<Duration, WatchError> {
        let begin = Instant::now();
        let held = self.tenants.values().filter(|tenant| tenant.is_held());
        let held: Vec<MemcgId> = held.map(|tenant| tenant.memcg).collect();
        let mut pause = IDLE_MAX;
        for memcg in held {
            let Some(next) = self.tenants.get(&memcg).map(|tenant| tenant.next_hold) else {
                continue;
            };
            let now = Instant::now();
            if now < next {
                pause = pause.min(next - now);
                continue;
            }
            let wait = self.hold_one(memcg, begin)?;
            if let Some(tenant) = self.tenants.get_mut(&memcg) {
                tenant.next_hold = Instant::now() + wait.min(IDLE_MAX);
            }
            pause = pause.min(wait);
        }
        Ok(pause)
    }

    /// One of them; how long it need not be measured.
    fn hold_one(&mut self, memcg: MemcgId, begin: Instant) -> Result<Duration, WatchError> {
        loop {
            let Some(tenant) = self.tenants.get_mut(&memcg) else {
                return Ok(IDLE_MAX);
            };
            let Ok(charged) = tenant.wall.charged() else {
                return Ok(IDLE_MAX);
            };
            let usage = Pages(charged / 4096);
            tenant.raise_wall(charged);
            let Some(wanted) = Room::wanted(&tenant.limits, usage) else {
                return Ok(IDLE_MAX);
            };
            // Page cache that nobody maps goes first, and the kernel drops it by itself at the wall.
            let cache = match wanted.pages > Pages(0) {
                true => tenant.wall.cache_unmapped().unwrap_or(0),
                false => 0,
            };
            let pages = wanted.pages.less(Pages(cache / 4096));
            if pages == Pages(0) || begin.elapsed() > HOLD_MAX {
                return Ok(tenant.room.pause(usage, wanted.left));
            }
            let name = tenant.path.display().to_string();
            self.driver.machine.set_measured(memcg, usage);
            self.look_if_worth_it()?;
            let most = Pages(pages.0.min(AT_ONCE));
            let request = ReclaimRequest {
                reason: ScanReason::Direct,
                nr: most,
                swappiness: None,
                now: self.now(),
            };
            let by_lru = memcg == MemcgId::ROOT && self.by_lru;
            let (tally, _) = self
                .driver
                .page_out(How::default(), |machine, kernel| match by_lru {
                    true => machine.reclaim_root(request, kernel),
                    false => machine.reclaim_subtree(memcg, request, kernel),
                });
            let got = Pages(tally.evicted);
            self.pressed.insert(memcg);
            if got > Pages(0) {
                self.act(format!(
                    "paged out {} pages of /{name}: over memory.high, or too near to memory.max",
                    got.0
                ));
            }
            let Some(tenant) = self.tenants.get_mut(&memcg) else {
                return Ok(IDLE_MAX);
            };
            tenant.room.note(got, most);
            if got == Pages(0) {
                return Ok(tenant.room.pause(usage, wanted.left));
            }
        }
    }
}
