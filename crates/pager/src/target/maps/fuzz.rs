//! Texts of maps, true, changed and cut off: nothing panics, and what is chosen lies inside what was
//! read.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// Addresses as programs have them, and as none has.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (0u64..64).prop_map(|n| 0x7f00_0000_0000 + n * 0x4000),
        2 => (0u64..1 << 35).prop_map(|n| n << 12),
        1 => any::<u64>(),
    ]
}

fn line() -> impl Strategy<Value = String> {
    let perms = "(rw-p|r-xp|---p|rw-s|rwxp|[rwxps-]{0,6})";
    let name = "(|\\[heap\\]|\\[stack\\]|\\[vdso\\]|\\[anon:x y\\]|/a b \\(deleted\\)|.{0,8})";
    let inode = prop_oneof![3 => Just(0u64), 1 => any::<u64>()];
    (address(), 0u64..0x20, perms, inode, name).prop_map(|(start, pages, perms, inode, name)| {
        let end = start.wrapping_add(pages * 0x1000);
        format!("{start:x}-{end:x} {perms} 00000000 00:00 {inode}      {name}")
    })
}

fn changed(line: &str, changes: &[(Index, char)], cut: Option<Index>) -> String {
    let mut chars: Vec<char> = line.chars().collect();
    for (at, with) in changes {
        let at = at.index(chars.len());
        chars[at] = *with;
    }
    if let Some(cut) = cut {
        chars.truncate(cut.index(chars.len()));
    }
    chars.into_iter().collect()
}

/// A mapping list as the kernel gives it: in order, without overlap.
fn in_order(lines: &[String]) -> Vec<Mapping> {
    let mut maps: Vec<Mapping> = lines.iter().filter_map(|line| parse(line)).collect();
    maps.sort_by_key(|m| m.start);
    let mut end = 0;
    maps.retain(|m| {
        let apart = m.start >= end;
        if apart {
            end = m.end;
        }
        apart
    });
    maps
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_line_is_a_mapping_or_refused(
        line in line(),
        changes in prop::collection::vec((any::<Index>(), prop_oneof![Just(' '), Just('-'), any::<char>()]), 0..4),
        cut in prop::option::of(any::<Index>()),
    ) {
        if let Some(m) = parse(&line) {
            prop_assert!(m.start < m.end);
        }
        if let Some(m) = parse(&changed(&line, &changes, cut)) {
            prop_assert!(m.start < m.end && m.len() > 0);
        }
    }

    #[test]
    fn what_is_chosen_lies_inside_what_was_read(
        lines in prop::collection::vec(line(), 0..24),
        excluded in prop::collection::vec((address(), address()), 0..3),
        live in prop::collection::vec(address(), 0..6),
    ) {
        let maps = in_order(&lines);
        let mut blocks = ControlBlocks::default();
        for _ in 0..2 {
            blocks.note(&maps, &live);
            for m in managed(&maps, &excluded, &blocks) {
                let of = maps.iter().find(|of| of.start == m.start).expect("one that was read");
                prop_assert!(of.movable() && of.end == m.end);
                prop_assert!(m.pinned.iter().all(|p| p.0 >= m.start && p.0 <= p.1 && p.1 <= m.end));
            }
        }
        for r in registrable(&maps, &excluded) {
            prop_assert!(r.span.0 <= r.seen.0 && r.seen.1 <= r.span.1);
            let walls = maps.iter().filter(|m| !m.plain_anonymous());
            for wall in walls {
                prop_assert!(wall.end <= r.span.0 || r.span.1 <= wall.start, "{:?} in {:?}", wall, r);
            }
        }
    }
}
