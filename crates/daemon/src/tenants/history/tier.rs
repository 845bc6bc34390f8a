//! Columns of one width: figures of all tenants at evenly spaced times.
//!
//! Invariant: columns ascend in time and none lies ahead of the newest; a closed one does not change. Each but the one that is
//! open is kept as bytes.

use std::collections::{BTreeMap, VecDeque};

use super::row::{AGES, Row, SWAPPED, UNKNOWN};

/// What a column costs beside its bytes.
const COLUMN_COST: usize = 48;

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
        }
    }

    /// With columns that were kept; none if they are not in order.
    pub(super) fn with(mut self, columns: Vec<Column>) -> Option<Tier> {
        if !columns.is_sorted_by(|one, next| one.slot < next.slot) {
            return None;
        }
        for column in columns {
            self.keep(column);
        }
        Some(self)
    }

    /// Puts figures into the column of their time. Sizes are those of the newest, events add up.
    pub(super) fn push(&mut self, at_ms: u64, covered_ms: u64, rows: &BTreeMap<u32, Row>) {
        let slot = at_ms / self.step_ms;
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
                *known = if is_size {
                    value
                } else {
                    known.saturating_add(value)
                };
            }
        }
        self.open_bytes = open.closed().cost();
    }

    /// Closes the open column if it is not of this slot. What lies ahead was written by a clock that was wrong.
    fn turn_to(&mut self, slot: u64) {
        if let Some(open) = self.open.take_if(|open| open.slot != slot) {
            self.keep(open.closed());
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
            self.drop_oldest();
        }
    }

    fn keep(&mut self, column: Column) {
        self.bytes += column.cost();
        self.columns.push_back(column);
        if self.columns.len() > self.length {
            self.drop_oldest();
        }
    }

    /// Forgets the oldest closed column; whether there was one.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let oldest = self.columns.pop_front();
        self.bytes -= oldest.as_ref().map_or(0, Column::cost);
        oldest.is_some()
    }

    /// What all columns take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.open_bytes
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
mod tests {
    use super::super::row::{FIELDS, REFAULTS};
    use super::*;

    fn rows(name: u32, size: u64, events: u64) -> BTreeMap<u32, Row> {
        let mut row = Row([0; FIELDS]);
        row.0[0] = size;
        row.0[REFAULTS[0]] = events;
        BTreeMap::from([(name, row)])
    }

    fn seen(tier: &Tier, now_ms: u64) -> Vec<(usize, u64, u64, u64)> {
        let mut found = Vec::new();
        tier.visit(now_ms, |seen, row| {
            if seen.is_own {
                found.push((seen.place, seen.covered_ms, row.0[0], row.0[REFAULTS[0]]));
            }
        });
        found
    }

    #[test]
    fn sizes_are_the_newest_and_events_add_up() {
        let mut tier = Tier::new(100, 3);
        tier.push(1000, 0, &rows(1, 5, 0));
        tier.push(1050, 50, &rows(1, 7, 2));
        tier.push(1099, 49, &rows(1, 6, 3));
        tier.push(1210, 110, &rows(1, 9, 1));
        assert_eq!(seen(&tier, 1210), [(0, 99, 6, 5), (2, 110, 9, 1)]);
        tier.push(1310, 100, &rows(1, 1, 1));
        assert_eq!(seen(&tier, 1310), [(1, 110, 9, 1), (2, 100, 1, 1)]);
        assert_eq!(seen(&tier, 1410), [(0, 110, 9, 1), (1, 100, 1, 1)]);
        assert_eq!(seen(&tier, 9999), []);
    }

    /// Looks that are further apart than columns leave no gaps, restarts do.
    #[test]
    fn what_a_look_covers_is_as_it_found_it() {
        let mut tier = Tier::new(100, 9);
        for (at, covered) in [(1000, 0), (1300, 300), (1800, 0)] {
            tier.push(at, covered, &rows(1, at, 0));
        }
        let mut found = Vec::new();
        tier.visit(1800, |seen, row| {
            found.push((seen.place, row.0[0], seen.is_own))
        });
        let expected = [
            (0, 1000, true),
            (1, 1300, false),
            (2, 1300, false),
            (3, 1300, true),
            (8, 1800, true),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_clock_that_was_ahead_leaves_nothing_ahead() {
        let mut tier = Tier::new(100, 5);
        for at in [1000, 1100, 99_000, 1150, 1250] {
            tier.push(at, 10, &rows(1, at, 0));
        }
        let slots: Vec<u64> = tier.columns().map(|column| column.slot).collect();
        // Its leap forward had made all before too old.
        assert_eq!(slots, [11, 12]);
        assert_eq!(
            tier.bytes(),
            tier.columns().map(|one| one.cost()).sum::<usize>()
        );
    }

    #[test]
    fn a_restart_goes_on_in_the_same_column() {
        let mut tier = Tier::new(100, 3);
        tier.push(1000, 20, &rows(1, 5, 4));
        let mut again = Tier::new(100, 3)
            .with(tier.columns().collect())
            .expect("in order");
        again.push(1050, 20, &rows(1, 6, 4));
        assert_eq!(seen(&again, 1050), [(2, 40, 6, 8)]);
        let twice: Vec<Column> = tier.columns().chain(tier.columns()).collect();
        assert!(Tier::new(100, 3).with(twice).is_none());
    }
}
