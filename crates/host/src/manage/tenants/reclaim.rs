//! What people ask tenants to give.
//!
//! Invariant: what is told to have left is what the kernel's tables and counters say has left.

use std::collections::BTreeSet;

use engine::machine::{Ongoing, ReclaimRequest};
use engine::memcg::MemcgId;
use engine::{Millis, Pages, ScanReason, Swappiness};
use rustix::io::Errno;

use super::super::options::{Ask, Reclaimed};
use super::super::pause::Pause;
use super::super::room::CACHE_FIRST_SWAPPINESS;
use super::super::tally::Tally;
use super::under_way::{Asked, Why};
use super::unmapped::{LEAST, drop_in_steps};
use super::{SLICE, Tenants};
use crate::system::cgroup::Version;
use crate::wall::Wall;

impl Tenants {
    /// memory.reclaim, and by age or all: of the root by the memcg LRU. It is done in slices ([`Tenants::work`]); the number
    /// by which [`Tenants::reclaimed`] gives its end.
    ///
    /// # Errors
    /// ENODEV; EPERM for a group of the host that may not be changed.
    pub fn reclaim(
        &mut self,
        memcg: MemcgId,
        ask: Ask,
        swappiness: Option<Swappiness>,
    ) -> Result<u64, Errno> {
        self.may_change(memcg)?;
        self.last_asked += 1;
        let idle = match ask {
            Ask::OlderThan(age) => Some(self.now().since(Millis::from(age)).0),
            Ask::Bytes(_) | Ask::All => None,
        };
        let asked = Asked {
            number: self.last_asked,
            ask,
            swappiness,
            idle_since: idle,
            pages: Pages(0),
            cache: None,
            dropped: 0,
            droppers: None,
        };
        self.set_out(memcg, Why::Asked(asked));
        Ok(self.last_asked)
    }

    /// Reclaims that came to their end since the last call, by their numbers: what left, or ENODEV if their tenant was removed.
    pub fn reclaimed(&mut self) -> Vec<(u64, Result<Reclaimed, Errno>)> {
        std::mem::take(&mut self.ended)
    }

    /// Page cache that goes first, a slice of it; whether that is all. (The story: all of it was one step, seconds long where there were
    /// gigabytes, in which nobody was answered and whoever had asked could not be interrupted.)
    pub(super) fn drop_asked(&mut self, memcg: MemcgId, asked: &mut Asked, pause: &Pause) -> bool {
        let may = memcg != MemcgId::ROOT && asked.swappiness != Some(Swappiness::ANON_ONLY);
        let mut left = match (asked.cache, asked.ask) {
            (Some(left), _) => left,
            (None, Ask::Bytes(bytes)) if may => self.cache_to_take(memcg, bytes),
            _ => 0,
        };
        if left > 0 {
            let swappiness = self.for_cache(asked);
            asked.dropped += self.take_cache(memcg, (&mut left, swappiness), pause) / 4096;
        }
        asked.cache = Some(left);
        left == 0
    }

    /// How willingly anonymous memory goes where the kernel drops page cache: not at all where that was forbidden, as far as version 2 can be told.
    fn for_cache(&self, asked: &Asked) -> u8 {
        let is_strict = asked.swappiness == Some(Swappiness::FILE_ONLY);
        match self.groups.version {
            Version::V2 if is_strict => 0,
            _ => CACHE_FIRST_SWAPPINESS,
        }
    }

