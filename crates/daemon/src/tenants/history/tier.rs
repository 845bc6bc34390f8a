//! Columns of one width: figures of all tenants at evenly spaced times.
//!
//! Invariant: columns ascend in time and none lies ahead of the newest; a closed one does not change. Each but the one that is
//! open is kept as bytes. What a clock that leaps would make forgotten is put aside until the leap has lasted: one look with a
//! wrong clock (a machine that starts before it has asked for the time) costs that look alone.

use std::collections::{BTreeMap, VecDeque};

use super::row::{AGES, Row, SWAPPED, UNKNOWN};

/// What a column costs beside its bytes.
const COLUMN_COST: usize = 48;
/// So many looks after a leap of the clock it is believed: five minutes where looks are 10 s apart, in which a clock is set right.
const LASTING: u32 = 30;

/// The figures of all tenants in a span of time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Column {
    /// Which span: time divided by the tier's step.
    pub(super) slot: u64,
    /// How long its events took, milliseconds: since the look before its first one.
    pub(super) covered_ms: u64,
    pub(super) bytes: Vec<u8>,
}

impl Column {
    /// Its rows, in order; those that cannot be read end it.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u32, Row)> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || Row::read(&mut rest))
    }

    fn cost(&self) -> usize {
        self.bytes.len() + COLUMN_COST
    }
}

/// The newest one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Open {
    slot: u64,
    covered_ms: u64,
    rows: BTreeMap<u32, Row>,
}

impl Open {
    fn closed(&self) -> Column {
        let mut bytes = Vec::new();
        for (name, row) in &self.rows {
            row.write(*name, &mut bytes);
        }
        bytes.shrink_to_fit();
        Column {
            slot: self.slot,
            covered_ms: self.covered_ms,
            bytes,
        }
    }
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tier {
    pub(super) step_ms: u64,
    /// Columns that are kept.
    pub(super) length: usize,
    columns: VecDeque<Column>,
    open: Option<Open>,
    /// Of closed columns.
    bytes: usize,
    /// Of the open one.
    open_bytes: usize,
    /// What there was before the clock leapt, and how many looks ago that was.
    before_leap: Option<(Box<Tier>, u32)>,
}

impl Tier {
    pub(super) fn new(step_ms: u64, length: usize) -> Tier {
        Tier {
            step_ms,
            length,
            columns: VecDeque::new(),
            open: None,
            bytes: 0,
            open_bytes: 0,
            before_leap: None,
        }
    }

    /// With columns that were kept; none if they are not in order.
    pub(super) fn with(mut self, columns: Vec<Column>) -> Option<Tier> {
        if !columns.is_sorted_by(|one, next| one.slot < next.slot) {
            return None;
        }
        for column in columns {
            self.push_closed(column);
        }
        Some(self)
    }

    /// Puts figures into the column of their time. Sizes are those of the newest, events add up; across a leap of the clock
    /// nobody knows how long they took.
    pub(super) fn push(&mut self, at_ms: u64, covered_ms: u64, rows: &BTreeMap<u32, Row>) {
        let slot = at_ms / self.step_ms;
        let has_leapt = self.follow_clock(slot);
        let covered_ms = if has_leapt { 0 } else { covered_ms };
        self.turn_to(slot);
        let new = || Open {
            slot,
            covered_ms: 0,
            rows: BTreeMap::new(),
        };
        let open = self.open.get_or_insert_with(new);
        open.covered_ms = open.covered_ms.saturating_add(covered_ms);
        for (name, row) in rows {
            let known = open.rows.entry(*name).or_default();
            for (n, (known, value)) in known.0.iter_mut().zip(row.0).enumerate() {
                let is_size = AGES.contains(&n) || n == UNKNOWN || n == SWAPPED;
                *known = match is_size {
                    true => value,
                    false if has_leapt => *known,
                    false => known.saturating_add(value),
                };
            }
        }
        self.open_bytes = open.closed().cost();
    }

    /// Puts aside what is known where the clock leaps to this slot, takes it back where the clock comes back, and believes a leap
    /// that has lasted. Whether time did not simply go on.
    fn follow_clock(&mut self, slot: u64) -> bool {
        let Some((before, looks)) = &mut self.before_leap else {
            let has_leapt = !self.may_follow(slot);
            if has_leapt {
                let new = Tier::new(self.step_ms, self.length);
                let before = std::mem::replace(self, new);
                self.before_leap = Some((Box::new(before), 0));
            }
            return has_leapt;
        };
        *looks += 1;
        let (has_lasted, is_back) = (*looks >= LASTING, before.may_follow(slot));
        if let Some((before, _)) = self.before_leap.take_if(|_| is_back || has_lasted) {
            match is_back {
                true => *self = *before,
                false => self.put_before(&before),
            }
        }
        is_back
    }

    /// Whether a look at this slot goes on with what there is: nothing of it would be forgotten at once, and nothing lies ahead.
    fn may_follow(&self, slot: u64) -> bool {
        let newest = self.open.as_ref().map(|open| open.slot);
        let newest = newest.or_else(|| self.columns.back().map(|column| column.slot));
        let length = u64::try_from(self.length).unwrap_or(u64::MAX);
        newest.is_none_or(|newest| (newest..=newest.saturating_add(length)).contains(&slot))
    }

