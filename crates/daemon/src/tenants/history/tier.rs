//! One tier of the history: columns of one width, each with the figures of all tenants at its time.
//!
//! Invariant: columns ascend in time, and none is later than the open column, which is the newest;
//! a closed column does not change. All columns but the open one are kept encoded. If the clock
//! jumps, the columns that would be dropped are set aside until the new time has lasted for
//! [`LASTING`] snapshots (five minutes). So a single snapshot with a wrong clock (a machine that
//! starts before it has set its clock) loses only that snapshot.

use std::collections::{BTreeMap, VecDeque};

use super::row::{AGES, Row, SWAPPED, UNKNOWN};

/// Bytes that a column takes in addition to its encoded rows.
const COLUMN_COST: usize = 48;
/// Number of snapshots after which a jump of the clock counts as lasting: five minutes, if
/// snapshots are 10 s apart. By then a wrong clock is corrected.
const LASTING: u32 = 30;

/// The figures of all tenants in a span of time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Column {
    /// Number of the time span: time divided by the tier's step.
    pub(super) slot: u64,
    /// Milliseconds in which the column's events happened. This time begins with the last snapshot
    /// before the column.
    pub(super) covered_ms: u64,
    pub(super) bytes: Vec<u8>,
}

impl Column {
    /// Returns the decoded rows in their order, up to the first invalid one. For each row: the
    /// number of the tenant's name, then the row.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u32, Row)> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || Row::read(&mut rest))
    }

    /// Returns the bytes that the column takes.
    fn cost(&self) -> usize {
        self.bytes.len() + COLUMN_COST
    }
}

/// The newest column, which still changes.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Open {
    slot: u64,
    covered_ms: u64,
    rows: BTreeMap<u32, Row>,
}

impl Open {
    /// Returns the column with its rows encoded.
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

/// The columns of one width.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tier {
    pub(super) step_ms: u64,
    /// Most columns that are kept.
    pub(super) length: usize,
    columns: VecDeque<Column>,
    open: Option<Open>,
    /// Bytes that the closed columns take.
    bytes: usize,
    /// Bytes that the open column will take.
    open_bytes: usize,
    /// The columns from before a jump of the clock, and the number of snapshots since the jump.
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

    /// Returns the tier with these columns from a file; `None` if they are not in ascending order.
    pub(super) fn with(mut self, columns: Vec<Column>) -> Option<Tier> {
        if !columns.is_sorted_by(|one, next| one.slot < next.slot) {
            return None;
        }
        for column in columns {
            self.push_closed(column);
        }
        Some(self)
    }

    /// Adds figures to the column of their time: sizes replace the earlier ones, events are added.
    /// At a jump of the clock the time in which the events happened is unknown.
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

    /// Sets the columns aside if the clock jumps to this slot, restores them if it jumps back, and
    /// accepts a jump that has lasted. Returns whether the clock has jumped.
    fn follow_clock(&mut self, slot: u64) -> bool {
        let Some((before, snapshots)) = &mut self.before_leap else {
            let has_leapt = !self.may_follow(slot);
            if has_leapt {
                let new = Tier::new(self.step_ms, self.length);
                let before = std::mem::replace(self, new);
                self.before_leap = Some((Box::new(before), 0));
            }
            return has_leapt;
        };
        *snapshots += 1;
        let (has_lasted, is_back) = (*snapshots >= LASTING, before.may_follow(slot));
        if let Some((before, _)) = self.before_leap.take_if(|_| is_back || has_lasted) {
            match is_back {
                true => *self = *before,
                false => self.put_before(&before),
            }
        }
        is_back
    }

    /// Whether a snapshot at this slot may be added to these columns: no column is later, and not
    /// all of them would be dropped at once.
    fn may_follow(&self, slot: u64) -> bool {
        let newest = self.open.as_ref().map(|open| open.slot);
        let newest = newest.or_else(|| self.columns.back().map(|column| column.slot));
        let length = u64::try_from(self.length).unwrap_or(u64::MAX);
        newest.is_none_or(|newest| (newest..=newest.saturating_add(length)).contains(&slot))
    }

    /// Adds the columns from before an accepted jump that are earlier than all columns here.
    fn put_before(&mut self, before: &Tier) {
        let now: Vec<Column> = self.columns.drain(..).collect();
        let first = now.first().map(|column| column.slot);
        let first = first.or(self.open.as_ref().map(|open| open.slot));
        let older = before.columns();
        let older = older.filter(|column| first.is_some_and(|first| column.slot < first));
        self.bytes = 0;
        older.chain(now).for_each(|column| self.push_closed(column));
    }

    /// Closes the open column if it has another slot. Drops columns later than this slot, which
    /// were written while the clock was wrong.
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
            // This was the open column before a restart, so it continues.
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

    /// Drops the oldest closed column, one that is set aside first. Returns false if there is none.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let before_leap = self.before_leap.as_mut().map(|(before, _)| before);
        before_leap.is_some_and(|before| before.drop_first()) || self.drop_first()
    }

    fn drop_first(&mut self) -> bool {
        let oldest = self.columns.pop_front();
        self.bytes -= oldest.as_ref().map_or(0, Column::cost);
        oldest.is_some()
    }

    /// Returns the bytes that all columns take.
    pub(super) fn bytes(&self) -> usize {
        let before_leap = self
            .before_leap
            .as_ref()
            .map_or(0, |(before, _)| before.bytes());
        self.bytes + self.open_bytes + before_leap
    }

    /// Returns the columns to be written to the file. While it is unknown whether a jump of the
    /// clock lasts, these are the columns from before the jump.
    pub(super) fn saved_columns(&self) -> impl Iterator<Item = Column> {
        let before_leap = self.before_leap.as_ref().map(|(before, _)| &**before);
        before_leap.unwrap_or(self).columns()
    }

    /// Calls `each` with the name's number of every row, also of columns that were set aside.
    pub(super) fn names(&self, each: &mut dyn FnMut(u32)) {
        let mut tell = |column: &Column| column.rows().for_each(|(name, _)| each(name));
        self.columns.iter().for_each(&mut tell);
        self.open.iter().for_each(|open| tell(&open.closed()));
        if let Some((before, _)) = &self.before_leap {
            before.names(each);
        }
    }

    /// Returns all columns, the open one last.
    pub(super) fn columns(&self) -> impl Iterator<Item = Column> {
        let open = self.open.as_ref().map(Open::closed);
        self.columns.iter().cloned().chain(open)
    }

    /// Calls `each` with every row of the newest `length` time spans. If snapshots are further
    /// apart than spans, a column's rows are repeated for the earlier spans that the column covers.
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

/// Where a row belongs: its time span and its tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    /// Index of the time span among the newest `length` spans, 0 for the oldest.
    pub(super) place: usize,
    /// Milliseconds in which the row's events happened.
    pub(super) covered_ms: u64,
    /// Number of the tenant's name.
    pub(super) name: u32,
    /// Whether a snapshot was made in this span; false if a later snapshot covers it.
    pub(super) is_own: bool,
}

#[cfg(test)]
mod tests;
