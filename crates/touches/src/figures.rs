//! What is counted of one tenant in one run, as a line of text that either side writes.
//!
//! `figures CASE POLICY SEED BURST TENANT name=value ... name:value,value ...`; names are memory.stat's where it has
//! them. Lists are told of all tenants together; older files have none.

use std::collections::BTreeMap;
use std::fmt;

/// A list: after how many bursts the kernel's periodic flush of statistics was seen, each time.
pub const FLUSHES: &str = "flushes";
/// A list: which walks of the only tenant's page tables, from 1 on, found that its program had not run since the one before.
pub const RESTED: &str = "rested";
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
    /// By name.
    pub lists: BTreeMap<String, Vec<u64>>,
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
        for (name, count) in &self.counts {
            write!(f, " {name}={count}")?;
        }
        self.lists.iter().try_for_each(|(name, list)| {
            let list: Vec<String> = list.iter().map(u64::to_string).collect();
            write!(f, " {name}:{}", list.join(","))
        })
    }
}

/// Numbers with commas between them; nothing is an empty list.
fn numbers(text: &str) -> Option<Vec<u64>> {
    let words = text.split(',').filter(|_| !text.is_empty());
    words.map(|word| word.parse().ok()).collect()
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
        let mut figures = Self {
            key: Key {
                case,
                policy,
                seed,
                burst,
                tenant,
            },
            counts: BTreeMap::new(),
            lists: BTreeMap::new(),
        };
        words.try_for_each(|word| figures.take(word))?;
        Some(figures)
    }

    fn take(&mut self, word: &str) -> Option<()> {
        if let Some((name, count)) = word.split_once('=') {
            self.counts.insert(name.to_owned(), count.parse().ok()?);
        } else {
            let (name, list) = word.split_once(':')?;
            self.lists.insert(name.to_owned(), numbers(list)?);
        }
        Some(())
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
        assert!(figures.lists.is_empty());
        for other in [
            "",
            "ok a",
            "figures a",
            "figures a b 1 64 one x",
            "figures a b 1 64 one x=y",
            "figures a b 1 64 one x:1,",
            "figures a b 1 64 one x:-1",
        ] {
            assert!(Figures::parse(other).is_none(), "{other}");
        }
    }

    #[test]
    fn lists_of_any_length_are_read_as_they_were_written() {
        for length in (0..4).chain([400]) {
            let scattered = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (n % 64);
            let list: Vec<u64> = (0..length).map(scattered).collect();
            let figures = Figures {
                lists: [(FLUSHES.to_owned(), list), (RESTED.to_owned(), vec![3])].into(),
                ..Figures::parse("figures a b 1 64 all x=2").expect("figures")
            };
            assert_eq!(Figures::parse(&figures.to_string()), Some(figures));
        }
        let none = Figures::parse("figures a b 1 64 all flushes:").expect("figures");
        assert_eq!(none.lists[FLUSHES], []);
    }
}
