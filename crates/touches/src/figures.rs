//! What is counted of one tenant in one run, as a line of text that either side writes.
//!
//! `figures CASE POLICY SEED BURST TENANT name=value ...`; names are memory.stat's where it has them.

use std::collections::BTreeMap;
use std::fmt;

/// Begins each line.
pub const MARK: &str = "figures";

/// Which run, and whose.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Name of the case.
    pub case: String,
    /// `multi-gen` or `classic`.
    pub policy: String,
    /// The seed.
    pub seed: u64,
    /// Touches between two forced context switches; 0 in the simulator, which knows none.
    pub burst: u64,
    /// Name of the tenant.
    pub tenant: String,
}

/// Which run, and what was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Which run, and whose.
    pub key: Key,
    /// By name.
    pub counts: BTreeMap<String, u64>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key {
            case,
            policy,
            seed,
            burst,
            tenant,
        } = &self.key;
        write!(f, "{MARK} {case} {policy} {seed} {burst} {tenant}")?;
        self.counts
            .iter()
            .try_for_each(|(name, count)| write!(f, " {name}={count}"))
    }
}

impl Figures {
    /// Reads a line; none if it is another kind of line.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        if words.next()? != MARK {
            return None;
        }
        let mut text = || words.next().map(str::to_owned);
        let (case, policy) = (text()?, text()?);
        let (seed, burst) = (text()?.parse().ok()?, text()?.parse().ok()?);
        let tenant = text()?;
        let count = |word: &str| {
            let (name, count) = word.split_once('=')?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        Some(Self {
            key: Key {
                case,
                policy,
                seed,
                burst,
                tenant,
            },
            counts: words.map(count).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let line = "figures uniform multi-gen 1 64 one max_seq=9 pgscan=12";
        let figures = Figures::parse(line).expect("figures");
        assert_eq!((figures.counts["pgscan"], figures.key.burst), (12, 64));
        assert_eq!(figures.to_string(), line);
        for other in [
            "",
            "ok a",
            "figures a",
            "figures a b 1 64 one x",
            "figures a b 1 64 one x=y",
        ] {
            assert!(Figures::parse(other).is_none(), "{other}");
        }
    }
}
