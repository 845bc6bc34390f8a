//! The reference check of reclaim, which gives accessed pages a second chance.
//! spec: classic-lru.md 3.

use super::Stage;
use crate::folio::FolioType;

/// Result of the reference check: what reclaim does with an inactive page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referenced {
    /// The page may be evicted.
    Reclaim,
    /// The page may be evicted if it is clean.
    ReclaimClean,
    /// The page moves to the head of the inactive list.
    Keep,
    /// The page moves to the active list.
    Activate,
}

/// The input of the reference check.
#[derive(Clone, Copy, Debug)]
pub struct ReferenceInput {
    /// The page's type.
    pub ty: FolioType,
    /// Number of the page's mappings whose accessed bit was set. The caller has cleared these bits.
    pub pte_references: u32,
    /// Whether PG_referenced was set before the check.
    pub referenced: bool,
    /// Whether a mapping of the page is executable.
    pub executable: bool,
    /// Whether a mapping of the page is locked in memory (mlock).
    pub locked: bool,
}

/// Returns the result of the check, and the value of PG_referenced after it.
#[must_use]
pub fn check_references(stage: Stage, input: ReferenceInput) -> (Referenced, bool) {
    let ReferenceInput {
        ty,
        pte_references,
        referenced,
        executable,
        locked,
    } = input;
    if locked {
        return (Referenced::Activate, referenced);
    }
    if pte_references == 0 {
        let clean_only = referenced && ty == FolioType::File;
        let verdict = if clean_only {
            Referenced::ReclaimClean
        } else {
            Referenced::Reclaim
        };
        return (verdict, false);
    }
    let is_base_stage = stage == Stage::Base;
    let at_once = is_base_stage && ty == FolioType::Anon;
    let code = executable && (is_base_stage || ty == FolioType::File);
    if at_once || referenced || pte_references > 1 || code {
        (Referenced::Activate, true)
    } else {
        (Referenced::Keep, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stage: Stage, ty: FolioType, ptes: u32, referenced: bool, exec: bool) -> Referenced {
        let input = ReferenceInput {
            ty,
            pte_references: ptes,
            referenced,
            executable: exec,
            locked: false,
        };
        check_references(stage, input).0
    }

    /// An anon page with one accessed mapping is kept first, then activated; with two it is
    /// activated at once.
    /// spec: classic-lru.md 8, test 6.
    #[test]
    fn second_chance_for_anon() {
        use FolioType::Anon;
        let after = Stage::Detection;
        assert_eq!(check(after, Anon, 1, false, false), Referenced::Keep);
        assert_eq!(check(after, Anon, 1, true, false), Referenced::Activate);
        assert_eq!(check(after, Anon, 2, false, false), Referenced::Activate);
        assert_eq!(
            check(Stage::Base, Anon, 1, false, false),
            Referenced::Activate
        );
    }

    /// An accessed executable file page is activated at once; an executable anon page is kept.
    /// spec: classic-lru.md 8, test 7.
    #[test]
    fn executable_mappings() {
        let after = Stage::Detection;
        assert_eq!(
            check(after, FolioType::File, 1, false, true),
            Referenced::Activate
        );
        assert_eq!(
            check(after, FolioType::Anon, 1, false, true),
            Referenced::Keep
        );
    }

    #[test]
    fn without_page_table_references() {
        let after = Stage::Detection;
        assert_eq!(
            check(after, FolioType::File, 0, true, false),
            Referenced::ReclaimClean
        );
        assert_eq!(
            check(after, FolioType::Anon, 0, true, false),
            Referenced::Reclaim
        );
        assert_eq!(
            check(after, FolioType::File, 0, false, true),
            Referenced::Reclaim
        );
    }
}
