//! The books without any of their tricks: one record for each 4 KiB frame, all looks of a round kept
//! and judged together at its end, rounds never merged, nothing counted before it is asked for.

use std::collections::{BTreeMap, BTreeSet};

use crate::books::Observation;

/// What is known of a frame at the end of a round.
#[derive(Clone, Copy, Debug)]
struct State {
    last: usize,
    known: bool,
    hidden: bool,
    bit: bool,
}

#[derive(Clone, Debug)]
struct Record {
    /// None: fresh in this round.
    state: Option<State>,
    looks: Vec<Observation>,
    owner: usize,
    class: u8,
    /// The owner's reading that saw it.
    reading: u64,
    huge: bool,
    /// Somebody else has seen it.
    shared: bool,
    /// Nobody saw it in the last round.
    waits: bool,
    /// That it is shared is known by one look alone, of somebody who was read before its owner.
    early: bool,
}

#[derive(Clone, Default, Debug)]
struct Mm {
    alive: bool,
    readings: u64,
    read: bool,
    skipped: bool,
    /// Whose frames its last reading saw.
    sees: BTreeSet<Part>,
}

/// An owner's frames of one class.
type Part = (usize, u8);

/// What one owner has of one class.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Owned {
    pub(super) pages: u64,
    pub(super) unknown: u64,
    /// By time of the last access.
    pub(super) known: BTreeMap<u64, u64>,
}

pub(super) struct Naive {
    frames: BTreeMap<u64, Record>,
    mms: BTreeMap<usize, Mm>,
    /// Whose frames that others have seen became whose in this round.
    handed_over: Vec<(Part, Part)>,
    pub(super) times: Vec<u64>,
    /// Pages accessed again, by age before.
    pub(super) again: BTreeMap<u64, u64>,
    /// Those of the last round, by the time of the access before.
    pub(super) again_now: BTreeMap<u64, u64>,
}

