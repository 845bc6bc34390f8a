//! Reads the kernel's counters of a control group from memory.stat and memory.events, and the
//! numbers of its multi-gen LRU generations from debugfs.

use std::collections::BTreeMap;
use std::path::Path;

use touches::case::PAGE_SIZE;

use crate::groups::read;

const LRU_GEN: &str = "/sys/kernel/debug/lru_gen";

/// Names of those numbers in memory.stat that count pages or events.
const EVENTS: [&str; 10] = [
    "workingset_refault_anon",
    "workingset_activate_anon",
    "workingset_restore_anon",
    "pgscan",
    "pgsteal",
    "pgrefill",
    "pgactivate",
    "pgdeactivate",
    "pgmajfault",
    "pgfault",
];
/// Names of those numbers in memory.stat that are sizes, in bytes.
const SIZES: [&str; 5] = ["anon", "file", "kernel", "active_anon", "inactive_anon"];

/// Finds the number with this name in a file that has lines `NAME NUMBER`; `None` if it has no such
/// line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line?.trim().parse().ok()
}

/// Returns all counters of a group by name. Sizes are in pages.
pub(crate) fn of_group(group: &Path) -> Result<BTreeMap<String, u64>, String> {
    let stat = read(&group.join("memory.stat"))?;
    let mut counts = BTreeMap::new();
    let mut put = |name: &str, count: Option<u64>| {
        let count = count.ok_or_else(|| format!("memory.stat has no {name}"))?;
        counts.insert(name.to_owned(), count);
        Ok::<(), String>(())
    };
    for name in EVENTS {
        put(name, field(&stat, name))?;
    }
    for name in SIZES {
        put(
            name,
            field(&stat, name).map(|bytes| bytes.div_ceil(PAGE_SIZE)),
        )?;
    }
    let current = read(&group.join("memory.current"))?;
    put(
        "current",
        current
            .trim()
            .parse()
            .ok()
            .map(|bytes: u64| bytes / PAGE_SIZE),
    )?;
    let events = read(&group.join("memory.events"))?;
    put("low", field(&events, "low"))?;
    put("max", field(&events, "max"))?;
    Ok(counts)
}

/// Returns the number of page faults of a group, as of the kernel's last flush of its statistics.
pub(crate) fn faults(group: &Path) -> Result<u64, String> {
    let stat = read(&group.join("memory.stat"))?;
    field(&stat, "pgfault").ok_or_else(|| "memory.stat has no pgfault".to_owned())
}

/// Returns how many pages the whole machine has swapped in, and how many it has swapped out, since
/// boot.
pub(crate) fn swapped() -> Result<[u64; 2], String> {
    let stat = read(Path::new("/proc/vmstat"))?;
    let of = |name: &str| field(&stat, name).ok_or_else(|| format!("/proc/vmstat has no {name}"));
    Ok([of("pswpin")?, of("pswpout")?])
}

/// Returns the numbers of a group's youngest and oldest generation, in this order. `path` is the
/// group's path from the root group on.
pub(crate) fn generations(path: &str) -> Result<[u64; 2], String> {
    let text = read(Path::new(LRU_GEN))?;
    in_text(&text, path).ok_or_else(|| format!("{LRU_GEN} does not tell of {path}"))
}

/// Finds the numbers of a group's youngest and oldest generation in `text`, the contents of
/// [`LRU_GEN`]; `None` if the group is not there.
fn in_text(text: &str, path: &str) -> Option<[u64; 2]> {
    let mut lines = text.lines().skip_while(|line| {
        let mut words = line.split_whitespace();
        words.next() != Some("memcg") || words.nth(1) != Some(path)
    });
    lines.next()?;
    let rows = lines.take_while(|line| !line.trim_start().starts_with("memcg"));
    let seqs: Vec<u64> = rows
        .filter(|line| !line.trim_start().starts_with("node"))
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect();
    Some([*seqs.iter().max()?, *seqs.iter().min()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_of_one_group() {
        let text = "memcg     1 /\n node     0\n          0       5120          0       10\n\
                    memcg    31 /all/kept\n node     0\n          7       120      3       0 \n          \
                    8       110      4       0 \n         10        10      5       0 \n\
                    memcg    32 /all/kept/x\n node     0\n         99        10      5       0 \n";
        assert_eq!(in_text(text, "/all/kept"), Some([10, 7]));
        assert_eq!(in_text(text, "/all"), None);
    }

    #[test]
    fn fields_are_found_by_their_whole_names() {
        let text = "pgscan_direct 9\npgscan 3\n";
        assert_eq!(field(text, "pgscan"), Some(3));
        assert_eq!(field(text, "pgsca"), None);
    }
}
