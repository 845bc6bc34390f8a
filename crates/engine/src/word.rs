//! The state word of a page: all that the engine stores of the page, in 32 bits.
//!
//! | bits | present page | evicted page |
//! |---|---|---|
//! | 0-1 | state: see [`State`] | as for a present page |
//! | 2-5 | which of the four entry versions exist in some list (list.rs) | as for a present page |
//! | 6-7 | version of the live entry | 6: the shadow was reclaimed; 7: 0 |
//! | 8-9 | generation, seq % 4 | 8: workingset, 9: the evicted page was of type file |
//! | 10 | type: file | token, 22 bits from bit 10 |
//! | 11, 12-13, 14 | PG_referenced, refs field, PG_workingset | |
//! | 15-23 | flags, see [`Flag`] | |
//! | 24-26 | memory node, see [`NodeId`] | |
//!
//! Invariant: bits 2-7 survive every change of state, except that an evicted page has no live
//! entry, and so no version of it. All other bits are valid only in the state in which they were
//! written. States change only as [`State::may_become`] allows.

/// Where a page is: in memory or not, on a list or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never in memory, or removed by its program.
    Absent,
    /// In memory and on a list.
    Listed,
    /// In memory, but taken off its list: isolated for reclaim, or unevictable.
    OffList,
    /// Evicted; the word contains the shadow entry.
    Shadow,
}

impl State {
    /// All states, for exhaustive tests.
    pub const ALL: [Self; 4] = [Self::Absent, Self::Listed, Self::OffList, Self::Shadow];

    /// Whether a page in this state may change to `next`. Only an isolated page can be evicted, so
    /// that every eviction is counted. Only an insertion into a list makes a page present, so that
    /// every resident page is counted.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        use State::{Absent, Listed, OffList, Shadow};
        matches!(
            (self, next),
            (Absent | Shadow | OffList, Listed)
                | (Listed, OffList)
                | (OffList, Shadow)
                | (Listed | OffList | Shadow, Absent)
        )
    }
}

/// Single-bit properties of a present page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Flag {
    /// The page is of type file; without this flag, anon.
    File = 10,
    /// PG_referenced: the page was accessed recently.
    Referenced = 11,
    /// PG_workingset: the page belongs to the working set.
    Workingset = 14,
    /// PG_active. With the multi-gen LRU: the next insertion puts the page into a young generation.
    /// With the classic LRU: the page is on the active list.
    Active = 15,
    /// PG_reclaim: the page moves to the tail when its writeback ends.
    Reclaim = 16,
    /// The page was reported young ([`crate::Lruvec::young`]) while it was isolated, or on a
    /// classic list. The next check of the page uses and clears this flag.
    Young = 18,
    /// The page cannot be evicted, for example because it is locked in memory.
    Unevictable = 19,
    /// The page's content differs from its copy in swap or file.
    Dirty = 20,
    /// The page is being written to swap or file.
    Writeback = 21,
    /// The page is in the swap cache.
    SwapCache = 22,
    /// An executable mapping maps the page.
    Exec = 23,
}

/// A memory node (NUMA) of the machine, by its index among the nodes that have memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// Number of nodes that can be distinguished.
    pub const MAX: usize = 8;

    /// Returns the node with this index; for an index of [`Self::MAX`] or more, the last node that
    /// can be distinguished.
    #[must_use]
    pub fn of_index(index: usize) -> Self {
        Self(u32::try_from(index.min(Self::MAX - 1)).unwrap_or(0))
    }

    /// Returns the index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

const STATE: u32 = 0b11;
const ENTRIES_SHIFT: u32 = 2;
const ENTRIES: u32 = 0b1111 << ENTRIES_SHIFT;
const LIVE_SHIFT: u32 = 6;
const LIVE: u32 = 0b11 << LIVE_SHIFT;
const COMMON: u32 = STATE | ENTRIES | LIVE;
/// For each 4-bit value: the index of its lowest clear bit, or 4 if no bit is clear. A table is
/// used because the compiler makes a jump table of the computation, whose jumps a processor
/// mispredicts.
const LOWEST_CLEAR: [u8; 16] = [0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0, 4];
const GEN_SHIFT: u32 = 8;
const REFS_SHIFT: u32 = 12;
const REFS: u32 = 0b11 << REFS_SHIFT;
const NODE_SHIFT: u32 = 24;
const NODE: u32 = 0b111 << NODE_SHIFT;
const _: () = assert!(NodeId::MAX == (NODE >> NODE_SHIFT) as usize + 1);
const SHADOW_WORKINGSET: u32 = 1 << 8;
const SHADOW_FILE: u32 = 1 << 9;
const TOKEN_SHIFT: u32 = 10;
/// Number of bits of a shadow's token.
pub(crate) const TOKEN_BITS: u32 = 32 - TOKEN_SHIFT;
/// For an evicted page: its shadow was dropped. The bit is free for that, because an evicted page
/// has no live entry.
const SHADOW_GONE: u32 = 1 << LIVE_SHIFT;

