//! What of a span may be registered when the keeper has memory of its own in it.
//!
//! Invariant: no byte of a table is ever registered. A keeper that unmaps registered memory waits for
//! an event that only it can read, and with it the target for ever; a fault of its own would, too.

/// From a first byte to the one behind the last.
pub type Range = (u64, u64);

/// The part of `span` around `seen` that touches none of the tables. `None` if one of them is where
/// `seen` was: then what was seen is gone.
#[must_use]
pub fn without(span: Range, seen: Range, tables: impl Iterator<Item = Range>) -> Option<Range> {
    let mut part = (span.0.min(seen.0), span.1.max(seen.1));
    for (base, top) in tables {
        if base >= seen.1 {
            part.1 = part.1.min(base);
        } else if top <= seen.0 {
            part.0 = part.0.max(top);
        } else {
            return None;
        }
    }
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kill of the manager in fifty left a target that hung for ever. A mapping was seen, and
    /// unmapped before the command to register it was carried out; the highest gap that a child's
    /// table fits in then ended where the mapping had ended, so the table lay across its place. What
    /// was seen was registered all the same, a part of the table with it, and when the child had gone
    /// the keeper unmapped the table and waited for itself.
    #[test]
    fn what_was_seen_is_gone_when_a_table_lies_across_its_place() {
        let seen = (0x7e54_9f6c_0000, 0x7e54_9fab_7000);
        let table = (0x7e54_9f59_a000, 0x7e55_3fb3_a000);
        assert_eq!(
            without(
                (0x7e54_9000_0000, 0x7e55_4000_0000),
                seen,
                [table].into_iter()
            ),
            None
        );
    }

    #[test]
    fn nothing_is_registered_but_what_is_seen_and_free_around_it() {
        // Every way that two tables, a span and what is seen can lie on eight places.
        let ranges: Vec<Range> = (0..8)
            .flat_map(|s| (s + 1..9).map(move |e| (s, e)))
            .collect();
        let meet = |a: Range, b: Range| a.0 < b.1 && b.0 < a.1;
        for &seen in &ranges {
            for &span in ranges.iter().filter(|r| r.0 <= seen.0 && r.1 >= seen.1) {
                for &one in &ranges {
                    for &two in &ranges {
                        let tables = [one, two];
                        let part = without(span, seen, tables.into_iter());
                        let hit = tables.iter().any(|t| meet(*t, seen));
                        assert_eq!(part.is_none(), hit);
                        let Some(part) = part else { continue };
                        assert!(!tables.iter().any(|t| meet(*t, part)));
                        assert!(part.0 <= seen.0 && part.1 >= seen.1);
                        // Nothing is left out that could be in.
                        let fits = |r: Range| {
                            r.0 >= span.0 && r.1 <= span.1 && !tables.iter().any(|t| meet(*t, r))
                        };
                        assert!(part.0 == span.0 || !fits((part.0 - 1, part.1)));
                        assert!(part.1 == span.1 || !fits((part.0, part.1 + 1)));
                    }
                }
            }
        }
    }
}
