//! Reclaims that are under way: each goes on by a slice when it is its turn.
//!
//! Invariants: a reclaim ends once, with what left by it, whatever happened between its slices; one of a tenant that is
//! removed meanwhile ends with ENODEV. Whoever comes last waits for one slice of each, however much these are to take.

use std::collections::VecDeque;
use std::time::Duration;

use engine::machine::Ongoing;
use engine::memcg::MemcgId;
use engine::policy::Order;
use engine::{Pages, Swappiness};
use rustix::io::Errno;

use super::super::driver::How;
use super::super::options::Ask;
use super::super::pause::Pause;
use super::super::tally::Tally;
use super::{SLICE, Tenants};
use crate::watch::WatchError;

/// A reclaim that somebody asked for.
#[derive(Debug)]
pub(super) struct Asked {
    /// The number that whoever asked was given, and by which the end is told ([`Tenants::reclaimed`]).
    pub(super) number: u64,
    pub(super) ask: Ask,
    pub(super) swappiness: Option<Swappiness>,
    /// Where reclaim is by age: pages that were accessed after this time of the books (milliseconds) stay.
    pub(super) idle_since: Option<u64>,
    /// Pages that the engine is asked for.
    pub(super) pages: Pages,
    /// Page cache that goes before, bytes that are still to go; none before that is known.
    pub(super) cache: Option<u64>,
    /// Pages of it that went.
    pub(super) dropped: u64,
    /// Of whom the kernel may drop more, for what the engine did not get, by serial; none before that is known.
    pub(super) droppers: Option<VecDeque<u64>>,
}

impl Asked {
    /// How pages are to leave.
    fn how(&self) -> How {
        How {
            idle_since: self.idle_since,
            all: self.ask == Ask::All,
            ..How::default()
        }
    }
}

/// Why memory is taken: whom its end is told, and what for.
#[derive(Debug)]
pub(super) enum Why {
    /// Somebody asked.
    Asked(Asked),
    /// A limit.
    Limit {
        /// What the tenant used when that was measured.
        usage: Pages,
        /// What was left then until reclaim begins.
        left: Pages,
        /// What the engine is asked for.
        most: Pages,
        /// Whether the kernel holds the limit, too.
        has_wall: bool,
    },
    /// The host has so many bytes available, and lacks pages.
    Pressure { available: u64, wanted: Pages },
    /// A policy says so.
    Policy(PolicyOrder),
}

/// What a policy ordered.
#[derive(Clone, Copy, Debug)]
pub(super) struct PolicyOrder {
    pub(super) order: Order,
    pub(super) how: How,
    /// What paging out had taken of a processor by then.
    pub(super) began: Duration,
    /// Page cache that goes before, bytes that are still to go; none before that is known.
    pub(super) cache: Option<u64>,
    /// What of it went, or in a dry run would have.
    pub(super) dropped: Pages,
    /// What that took of a processor.
    pub(super) dropping: Duration,
}

/// A reclaim.
#[derive(Debug)]
pub(super) struct UnderWay {
    /// Its tenant, by serial: the engine's id of one that is removed is given to another.
    serial: u64,
    pub(super) why: Why,
    how: How,
    /// Whether ages are fresh enough to begin, or a look for that has been made.
    has_looked: bool,
    /// What the engine is still to do, in this order, each step with the serial of its tenant; none before the first slice.
    steps: Option<VecDeque<(u64, Ongoing)>>,
    /// The tenant, by serial, whose pages were aged for its step, where that is asked by age.
    aged: Option<u64>,
    tally: Tally,
}

impl Tenants {
    /// A reclaim of a tenant that is there is to begin.
    pub(super) fn set_out(&mut self, memcg: MemcgId, why: Why) {
        let how = match &why {
            Why::Asked(asked) => asked.how(),
            Why::Policy(ordered) => ordered.how,
            // At a wall the kernel takes from all, and clears bits as it does.
            Why::Limit { has_wall, .. } => How {
                clears: !has_wall,
                ..How::default()
            },
            Why::Pressure { .. } => How {
                clears: true,
                ..How::default()
            },
        };
        // A policy has just been shown a look.
        let has_looked = matches!(why, Why::Policy(_));
        let serial = self.serial(memcg).unwrap_or(u64::MAX);
        self.note_under_way(memcg, &why, true);
        self.under_way.push_back(UnderWay {
            serial,
            why,
            how,
            has_looked,
            steps: None,
            aged: None,
            tally: Tally::default(),
        });
    }

    /// Whoever asked for one wants it no more: it ends with EINTR, and what has left stays where it is.
    pub fn cancel(&mut self, number: u64) {
        let is_it =
            |one: &UnderWay| matches!(&one.why, Why::Asked(asked) if asked.number == number);
        if let Some(at) = self.under_way.iter().position(is_it) {
            self.under_way.remove(at);
            self.ended.push((number, Err(Errno::INTR)));
        }
    }

    /// What the policy of a tenant has ordered goes no further; the pages that have left for it, of files last, if there was an order.
    pub(super) fn drop_ordered(&mut self, memcg: MemcgId) -> Option<(u64, u64)> {
        let serial = self.serial(memcg)?;
        let is_it = |one: &UnderWay| one.serial == serial && matches!(one.why, Why::Policy(_));
        let one = self
            .under_way
            .remove(self.under_way.iter().position(is_it)?)?;
        self.note_under_way(memcg, &one.why, false);
        let dropped = match one.why {
            Why::Policy(ordered) if !ordered.how.dry_run => ordered.dropped.0,
            _ => 0,
        };
        Some((one.tally.evicted, dropped))
    }