/// The state word of a page: a plain value, which code reads, changes and stores back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word(u32);

impl Word {
    pub(crate) const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    pub(crate) const fn raw(self) -> u32 {
        self.0
    }

    /// Returns where the page is.
    #[must_use]
    pub const fn state(self) -> State {
        match self.0 & STATE {
            0 => State::Absent,
            1 => State::Listed,
            2 => State::OffList,
            _ => State::Shadow,
        }
    }

    /// Whether the page is in memory.
    #[must_use]
    pub const fn is_present(self) -> bool {
        matches!(self.state(), State::Listed | State::OffList)
    }

    /// Returns the word in the state `next`, without the bits that are valid only in the old state.
    #[must_use]
    pub(crate) fn into_state(self, next: State) -> Self {
        debug_assert!(
            self.state().may_become(next),
            "{:?} -> {next:?}",
            self.state()
        );
        let keep_payload = self.is_present() && matches!(next, State::Listed | State::OffList);
        let payload = if keep_payload { self.0 & !COMMON } else { 0 };
        Self(self.0 & (ENTRIES | LIVE) | payload | next as u32)
    }

    /// Whether `flag` is set; valid only for a page in memory.
    #[must_use]
    pub const fn has(self, flag: Flag) -> bool {
        self.0 & (1 << flag as u32) != 0
    }

    #[must_use]
    pub(crate) const fn with(self, flag: Flag, on: bool) -> Self {
        let bit = 1 << flag as u32;
        Self(if on { self.0 | bit } else { self.0 & !bit })
    }

    /// Returns the slot of the page's generation (seq % 4).
    #[must_use]
    pub const fn generation(self) -> usize {
        (self.0 >> GEN_SHIFT & 0b11) as usize
    }

    #[must_use]
    pub(crate) fn with_generation(self, slot: usize) -> Self {
        debug_assert!(slot < 4);
        let slot = u32::try_from(slot & 0b11).unwrap_or(0);
        Self(self.0 & !(0b11 << GEN_SHIFT) | slot << GEN_SHIFT)
    }

    /// Returns the memory node of the page; valid only for a page in memory.
    #[must_use]
    pub const fn node(self) -> NodeId {
        NodeId((self.0 & NODE) >> NODE_SHIFT)
    }

    #[must_use]
    pub(crate) const fn with_node(self, node: NodeId) -> Self {
        Self(self.0 & !NODE | node.0 << NODE_SHIFT)
    }

    /// Returns the 2-bit reference field, 0 to 3.
    #[must_use]
    pub const fn refs_field(self) -> u32 {
        (self.0 & REFS) >> REFS_SHIFT
    }

    #[must_use]
    pub(crate) const fn with_refs_field(self, refs: u32) -> Self {
        Self(self.0 & !REFS | (refs << REFS_SHIFT) & REFS)
    }

    /// Returns a shadow's token and workingset bit; only for [`State::Shadow`].
    #[must_use]
    pub(crate) const fn shadow(self) -> (u32, bool) {
        (self.0 >> TOKEN_SHIFT, self.0 & SHADOW_WORKINGSET != 0)
    }

    #[must_use]
    pub(crate) fn into_shadow(self, token: u32, workingset: bool) -> Self {
        debug_assert!(token >> TOKEN_BITS == 0);
        let workingset = if workingset { SHADOW_WORKINGSET } else { 0 };
        let file = if self.has(Flag::File) { SHADOW_FILE } else { 0 };
        let out = self.into_state(State::Shadow).0 & !LIVE;
        Self(out | token << TOKEN_SHIFT | workingset | file)
    }

    /// Returns the word without its shadow: the page stays evicted, but a refault will not be
    /// recognized. Only for [`State::Shadow`].
    #[must_use]
    pub(crate) const fn without_shadow(self) -> Self {
        Self(self.0 & (STATE | ENTRIES | SHADOW_FILE) | SHADOW_GONE)
    }

    /// Returns the word of `other`, but with the entry versions of this id, which has no page.
    #[must_use]
    pub(crate) fn renamed_from(self, other: Self) -> Self {
        debug_assert_eq!(self.state(), State::Absent);
        let own = match other.state() {
            State::Shadow => ENTRIES,
            _ => ENTRIES | LIVE,
        };
        Self(self.0 & own | other.0 & !own)
    }

    /// Whether an evicted page still has its shadow; only for [`State::Shadow`].
    #[must_use]
    pub(crate) const fn has_shadow(self) -> bool {
        self.0 & SHADOW_GONE == 0
    }

