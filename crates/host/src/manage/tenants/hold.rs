//! Limits of all tenants, as the kernel measures them.
//!
//! Invariant: usage is never counted from pages: it is what the kernel charges to each group with all below it, each byte to
//! whom it is the engine's to take from ([`Tenants::used`]). How much a limit asks for is the engine's arithmetic, who gives
//! it the engine's choice, by each tenant's protection.

use std::time::{Duration, Instant};

use engine::machine::{Ongoing, ReclaimRequest};
use engine::memcg::MemcgId;
use engine::{Pages, ScanReason};

use super::super::IDLE_MAX;
use super::super::room::{PAGES_PER_MEASUREMENT, Room, Wanted};
use super::super::tally::Tally;
use super::Tenants;
use super::under_way::Why;
use crate::system::cgroup::Version;

/// Most page cache that one measurement has the kernel drop, pages. Twice as much as of one target: it goes in steps,
/// and ends after a slice.
const CACHE_AT_ONCE: u64 = 8192;
/// The kernel is asked so many times in a row to let go of what a disk has taken, and does not yet.
const WRITTEN_ASKED: u8 = 20;
/// That swap is full is said again after this.
const SAID_AGAIN: Duration = Duration::from_secs(60);
/// What could not be measured is tried again after this.
const AGAIN: Duration = Duration::from_millis(200);

impl Tenants {
    /// Tells the engine what each tenant uses, and the kernel what of that is protected.
    pub(super) fn measure(&mut self) {
        let all: Vec<MemcgId> = self.tenants.keys().copied().collect();
        for memcg in all {
            if self.measure_one(memcg) {
                self.note_events(memcg);
            }
        }
        self.protect();
    }

    /// Tells the engine what one tenant uses; whether that could be read.
    pub(super) fn measure_one(&mut self, memcg: MemcgId) -> bool {
        let tenant = self.tenants.get(&memcg);
        let Some(used) = tenant.and_then(|tenant| self.used(tenant).ok()) else {
            return false;
        };
        self.driver.machine.set_measured(memcg, Pages(used / 4096));
        true
    }

    /// Sets out to bring those who are over their limits under them; how long none need be measured.
    pub(super) fn hold(&mut self) -> Duration {
        let held = self.tenants.values().filter(|tenant| tenant.has_limit());
        let held: Vec<MemcgId> = held.map(|tenant| tenant.memcg).collect();
        let mut pause = IDLE_MAX;
        for memcg in held {
            let Some(next) = self.tenants.get(&memcg).map(|tenant| tenant.next_hold) else {
                continue;
            };
            let now = Instant::now();
            // One that gives already is measured when it has.
            if self.is_reclaimed_for_limit(memcg) {
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
        let used = self.tenants.get(&memcg).map(|tenant| self.used(tenant));
        self.put_due(memcg);
        self.say_what_left(memcg, 0);
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
        let Some(wanted) = Room::wanted(&tenant.limits, usage) else {
            return IDLE_MAX;
        };
        // Page cache that nobody maps goes first, by the kernel's hand.
        let cache = match wanted.pages > Pages(0) && has_wall {
            true => {
                // What a disk has taken is charged still, and goes as cache does.
                let slow = self.driver.watch.proc().has_slow_swap();
                Pages(tenant.wall.free_at_will(slow).unwrap_or(0) / 4096)
            }
            false => Pages(0),
        };
        let has_wall = has_wall && tenant.is_walled();
        let mut pages = wanted.pages.less(cache);
        if pages == Pages(0) {
            let wait = match has_wall || wanted.pages == Pages(0) {
                true => Some(self.pause(memcg, usage, wanted, cache)),
                false => self.hold_by_cache(memcg, usage, wanted),
            };
            if let Some(wait) = wait {
                return wait;
            }
            pages = wanted.pages;
        }
        if let Some(wait) = has_wall.then(|| self.left_to_wall(memcg, usage)).flatten() {
            // (The story, of a reading: who polled the ages of a tenant that thrashed was woken before it did, and never while it lasted.)
            self.pressed.insert(memcg);
            return wait;
        }
        self.driver.machine.set_measured(memcg, usage);
        let why = Why::Limit {
            usage,
            left: wanted.left,
            most: Pages(pages.0.min(PAGES_PER_MEASUREMENT)),
            has_wall,
        };
        self.set_out(memcg, why);
        Duration::ZERO
    }

    /// Puts limits on its group, as far as the kernel takes them now.
    pub(super) fn put_due(&mut self, memcg: MemcgId) {
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return;
        };
        let refused = tenant.due.put(&tenant.wall);
        for what in tenant.refusals_in_words(&refused) {
            self.act(what);
        }
    }

    /// Nothing need leave by our hand: at its wall the kernel drops cache for whoever grows. How long it need not be measured.
    fn pause(&mut self, memcg: MemcgId, usage: Pages, wanted: Wanted, cache: Pages) -> Duration {
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return IDLE_MAX;
        };
        let wait = match wanted.pages == Pages(0) {
            true => tenant.room.pause(usage, wanted.left),
            false => {
                let spare = cache.less(wanted.pages);
                tenant.room.pause_at_wall(usage.less(cache), spare)
            }
        };
        tenant.next_hold = Instant::now() + wait;
        wait
    }

