//! Rights of this process: drops capabilities for a while, and reports whether the capabilities
//! apply on the host.
//!
//! Invariant: only the calling thread drops capabilities, and it has them again afterwards. Root's
//! capabilities are never dropped.

use rustix::process::getuid;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// Runs `act` while this thread does not have the capabilities `given_up`, and restores them
/// afterwards. Changes nothing for root.
pub fn without<T>(given_up: CapabilitySet, act: impl FnOnce() -> T) -> T {
    let before = match getuid().is_root() {
        true => None,
        false => capabilities(None).ok(),
    };
    if let Some(before) = before {
        let mut sets = before;
        sets.effective = sets.effective.difference(given_up);
        let _ = set_capabilities(None, sets);
    }
    let done = act();
    if let Some(before) = before {
        let _ = set_capabilities(None, before);
    }
    done
}

/// Returns `CapEff` of a `/proc/PID/status` text: the effective capabilities as a bit mask; 0 if
/// the field is missing.
#[must_use]
pub fn effective(status: &str) -> u64 {
    let field = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    field
        .and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        .unwrap_or(0)
}

/// Returns the `uid_map` of our user namespace; `None` if we are in the initial one. In any other
/// namespace our capabilities do not apply on the host.
#[must_use]
pub fn other_user_namespace() -> Option<String> {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let link = std::fs::read_link("/proc/self/ns/user").ok();
    let link = link.map(|link| link.to_string_lossy().into_owned());
    other_namespace(link.as_deref(), &map)
}

/// Returns the map, unless this is the initial namespace. `link` contains the namespace's number,
/// which is fixed for the initial one (linux/nsfs.h). If there is no link, a map of all users to
/// themselves means the initial one.
fn other_namespace(link: Option<&str>, map: &str) -> Option<String> {
    let map: Vec<&str> = map.split_ascii_whitespace().collect();
    let is_initial = match link {
        Some(link) => link == "user:[4026531837]",
        None => map == ["0", "0", "4294967295"],
    };
    (!is_initial).then(|| map.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_set_is_read() {
        assert_eq!(
            effective("Name:\tx\nCapPrm:\tff\nCapEff:\t0000000000000003\n"),
            3
        );
        assert_eq!(effective("CapEff:\tx\n"), 0);
    }

    #[test]
    fn only_the_first_user_namespace_has_its_number() {
        let whole = "         0          0 4294967295";
        assert_eq!(other_namespace(Some("user:[4026531837]"), whole), None);
        assert_eq!(other_namespace(None, whole), None);
        // Another namespace is not the initial one, even if it maps all users to themselves.
        assert!(other_namespace(Some("user:[4026532000]"), whole).is_some());
        assert_eq!(
            other_namespace(None, " 0 1000 1\n"),
            Some("0 1000 1".to_owned())
        );
        for map in ["0 100000 65536\n", "0 0 1\n1 1 4294967294\n", ""] {
            assert!(other_namespace(None, map).is_some(), "{map:?}");
        }
    }
}
