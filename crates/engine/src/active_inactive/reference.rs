//! The reference check at reclaim: the second chance. spec: classic-lru.md 3.

use super::Stage;
use crate::folio::FolioType;

/// What the check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referenced {
    /// It may go.
    Reclaim,
    /// It may go if it is clean.
    ReclaimClean,
    /// One more trip on the inactive list.
    Keep,
    /// It belongs on the active list.
    Activate,
}

/// What the check looks at.
#[derive(Clone, Copy, Debug)]
pub struct ReferenceInput {
    /// The page's type.
    pub ty: FolioType,
    /// Accessed bits found in page tables (and cleared).
    pub pte_references: u32,
    /// PG_referenced.
    pub referenced: bool,
    /// A mapping of it is executable.
    pub executable: bool,
    /// A mapping of it is locked.
    pub locked: bool,
}

/// The verdict, and PG_referenced after it.
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
    let before = stage == Stage::Base;
    let at_once = before && ty == FolioType::Anon;
    let code = executable && (before || ty == FolioType::File);
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

    /// classic-lru.md 8, test 6.
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

    /// classic-lru.md 8, test 7.
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
