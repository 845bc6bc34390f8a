//! The counts of one tenant in one run, as a line of text. The program in the guest and the
//! simulator write the same format.
//!
//! `figures CASE POLICY SEED BURST TENANT name=value ... name:value,value ...`
//!
//! A count that memory.stat contains has the same name as there. The line with the counts of all
//! tenants together may also have lists of values; lines in older files have no lists.

use std::collections::BTreeMap;
use std::fmt;

/// Name of the list that has, for each periodic flush of the kernel's statistics, the number of
/// bursts before that flush.
pub const FLUSHES: &str = "flushes";
/// Name of the list of the numbers of those page-table walks before which the tenant's program had
/// not run since the previous walk. The first walk is number 1. Only for a case with one tenant.
pub const RESTED: &str = "rested";
/// Name of the list of kernel memory: for each group of the case, the number of pages of kernel
/// structures (`kernel` in memory.stat). These are charged to the group and to those below it.
pub const KERNELS: &str = "kernels";
/// First word of each line of figures.
pub const MARK: &str = "figures";

/// The run and the tenant that some figures belong to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Name of the case.
    pub case: String,
    /// The kernel's reclaim algorithm: `multi-gen` or `classic`.
    pub policy: String,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Number of touches between two forced context switches; 0 in the simulator, which forces
    /// none.
    pub burst: u64,
    /// Name of the tenant.
    pub tenant: String,
}

/// The counts of one tenant in one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The run and the tenant that the counts belong to.
    pub key: Key,
    /// Counts by name.
    pub counts: BTreeMap<String, u64>,
    /// Lists by name.
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

/// Parses numbers with commas between them; an empty text has none. `None` if a number is invalid.
fn numbers(text: &str) -> Option<Vec<u64>> {
    let words = text.split(',').filter(|_| !text.is_empty());
    words.map(|word| word.parse().ok()).collect()
}

impl Figures {
    /// Parses a line of figures; `None` for any other line.
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

    /// Adds the count (`name=value`) or list (`name:value,value`) in `word`; `None` if `word` has
    /// another form.
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
    fn a_formatted_line_parses_to_the_same_figures() {
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