    /// Page cache for what the engine did not get, a slice of it; whether that is all. (The story: of a tenant whose ages nobody had
    /// asked for, and of the root, `memory.reclaim` found nothing while there was page cache enough.)
    pub(super) fn drop_rest(&self, memcg: MemcgId, asked: &mut Asked, evicted: u64) -> bool {
        let mut rest = asked.pages.less(Pages(evicted));
        let may =
            matches!(asked.ask, Ask::Bytes(_)) && asked.swappiness != Some(Swappiness::ANON_ONLY);
        let least = Pages(LEAST / 4096);
        let is_little = asked.droppers.is_none() && rest < least;
        if !may || is_little || rest == Pages(0) {
            return true;
        }
        let swappiness = self.for_cache(asked);
        let Some(who) = &mut asked.droppers else {
            // To measure all of them is a slice, where there are many.
            let who = self.who_drops(memcg, Wall::cache_clean).into_iter();
            asked.droppers = Some(who.filter_map(|(_, id)| self.serial(id)).collect());
            return false;
        };
        let pause = Pause::after(&self.bell, SLICE);
        while let Some(serial) = who.front().copied().filter(|_| rest > Pages(0)) {
            let id = self.by_serial(serial);
            let spare = id.and_then(|id| self.droppable_cache(memcg, id, Wall::cache_clean));
            let spare = Pages(spare.unwrap_or(0) / 4096).min(rest);
            let is_few = spare < least.min(rest);
            let mut left = if is_few { 0 } else { spare.bytes().0 };
            let wall = id.and_then(|id| self.tenants.get(&id)).map(|one| &one.wall);
            let got = wall.map_or(0, |wall| drop_in_steps(wall, &mut left, swappiness, &pause));
            let got = Pages(got / 4096);
            (asked.pages, rest) = (asked.pages.less(got), rest.less(got));
            asked.dropped += got.0;
            // Of one that has hardly any more, or gave hardly any of it, no more is asked.
            if left == 0 && (is_few || got.0 == 0 || got.0 < spare.0 / 2) {
                who.pop_front();
            }
            if pause.is_due() {
                break;
            }
        }
        who.is_empty() || rest == Pages(0)
    }

    /// What the engine is to do, after page cache that went first.
    pub(super) fn steps_asked(&mut self, memcg: MemcgId, asked: &mut Asked) -> Vec<Ongoing> {
        let now = self.now();
        let below = self.driver.machine.tree().pre_order(memcg);
        let lruvecs = below.iter().map(|id| self.driver.machine.lruvec(*id));
        let resident = Pages(lruvecs.map(|lruvec| lruvec.resident().0).sum());
        asked.pages = match asked.ask {
            Ask::Bytes(bytes) => Pages(bytes / 4096).less(Pages(asked.dropped)),
            Ask::OlderThan(_) | Ask::All => resident,
        };
        if let Ask::OlderThan(_) = asked.ask {
            let machine = &mut self.driver.machine;
            // The books know each page's age: the engine offers all but its youngest two generations.
            // Each gives of its own alone: a step of all below would take from those whose own protection keeps theirs.
            let step = |id: &MemcgId| {
                let most = machine.unprotected_from(memcg, *id);
                Ongoing::own_by_age(*id, most, now)
            };
            return below.iter().map(step).collect();
        }
        let request = ReclaimRequest {
            reason: ScanReason::Proactive,
            nr: asked.pages,
            swappiness: asked.swappiness,
            now,
        };
        vec![Ongoing::proactive(memcg, request)]
    }

    pub(super) fn end_asked(&mut self, memcg: MemcgId, asked: Asked, tally: Tally) {
        let (all, dropped) = (asked.pages.0 + asked.dropped, asked.dropped);
        if let Ok(path) = self.path(memcg) {
            let path = path.display().to_string();
            self.act(format!(
                "paged out {} pages of /{path}, and dropped {dropped} of files: {all} were asked for (memory.reclaim)",
                tally.evicted,
            ));
        }
        let below: BTreeSet<MemcgId> = self.below(memcg).into_iter().collect();
        let is_below = |home: &MemcgId| below.contains(home);
        let members = self.homes.iter().filter(|(_, home)| is_below(home));
        let members = members.map(|(identity, _)| *identity);
        let got = Reclaimed {
            asked_pages: all,
            evicted_pages: tally.evicted + dropped,
            would_pages: 0,
            kept: tally.kept(),
            unknown_pages: self.driver.unknown(members, asked.ask),
            no_swap: tally.no_swap,
            refused: tally.refused,
        };
        self.ended.push((asked.number, Ok(got)));
    }
}
