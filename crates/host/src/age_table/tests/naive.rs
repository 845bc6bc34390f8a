//! A simple model of the age table, as a reference for tests: each 4 KiB frame has a record; all
//! observations of a scan are stored and evaluated at its end; scans are never merged; pages are
//! counted only on request.

use std::collections::{BTreeMap, BTreeSet};

use crate::age_table::Observation;

/// The state of a frame at the end of a scan.
#[derive(Clone, Copy, Debug)]
struct State {
    last: usize,
    known: bool,
    hidden: bool,
    bit: bool,
}

#[derive(Clone, Debug)]
struct Record {
    /// State of the frame before this scan; `None` if this scan found the frame for the first time.
    state: Option<State>,
    observations: Vec<Observation>,
    owner: usize,
    class: u8,
    /// Number of the owner's walk that last saw the frame.
    reading: u64,
    huge: bool,
    /// Whether an address space other than the owner was found to map the frame.
    shared: bool,
    /// Whether the last scan did not see the frame.
    is_waiting: bool,
    /// Whether the frame is `shared` only because of one observation in an address space that was
    /// walked before the frame's owner.
    early: bool,
}

#[derive(Clone, Default, Debug)]
struct OwnerState {
    alive: bool,
    readings: u64,
    read: bool,
    skipped: bool,
    /// Parts (owner and class) of other owners of which the last walk found frames.
    sees: BTreeSet<Part>,
}

/// A part: index of an owner, then number of a class.
type Part = (usize, u8);

/// Pages that one owner has of one class.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Owned {
    pub(super) pages: u64,
    pub(super) unknown: u64,
    /// Number of pages, by the time of their last access.
    pub(super) known: BTreeMap<u64, u64>,
}

pub(super) struct Naive {
    frames: BTreeMap<u64, Record>,
    mms: BTreeMap<usize, OwnerState>,
    /// Pairs of parts between which shared frames moved in this scan: from, to.
    handed_over: Vec<(Part, Part)>,
    pub(super) times: Vec<u64>,
    /// Number of pages accessed again in all scans, by the age that they had before (ms).
    pub(super) again: BTreeMap<u64, u64>,
    /// Number of pages accessed again in the last scan, by the time of the access before.
    pub(super) again_now: BTreeMap<u64, u64>,
}

impl Naive {
    /// Creates an empty model at time 0.
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
            OwnerState {
                alive: true,
                ..OwnerState::default()
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
        observation: Observation,
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
                .all(|(_, r)| r.observations.is_empty())
        {
            return self.join(owner, class, frame, observation);
        }
        let seen = if huge { group } else { frame..frame + 1 };
        seen.for_each(|frame| self.see_one(owner, class, frame, observation));
    }

    fn see_one(&mut self, owner: usize, class: u8, frame: u64, observation: Observation) {
        let reading = self.mms[&owner].readings;
        let fresh = Record {
            state: None,
            observations: vec![],
            owner,
            class,
            reading,
            huge: false,
            shared: false,
            is_waiting: false,
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
        record.observations.push(observation);
    }

    fn join(&mut self, owner: usize, class: u8, head: u64, observation: Observation) {
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
            observations: vec![observation],
            owner,
            class,
            reading,
            huge: true,
            shared: was_shared,
            is_waiting: false,
            early: false,
        };
        self.frames
            .extend((head..head + 512).map(|frame| (frame, joined.clone())));
    }