    /// Columns of before a leap that is believed: those before all that are here.
    fn put_before(&mut self, before: &Tier) {
        let now: Vec<Column> = self.columns.drain(..).collect();
        let first = now.first().map(|column| column.slot);
        let first = first.or(self.open.as_ref().map(|open| open.slot));
        let older = before.columns();
        let older = older.filter(|column| first.is_some_and(|first| column.slot < first));
        self.bytes = 0;
        older.chain(now).for_each(|column| self.push_closed(column));
    }

    /// Closes the open column if it is not of this slot. What lies ahead was written by a clock that was wrong.
    fn turn_to(&mut self, slot: u64) {
        if let Some(open) = self.open.take_if(|open| open.slot != slot) {
            self.push_closed(open.closed());
        }
        while self
            .columns
            .back()
            .is_some_and(|column| column.slot >= slot)
            && let Some(last) = self.columns.pop_back()
        {
            self.bytes -= last.cost();
            // As a restart finds it: it goes on.
            if last.slot == slot && self.open.is_none() {
                self.open = Some(Open {
                    slot,
                    covered_ms: last.covered_ms,
                    rows: last.rows().collect(),
                });
            }
        }
        let first = slot.saturating_sub(u64::try_from(self.length).unwrap_or(u64::MAX) - 1);
        while self
            .columns
            .front()
            .is_some_and(|column| column.slot < first)
        {
            self.drop_first();
        }
    }

    fn push_closed(&mut self, column: Column) {
        self.bytes += column.cost();
        self.columns.push_back(column);
        if self.columns.len() > self.length {
            self.drop_first();
        }
    }

    /// Forgets the oldest closed column, one that is put aside first; whether there was one.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let before_leap = self.before_leap.as_mut().map(|(before, _)| before);
        before_leap.is_some_and(|before| before.drop_first()) || self.drop_first()
    }

    fn drop_first(&mut self) -> bool {
        let oldest = self.columns.pop_front();
        self.bytes -= oldest.as_ref().map_or(0, Column::cost);
        oldest.is_some()
    }

    /// What all columns take.
    pub(super) fn bytes(&self) -> usize {
        let before_leap = self
            .before_leap
            .as_ref()
            .map_or(0, |(before, _)| before.bytes());
        self.bytes + self.open_bytes + before_leap
    }

    /// The columns that a file keeps: while it is not known whether a leap of the clock lasts, those of before it.
    pub(super) fn saved_columns(&self) -> impl Iterator<Item = Column> {
        let before_leap = self.before_leap.as_ref().map(|(before, _)| &**before);
        before_leap.unwrap_or(self).columns()
    }

    /// Calls `each` with the name of every row, also of columns that only a file keeps.
    pub(super) fn names(&self, each: &mut dyn FnMut(u32)) {
        let mut tell = |column: &Column| column.rows().for_each(|(name, _)| each(name));
        self.columns.iter().for_each(&mut tell);
        self.open.iter().for_each(|open| tell(&open.closed()));
        if let Some((before, _)) = &self.before_leap {
            before.names(each);
        }
    }

    /// All columns, the open one last.
    pub(super) fn columns(&self) -> impl Iterator<Item = Column> {
        let open = self.open.as_ref().map(Open::closed);
        self.columns.iter().cloned().chain(open)
    }

    /// Calls `each` with every row of the newest `length` spans. Where looks are further apart than spans, a column is told
    /// once more for those before it that it covers.
    pub(super) fn visit(&self, now_ms: u64, mut each: impl FnMut(Seen, &Row)) {
        let newest = now_ms / self.step_ms;
        let mut tell = |slot: u64, covered_ms: u64, name: u32, row: &Row| {
            let length = u64::try_from(self.length).unwrap_or(u64::MAX);
            let back = (covered_ms.saturating_sub(1) / self.step_ms).min(length);
            for slot_of in slot.saturating_sub(back)..=slot {
                let ago = newest
                    .checked_sub(slot_of)
                    .and_then(|ago| usize::try_from(ago).ok());
                let place = ago.and_then(|ago| self.length.checked_sub(ago + 1));
                if let Some(place) = place {
                    let is_own = slot_of == slot;
                    each(
                        Seen {
                            place,
                            covered_ms,
                            name,
                            is_own,
                        },
                        row,
                    );
                }
            }
        };
        for column in &self.columns {
            for (name, row) in column.rows() {
                tell(column.slot, column.covered_ms, name, &row);
            }
        }
        if let Some(open) = &self.open {
            for (name, row) in &open.rows {
                tell(open.slot, open.covered_ms, *name, row);
            }
        }
    }
}

/// A row of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    /// Which of the newest spans.
    pub(super) place: usize,
    /// How long its events took.
    pub(super) covered_ms: u64,
    /// Whose it is.
    pub(super) name: u32,
    /// It was seen in that span, not only counted until its end.
    pub(super) is_own: bool,
}

#[cfg(test)]
mod tests;