impl Naive {
    /// Empty, begun at 0.
    pub(super) fn new() -> Naive {
        let (frames, mms) = (BTreeMap::new(), BTreeMap::new());
        Naive {
            frames,
            mms,
            handed_over: Vec::new(),
            times: vec![0],
            again: BTreeMap::new(),
            again_now: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, owner: usize) {
        self.mms.insert(
            owner,
            Mm {
                alive: true,
                ..Mm::default()
            },
        );
    }

    pub(super) fn remove(&mut self, owner: usize) {
        let mm = self.mms.get_mut(&owner).unwrap();
        (mm.alive, mm.skipped) = (false, false);
    }

    pub(super) fn skip(&mut self, owner: usize) {
        self.mms.get_mut(&owner).unwrap().skipped = true;
    }

    pub(super) fn pages(&self) -> u64 {
        self.frames.len() as u64
    }

    pub(super) fn see(
        &mut self,
        owner: usize,
        class: u8,
        frame: u64,
        huge: bool,
        look: Observation,
    ) {
        let mm = self.mms.get_mut(&owner).unwrap();
        if !mm.read {
            mm.read = true;
            mm.readings += 1;
            mm.sees.clear();
        }
        let group = frame / 512 * 512..frame / 512 * 512 + 512;
        let was_huge = self.frames.get(&frame).is_some_and(|record| record.huge);
        if !huge && was_huge {
            self.frames
                .range_mut(group.clone())
                .for_each(|(_, record)| record.huge = false);
        }
        if huge
            && !was_huge
            && self
                .frames
                .range(group.clone())
                .all(|(_, r)| r.looks.is_empty())
        {
            return self.join(owner, class, frame, look);
        }
        let seen = if huge { group } else { frame..frame + 1 };
        seen.for_each(|frame| self.see_one(owner, class, frame, look));
    }

    fn see_one(&mut self, owner: usize, class: u8, frame: u64, look: Observation) {
        let reading = self.mms[&owner].readings;
        let fresh = Record {
            state: None,
            looks: vec![],
            owner,
            class,
            reading,
            huge: false,
            shared: false,
            waits: false,
            early: false,
        };
        let record = self.frames.entry(frame).or_insert(fresh);
        let holder = &self.mms[&record.owner];
        let (from, to) = ((record.owner, record.class), (owner, class));
        if record.owner == owner || !holder.alive || holder.readings != record.reading {
            (record.owner, record.class, record.reading) = (owner, class, reading);
            if record.shared && from != to {
                self.handed_over.push((from, to));
            }
        } else {
            record.early = !record.shared && !holder.read && !holder.skipped;
            record.shared = true;
            self.mms.get_mut(&owner).unwrap().sees.insert(from);
        }
        record.looks.push(look);
    }

    fn join(&mut self, owner: usize, class: u8, head: u64, look: Observation) {
        let states: Option<Vec<State>> = (head..head + 512)
            .map(|frame| self.frames.get(&frame)?.state)
            .collect();
        let state = states.map(|states| State {
            last: states.iter().map(|state| state.last).max().unwrap(),
            known: states.iter().all(|state| state.known),
            hidden: states.iter().any(|state| state.hidden),
            bit: states.iter().any(|state| state.bit),
        });
        let parts = self.frames.range(head..head + 512);
        let parts: BTreeSet<(Part, bool)> = parts
            .map(|(_, record)| ((record.owner, record.class), record.shared))
            .collect();
        let may_map = |from: usize| from != owner && self.mms[&from].alive && !self.mms[&from].read;
        let was_shared = parts
            .iter()
            .any(|(from, is_shared)| *is_shared || may_map(from.0));
        let to = (owner, class);
        let shared = parts.into_iter().filter(|(_, is_shared)| *is_shared);
        self.handed_over.extend(shared.map(|(from, _)| (from, to)));
        let reading = self.mms[&owner].readings;
        let joined = Record {
            state,
            looks: vec![look],
            owner,
            class,
            reading,
            huge: true,
            shared: was_shared,
            waits: false,
            early: false,
        };
        self.frames
            .extend((head..head + 512).map(|frame| (frame, joined.clone())));
    }

    pub(super) fn end_round(&mut self) {
        for mm in self
            .mms
            .values_mut()
            .filter(|mm| mm.alive && !mm.read && !mm.skipped)
        {
            mm.readings += 1;
            mm.sees.clear();
        }
        self.let_go();
        let now = self.times.len() - 1;
        self.again_now.clear();
        for record in self
            .frames
            .values_mut()
            .filter(|record| !record.looks.is_empty())
        {
            let after = judge(record.state, &record.looks, now);
            if let Some(before) = record.state
                && before.known
                && after.known
                && after.last == now
                && record
                    .looks
                    .iter()
                    .any(|look| is_young(*look, Some(before)))
            {
                *self
                    .again
                    .entry(self.times[now.saturating_sub(1)] - self.times[before.last])
                    .or_default() += 1;
                *self.again_now.entry(self.times[before.last]).or_default() += 1;
            }
            record.state = Some(after);
            record.looks.clear();
        }
        let owners: BTreeSet<usize> = self.frames.values().map(|record| record.owner).collect();
        self.mms
            .retain(|owner, mm| mm.alive || owners.contains(owner));
        let handed_over = std::mem::take(&mut self.handed_over);
        // As often as a chain may be long.
        for (from, to) in handed_over.iter().flat_map(|_| &handed_over) {
            for (owner, mm) in &mut self.mms {
                if *owner != to.0 && mm.sees.contains(from) {
                    mm.sees.insert(*to);
                }
            }
        }
        self.mms
            .values_mut()
            .for_each(|mm| (mm.read, mm.skipped) = (false, false));
    }

    /// Frames go that nobody saw, but for those of who was skipped, and those that wait for who was.
    fn let_go(&mut self) {
        let mms = &self.mms;
        let asleep = mms.values().filter(|mm| mm.skipped);
        let awaited: BTreeSet<Part> = asleep.flat_map(|mm| mm.sees.iter().copied()).collect();
        self.frames.retain(|_, record| {
            let is_awaited = awaited.contains(&(record.owner, record.class));
            let waits = record.shared && is_awaited;
            let holder = &mms[&record.owner];
            let stays = holder.skipped && holder.readings == record.reading;
            if !record.looks.is_empty() || stays {
                record.waits &= record.looks.is_empty();
            } else {
                record.shared &= !record.waits;
                record.waits = true;
            }
            !record.looks.is_empty() || stays || waits
        });
        for record in self.frames.values_mut().filter(|record| record.early) {
            let holder = &mms[&record.owner];
            record.early = false;
            record.shared = holder.alive && holder.readings == record.reading;
        }
    }

    /// What each owner has, by class.
    pub(super) fn owned(&self) -> BTreeMap<(usize, u8), Owned> {
        let mut all: BTreeMap<(usize, u8), Owned> = BTreeMap::new();
        for record in self.frames.values() {
            let owned = all.entry((record.owner, record.class)).or_default();
            owned.pages += 1;
            let state = record.state.unwrap();
            if state.known {
                *owned.known.entry(self.times[state.last]).or_default() += 1;
            } else {
                owned.unknown += 1;
            }
        }
        all
    }
}

fn is_young(look: Observation, before: Option<State>) -> bool {
    let left_set = before.is_some_and(|state| state.bit);
    let counts = !was_told(look, before) && !was_left(look, before);
    look.accessed && (look.trusted || !left_set) && counts
}

/// A bit that the last reading found set and left, of a page whose age was known then.
fn was_left(look: Observation, before: Option<State>) -> bool {
    let was_set = before.is_some_and(|state| state.bit && state.known);
    look.accessed && look.spared && was_set && !was_told(look, before)
}

/// A bit that was set at the last reading already, of a page whose age was known then.
fn was_told(look: Observation, before: Option<State>) -> bool {
    look.accessed && look.slept && before.is_none_or(|state| state.known)
}

fn judge(before: Option<State>, looks: &[Observation], now: usize) -> State {
    let bit = looks.iter().any(|look| look.accessed);
    let is_told = |look: &Observation| was_told(*look, before) || was_left(*look, before);
    let hides = |look: &Observation| look.hidden && !is_told(look);
    let hidden = looks.iter().any(hides);
    let known = |last| State {
        last,
        known: true,
        hidden: false,
        bit,
    };
    if looks.iter().any(|look| is_young(*look, before)) {
        return known(now);
    }
    let is_unsure = |look: &Observation| (look.accessed || look.hidden) && !is_told(look);
    if looks.iter().any(is_unsure) {
        return State {
            last: 0,
            known: false,
            hidden,
            bit,
        };
    }
    match before {
        None => known(now),
        Some(_) if looks.iter().any(|look| was_left(*look, before)) => known(now),
        Some(state) if state.known => known(state.last),
        Some(state) if state.hidden => known(now),
        Some(_) => known(now - 1),
    }
}