    /// Whether an evicted page was of type file; only for [`State::Shadow`].
    #[must_use]
    pub(crate) const fn shadow_is_file(self) -> bool {
        self.0 & SHADOW_FILE != 0
    }

    /// Whether the entry with this `version` is the page's live entry.
    #[must_use]
    pub(crate) const fn is_live(self, version: u32) -> bool {
        matches!(self.state(), State::Listed) && (self.0 & LIVE) >> LIVE_SHIFT == version
    }

    /// Returns the version of the page's live entry.
    #[must_use]
    pub(crate) const fn live_version(self) -> u32 {
        (self.0 & LIVE) >> LIVE_SHIFT
    }

    /// Claims a version that no entry of the page has. Returns the new word and the version; `None`
    /// if all four are in use.
    #[must_use]
    pub(crate) const fn claim_version(self) -> Option<(Self, u32)> {
        let version = LOWEST_CLEAR[(self.0 >> ENTRIES_SHIFT & 0b1111) as usize] as u32;
        if version == 4 {
            return None;
        }
        let word = self.0 & !LIVE | version << LIVE_SHIFT | 1 << (ENTRIES_SHIFT + version);
        Some((Self(word), version))
    }

    /// Returns the word without `version`, whose entry was removed from its ring.
    #[must_use]
    pub(crate) const fn release_version(self, version: u32) -> Self {
        Self(self.0 & !(1 << (ENTRIES_SHIFT + version)))
    }

    /// Returns the number of list entries of this page, including tombstones.
    #[cfg(test)]
    pub(crate) const fn entries(self) -> u32 {
        (self.0 & ENTRIES).count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_survive_every_legal_transition() {
        for from in State::ALL {
            for to in State::ALL {
                if !from.may_become(to) {
                    continue;
                }
                let (word, v) = Word(from as u32).claim_version().expect("fresh");
                let next = word.into_state(to);
                assert_eq!(next.state(), to);
                assert_eq!(next.live_version(), v, "{from:?} -> {to:?}");
                assert_eq!(next.entries(), 1);
            }
        }
    }

    #[test]
    fn illegal_transitions_are_exactly_these() {
        let illegal: [(State, State); 6] = [
            (State::Absent, State::OffList),
            (State::Absent, State::Shadow),
            (State::Listed, State::Shadow),
            (State::OffList, State::OffList),
            (State::Shadow, State::OffList),
            (State::Listed, State::Listed),
        ];
        for from in State::ALL {
            for to in State::ALL {
                let stays_unlisted = from == to && matches!(from, State::Absent | State::Shadow);
                let expect = !(illegal.contains(&(from, to)) || stays_unlisted);
                assert_eq!(from.may_become(to), expect, "{from:?} -> {to:?}");
            }
        }
    }

    #[test]
    fn four_versions_and_no_more() {
        let mut word = Word(State::Listed as u32);
        for n in 1..=4 {
            word = word.claim_version().expect("free version").0;
            assert_eq!(word.entries(), n);
        }
        assert!(word.claim_version().is_none());
        let (word, v) = word.release_version(2).claim_version().expect("released");
        assert!(v == 2 && word.is_live(2) && !word.is_live(3));
    }

    #[test]
    fn flags_do_not_touch_each_other() {
        let word = Word(State::Listed as u32)
            .with_generation(3)
            .with_refs_field(2);
        let word = word.with(Flag::File, true).with(Flag::Workingset, true);
        let word = word.with(Flag::Exec, true).with_node(NodeId::of_index(9));
        assert_eq!((word.generation(), word.refs_field()), (3, 2));
        assert_eq!(word.node().index(), NodeId::MAX - 1);
        let isolated = word.into_state(State::OffList);
        assert_eq!(isolated.node(), word.node(), "isolation keeps the node");
        let word = word.with_node(NodeId::default());
        assert!(word.has(Flag::Exec) && word.node() == NodeId::default());
        assert!(word.has(Flag::File) && !word.has(Flag::Referenced));
        let word = word.with(Flag::File, false);
        assert!(!word.has(Flag::File) && word.has(Flag::Workingset));
    }

    #[test]
    fn shadow_keeps_extreme_tokens() {
        for token in [0, 1, (1 << TOKEN_BITS) - 1] {
            for workingset in [false, true] {
                let page = Word(State::OffList as u32 | LIVE).with(Flag::File, workingset);
                let word = page.into_shadow(token, workingset);
                assert_eq!(word.shadow(), (token, workingset));
                assert!(word.has_shadow());
                let word = word.without_shadow();
                assert!(!word.has_shadow() && word.state() == State::Shadow);
                assert_eq!(word.shadow_is_file(), workingset);
            }
        }
    }
}