    pub(super) fn end_scan(&mut self) {
        for mm in self
            .mms
            .values_mut()
            .filter(|mm| mm.alive && !mm.read && !mm.skipped)
        {
            mm.readings += 1;
            mm.sees.clear();
        }
        self.drop_unseen();
        let now = self.times.len() - 1;
        self.again_now.clear();
        for record in self
            .frames
            .values_mut()
            .filter(|record| !record.observations.is_empty())
        {
            let after = judge(record.state, &record.observations, now);
            if let Some(before) = record.state
                && before.known
                && after.known
                && after.last == now
                && record
                    .observations
                    .iter()
                    .any(|observation| is_young(*observation, Some(before)))
            {
                *self
                    .again
                    .entry(self.times[now.saturating_sub(1)] - self.times[before.last])
                    .or_default() += 1;
                *self.again_now.entry(self.times[before.last]).or_default() += 1;
            }
            record.state = Some(after);
            record.observations.clear();
        }
        let owners: BTreeSet<usize> = self.frames.values().map(|record| record.owner).collect();
        self.mms
            .retain(|owner, mm| mm.alive || owners.contains(owner));
        let handed_over = std::mem::take(&mut self.handed_over);
        // As many passes as there are moves: enough for the longest possible chain of moves.
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

    /// Drops frames that the scan did not see, except those of skipped owners, and shared frames
    /// that a skipped owner may map.
    fn drop_unseen(&mut self) {
        let mms = &self.mms;
        let asleep = mms.values().filter(|mm| mm.skipped);
        let awaited: BTreeSet<Part> = asleep.flat_map(|mm| mm.sees.iter().copied()).collect();
        self.frames.retain(|_, record| {
            let is_awaited = awaited.contains(&(record.owner, record.class));
            let is_waiting = record.shared && is_awaited;
            let holder = &mms[&record.owner];
            let stays = holder.skipped && holder.readings == record.reading;
            if !record.observations.is_empty() || stays {
                record.is_waiting &= record.observations.is_empty();
            } else {
                record.shared &= !record.is_waiting;
                record.is_waiting = true;
            }
            !record.observations.is_empty() || stays || is_waiting
        });
        for record in self.frames.values_mut().filter(|record| record.early) {
            let holder = &mms[&record.owner];
            record.early = false;
            record.shared = holder.alive && holder.readings == record.reading;
        }
    }

    /// Returns the page counts of each owner and class.
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

fn is_young(observation: Observation, before: Option<State>) -> bool {
    let left_set = before.is_some_and(|state| state.bit);
    let counts = !was_reported(observation, before) && !was_left(observation, before);
    observation.accessed && (observation.trusted || !left_set) && counts
}

/// Returns whether the last walk found this bit set and did not clear it, while the page's age was
/// known.
fn was_left(observation: Observation, before: Option<State>) -> bool {
    let was_set = before.is_some_and(|state| state.bit && state.known);
    observation.accessed && observation.kept_bits && was_set && !was_reported(observation, before)
}

/// Returns whether this set bit of an idle process was set at the last walk already, while the
/// page's age was known.
fn was_reported(observation: Observation, before: Option<State>) -> bool {
    observation.accessed && observation.idle && before.is_none_or(|state| state.known)
}

fn judge(before: Option<State>, observations: &[Observation], now: usize) -> State {
    let bit = observations.iter().any(|observation| observation.accessed);
    let is_reported = |observation: &Observation| {
        was_reported(*observation, before) || was_left(*observation, before)
    };
    let hides = |observation: &Observation| observation.hidden && !is_reported(observation);
    let hidden = observations.iter().any(hides);
    let known = |last| State {
        last,
        known: true,
        hidden: false,
        bit,
    };
    if observations
        .iter()
        .any(|observation| is_young(*observation, before))
    {
        return known(now);
    }
    let is_unsure = |observation: &Observation| {
        (observation.accessed || observation.hidden) && !is_reported(observation)
    };
    if observations.iter().any(is_unsure) {
        return State {
            last: 0,
            known: false,
            hidden,
            bit,
        };
    }
    match before {
        None => known(now),
        Some(_)
            if observations
                .iter()
                .any(|observation| was_left(*observation, before)) =>
        {
            known(now)
        }
        Some(state) if state.known => known(state.last),
        Some(state) if state.hidden => known(now),
        Some(_) => known(now - 1),
    }
}