    /// No wall stands that would drop cache: the kernel is asked to. How long it need not be measured; none where hardly any went, and all is
    /// the engine's to take.
    fn hold_by_cache(&mut self, memcg: MemcgId, usage: Pages, wanted: Wanted) -> Option<Duration> {
        let most = Pages(wanted.pages.0.min(CACHE_AT_ONCE));
        let got = self.drop_cache(memcg, most);
        if !Room::is_worth_it(got, most) {
            return self.hold_by_written(memcg, wanted, most);
        }
        // At once: what is read once more fills it again.
        self.put_due(memcg);
        let tenant = self.tenants.get_mut(&memcg)?;
        tenant.room.note(got, most);
        let wait = tenant.room.pause(usage, wanted.left);
        tenant.next_hold = Instant::now() + wait;
        Some(wait)
    }

    /// Asks the kernel to free clean swap cache, pages whose copy on a disk is written: they are on the anonymous
    /// lists, so asking for page cache misses them. Pages that are still being written are asked for again,
    /// [`WRITTEN_ASKED`] times at most. (The story: on version 1 all of a tenant went to the disk for a `memory.high`
    /// that a part was over.)
    fn hold_by_written(&mut self, memcg: MemcgId, wanted: Wanted, most: Pages) -> Option<Duration> {
        if !self.driver.watch.proc().has_slow_swap() {
            return None;
        }
        let tenant = self.tenants.get_mut(&memcg)?;
        let written = Pages(tenant.wall.written().unwrap_or(0) / 4096);
        if written < wanted.pages || tenant.written_asked == WRITTEN_ASKED {
            tenant.written_asked = 0;
            return None;
        }
        let got = tenant.wall.reclaim(most.bytes().0, None).unwrap_or(0);
        tenant.written_asked = match Room::is_worth_it(Pages(got / 4096), most) {
            true => 0,
            false => tenant.written_asked + 1,
        };
        tenant.next_hold = Instant::now() + AGAIN;
        Some(AGAIN)
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

    /// Says that nothing more can leave, and why: of swap that is full once a minute, of a refusal once. (The story: limits and policies had no effect any
    /// more, and nobody was told.)
    pub(super) fn say_why_stuck(&mut self, name: &str, tally: &Tally) {
        let is_fresh = |said: &Instant| said.elapsed() < SAID_AGAIN;
        if tally.no_swap && !self.said_no_swap.as_ref().is_some_and(is_fresh) {
            self.said_no_swap = Some(Instant::now());
            self.act(format!(
                "/{name} keeps its pages: no free swap (`pagetide swap status`)"
            ));
        }
        if let Some(refused) = tally.refused.as_ref()
            && self.said_refused.as_ref() != Some(refused)
        {
            self.said_refused = Some(refused.clone());
            self.act(format!(
                "the kernel refused to page out pages of /{name}: {refused}"
            ));
        }
    }

    /// What came of it.
    pub(super) fn end_hold(
        &mut self,
        memcg: MemcgId,
        tally: &Tally,
        (usage, left, most): (Pages, Pages, Pages),
    ) {
        self.pressed.insert(memcg);
        let (ours, mut got) = (tally.evicted, Pages(tally.evicted));
        // Version 1 has its limit lowered for that, and who grows meanwhile may be killed where nothing can be swapped.
        let may_ask = !tally.no_swap || self.groups.version == Version::V2;
        let (kernels, is_back) = match may_ask && !Room::is_worth_it(got, most) {
            true => self.ask_kernel(memcg),
            false => (Pages(0), false),
        };
        let closed = match may_ask {
            true => self.put_at_once(memcg),
            false => Pages(0),
        };
        // What was taken and is back is no success: it is tried ever more rarely.
        got.0 += if is_back { 0 } else { kernels.0 } + closed.0;
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return;
        };
        if !Room::is_worth_it(got, most) {
            got.0 += tenant.due.press(&tenant.wall) / 4096;
        }
        tenant.room.note(got, most);
        let wait = tenant.room.wait_after((got, most), (usage, left));
        tenant.next_hold = Instant::now() + wait;
        let name = tenant.path.display().to_string();
        self.say_why_stuck(&name, tally);
        self.say_what_left(memcg, ours);
    }

    /// Says what has left for its limits, of which so much just now, if it is time.
    fn say_what_left(&mut self, memcg: MemcgId, ours: u64) {
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return;
        };
        if let Some(pages) = tenant.held.add(ours) {
            let path = tenant.path.display();
            let what = format!(
                "paged out {pages} pages of /{path}: over memory.high, or too near to memory.max"
            );
            self.act(what);
        }
    }
}