    /// Whether a tenant is reclaimed from for a limit of its own.
    pub(super) fn is_reclaimed_for_limit(&self, memcg: MemcgId) -> bool {
        self.tenants
            .get(&memcg)
            .is_some_and(|one| one.is_reclaimed_for_limit)
    }

    /// One for a limit or a policy begins or ends. (It stands with the tenant: with thousands of them, each was looked for among the reclaims of all,
    /// each time that any limit was looked at.)
    fn note_under_way(&mut self, memcg: MemcgId, why: &Why, is_begun: bool) {
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return;
        };
        match why {
            Why::Limit { .. } => tenant.is_reclaimed_for_limit = is_begun,
            Why::Policy(_) => tenant.is_minded = is_begun,
            Why::Asked(_) | Why::Pressure { .. } => {}
        }
    }

    /// Whether all tenants give for the host's lack of memory.
    pub(super) fn is_relieving(&self) -> bool {
        let is_it = |one: &UnderWay| matches!(one.why, Why::Pressure { .. });
        self.under_way.iter().any(is_it)
    }

    /// Whether what the policy of a tenant ordered is not done yet.
    pub(super) fn is_minded(&self, memcg: MemcgId) -> bool {
        self.tenants.get(&memcg).is_some_and(|one| one.is_minded)
    }

    /// Goes on with those that are under way, at least with one of them and for a slice in all; whether there was any. (What comes between goes
    /// through all tenants: several that are short are worth one of it.)
    pub(super) fn go_on_with_some(&mut self) -> Result<bool, WatchError> {
        let (slice, mut went) = (Pause::after(&self.bell, SLICE), false);
        for _ in 0..self.under_way.len() {
            if self.looking.is_some() || (went && slice.is_due()) {
                break;
            }
            went |= self.go_on()?;
        }
        Ok(went)
    }

    /// Goes on with the one whose turn it is, by a slice; whether there was any.
    fn go_on(&mut self) -> Result<bool, WatchError> {
        let Some(mut one) = self.under_way.pop_front() else {
            return Ok(false);
        };
        let Some(memcg) = self.by_serial(one.serial) else {
            if let Why::Asked(asked) = one.why {
                self.ended.push((asked.number, Err(Errno::NODEV)));
            }
            return Ok(true);
        };
        if !std::mem::replace(&mut one.has_looked, true) && self.is_look_worth_it() {
            // A request goes by what is known now.
            let is_asked = matches!(one.why, Why::Asked(_));
            let asked = is_asked.then_some(one.serial).into_iter().collect();
            self.under_way.push_front(one);
            self.begin_look(false, &asked)?;
            return Ok(true);
        }
        let is_over = self.slice(memcg, &mut one)
            && match &mut one.why {
                Why::Asked(asked) => self.drop_rest(memcg, asked, one.tally.evicted),
                _ => true,
            };
        match is_over {
            true => self.end_one(memcg, one),
            false => self.under_way.push_back(one),
        }
        Ok(true)
    }

    /// A slice; whether it is over.
    fn slice(&mut self, memcg: MemcgId, one: &mut UnderWay) -> bool {
        let pause = Pause::after(&self.bell, SLICE);
        let is_dropped = match (&one.steps, &mut one.why) {
            (None, Why::Asked(asked)) => self.drop_asked(memcg, asked, &pause),
            (None, Why::Policy(ordered)) => self.drop_ordered_cache(memcg, ordered, &pause),
            _ => true,
        };
        if !is_dropped {
            return false;
        }
        let now = self.now();
        let mut steps = match one.steps.take() {
            Some(steps) => steps,
            None => {
                let steps = match &mut one.why {
                    Why::Asked(asked) => self.steps_asked(memcg, asked),
                    Why::Limit { most, .. } => self.step_for_limit(memcg, *most),
                    Why::Pressure { wanted, .. } => self.step_for_host(*wanted),
                    Why::Policy(ordered) => self.step_ordered(memcg, ordered),
                };
                let of = |step: Ongoing| Some((self.serial(step.target())?, step));
                steps.into_iter().filter_map(of).collect()
            }
        };
        while let Some((serial, step)) = steps.front_mut() {
            let is_there = self.by_serial.get(serial) == Some(&step.target());
            let by_age =
                matches!(&one.why, Why::Asked(asked) if matches!(asked.ask, Ask::OlderThan(_)));
            if is_there && by_age && one.aged != Some(*serial) {
                // It moves each page of the tenant, so it comes right before its step, not of all at once.
                one.aged = Some(*serial);
                self.driver.age(step.target(), now);
                if pause.is_due() {
                    break;
                }
            }
            let is_over = !is_there
                || self.driver.page_out_until(
                    (one.how, &pause),
                    &mut one.tally,
                    |machine, kernel| machine.resume(step, now, kernel),
                );
            if is_over {
                steps.pop_front();
            }
            if pause.is_due() {
                break;
            }
        }
        let is_over = steps.is_empty();
        one.steps = Some(steps);
        is_over
    }

    fn end_one(&mut self, memcg: MemcgId, one: UnderWay) {
        let UnderWay { why, tally, .. } = one;
        self.note_under_way(memcg, &why, false);
        match why {
            Why::Asked(asked) => self.end_asked(memcg, asked, tally),
            Why::Limit {
                usage, left, most, ..
            } => {
                self.end_hold(memcg, &tally, (usage, left, most));
            }
            Why::Pressure { available, wanted } => self.end_relief(&tally, available, wanted),
            Why::Policy(ordered) => self.end_ordered(memcg, &ordered, tally),
        }
    }
}
