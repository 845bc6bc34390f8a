//! References: how often a page was accessed within its generation, and the tier that this implies.
//! spec: lru-gen.md 3.
//!
//! The state is (PG_referenced, a 2-bit field, PG_workingset). Each access through a file
//! descriptor counts. The first access through page tables counts; the next one promotes the page.
//! The counts decide only the tier; eviction decides whether the page moves.

use super::{MAX_NR_TIERS, Profile};
use crate::word::{Flag, Word};

/// The largest value of the 2-bit reference field.
pub(super) const FIELD_MAX: u32 = 3;

/// Returns the number of references recorded, 0 to 4.
#[must_use]
pub const fn refs(profile: Profile, word: Word) -> u32 {
    match profile {
        Profile::P616 if word.has(Flag::Referenced) => word.refs_field() + 1,
        Profile::P616 => 0,
        Profile::P63 | Profile::P612 => word.refs_field() + word.has(Flag::Workingset) as u32,
    }
}

/// The tier of a page with `refs` references.
#[must_use]
pub const fn tier(profile: Profile, refs: u32, workingset: bool) -> usize {
    let up = match profile {
        Profile::P616 if workingset => return MAX_NR_TIERS - 1,
        Profile::P616 if refs == 0 => 1,
        Profile::P616 => refs,
        Profile::P63 | Profile::P612 => refs + 1,
    };
    up.next_power_of_two().trailing_zeros() as usize
}

/// Returns the [`tier`] of the page with this word.
pub(super) const fn tier_of(profile: Profile, word: Word) -> usize {
    tier(profile, refs(profile, word), word.has(Flag::Workingset))
}

/// Whether the page has the largest number of references that its word can store. Eviction then
/// moves the page to the next generation: under P616 as promoted, not protected; under P612 as
/// protected, whatever its tier.
pub(super) const fn is_saturated(profile: Profile, word: Word) -> bool {
    match profile {
        Profile::P616 => refs(profile, word) + word.has(Flag::Workingset) as u32 == FIELD_MAX + 2,
        Profile::P612 => refs(profile, word) == FIELD_MAX + 1,
        Profile::P63 => false,
    }
}

/// Returns the word of a page that is being isolated. Unless PG_referenced is set, its references
/// are cleared, so that later accesses decide its tier.
pub(super) const fn isolated(profile: Profile, word: Word) -> Word {
    match profile {
        _ if word.has(Flag::Referenced) => word,
        Profile::P616 => word.with_refs_field(0),
        Profile::P63 | Profile::P612 => word.with_refs_field(0).with(Flag::Workingset, false),
    }
}

/// Returns the word after one more access through a file descriptor; the generation never changes.
pub(super) fn mark_accessed(profile: Profile, word: Word) -> Word {
    if word.has(Flag::Unevictable) {
        return word;
    }
    if !word.has(Flag::Referenced) {
        let word = if profile == Profile::P616 {
            word.with_refs_field(0)
        } else {
            word
        };
        return word.with(Flag::Referenced, true);
    }
    if profile.is_before_614() && !word.has(Flag::Workingset) {
        return word.with(Flag::Workingset, true);
    }
    match word.refs_field() {
        FIELD_MAX => word.with(Flag::Workingset, true),
        field => word.with_refs_field(field + 1),
    }
}

/// Returns the word, marked referenced, if this is the first access to the page through page
/// tables. `None` for a later access, and for any access by the rules before Linux v6.14: these
/// promote the page.
pub(super) fn first_time(profile: Profile, word: Word) -> Option<Word> {
    let was_accessed = word.has(Flag::Referenced) || word.has(Flag::Workingset);
    if profile.is_before_614() || was_accessed {
        return None;
    }
    Some(word.with_refs_field(0).with(Flag::Referenced, true))
}

/// Returns the word of a promoted page: references cleared, PG_workingset set (by the rules before
/// Linux v6.14: cleared).
pub(super) fn promoted(profile: Profile, word: Word) -> Word {
    cleared(profile, word).with(Flag::Workingset, profile == Profile::P616)
}

/// Returns the word of a page that moves to the next generation without promotion: references
/// cleared, PG_workingset kept (by the rules before Linux v6.14: cleared).
pub(super) fn cleared(profile: Profile, word: Word) -> Word {
    let word = word.with_refs_field(0).with(Flag::Referenced, false);
    if profile.is_before_614() {
        word.with(Flag::Workingset, false)
    } else {
        word
    }
}

/// Records an access that eviction found by the reverse map. Returns the new word, and whether the
/// page must be activated.
pub(super) fn set_refs(profile: Profile, word: Word) -> (Word, bool) {
    match first_time(profile, word) {
        Some(word) => (word, false),
        None => (promoted(profile, word), true),
    }
}

/// Returns the word of a deactivated page: no references, no PG_workingset.
pub(super) fn clear_refs(word: Word) -> Word {
    word.with_refs_field(0)
        .with(Flag::Referenced, false)
        .with(Flag::Workingset, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::State;
    use alloc::vec::Vec;

    fn accesses(profile: Profile) -> (Vec<u32>, Vec<usize>, Word) {
        let mut word = Word::default().into_state(State::Listed).with_generation(2);
        let (mut counts, mut tiers) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            word = mark_accessed(profile, word);
            counts.push(refs(profile, word));
            tiers.push(tier_of(profile, word));
        }
        (counts, tiers, word)
    }

    /// Under P616, accesses through a file descriptor raise references and tier, but keep the
    /// generation.
    /// spec: lru-gen.md 12, test 4.
    #[test]
    fn five_descriptor_accesses() {
        let (counts, tiers, word) = accesses(Profile::P616);
        assert_eq!(counts, [1, 2, 3, 4, 4]);
        assert_eq!(tiers, [0, 1, 2, 2, 3]);
        assert!(word.has(Flag::Workingset) && is_saturated(Profile::P616, word));
        assert_eq!(word.generation(), 2);
    }

    #[test]
    fn five_descriptor_accesses_in_p63() {
        let (counts, tiers, word) = accesses(Profile::P63);
        assert_eq!(counts, [0, 1, 2, 3, 4]);
        assert_eq!(tiers, [0, 1, 2, 2, 3]);
        assert_eq!(word.generation(), 2);
    }

    #[test]
    fn reverse_map_activates_the_second_time() {
        let word = Word::default().into_state(State::Listed);
        let (word, activate) = set_refs(Profile::P616, word);
        assert!(!activate && word.has(Flag::Referenced));
        let (word, activate) = set_refs(Profile::P616, word);
        assert!(activate && word.has(Flag::Workingset) && !word.has(Flag::Referenced));
        assert!(
            set_refs(Profile::P63, Word::default()).1,
            "P63 activates at once"
        );
    }
}
