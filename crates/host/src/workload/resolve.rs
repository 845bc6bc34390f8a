//! Finds the workloads that a user means by a name.
//!
//! Invariant: pure. If a name has several meanings, the candidates are returned, and none is
//! chosen. Each candidate is a name with fewer meanings. A match with a whole name takes precedence
//! over a match with the beginning of an id.

use std::collections::{BTreeMap, BTreeSet};

use super::{By, Workload};

/// Minimum number of digits of a container's id that a user must give.
const ID_MIN: usize = 4;
/// Maximum number of similar names that are suggested.
const NEAREST_MAX: usize = 5;
/// Maximum length in bytes of a name for which similar names are suggested.
const COMPARED_MAX: usize = 256;
/// Minimum similarity of a suggested name, from 0 to 1 (Jaro and Winkler).
const SIMILARITY_MIN: f64 = 0.8;

/// Result of resolving a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolved<'a> {
    /// The name has one meaning: a unit, container, pod, user, process or group. Contains its
    /// workloads, at least one, in the order of the input.
    Found(Vec<&'a Workload>),
    /// The name has no meaning. Contains the most similar names, the most similar first; may be
    /// empty.
    NotFound(Vec<String>),
    /// The name has several meanings. Contains, for each meaning, a name that [`resolve`] accepts.
    Ambiguous(Vec<String>),
}

/// The workloads of each possible meaning of a name. The key is a name that has only this meaning.
type Meanings<'a> = BTreeMap<String, Vec<&'a Workload>>;

/// Returns the workloads that `name` means. `name` may be a pid (also `pid:7`), a unit with or
/// without `.service` or `.scope`, a container's name, id, or beginning of its id (at least 4
/// digits), a pod's name or uid, `NAMESPACE/POD`, `NAMESPACE/POD/CONTAINER`, `user:1000`, a control
/// group's path (with everything below it), or a [`Workload::key`].
#[must_use]
pub fn resolve<'a>(name: &str, workloads: &'a [Workload]) -> Resolved<'a> {
    let repeated_ids = repeated_ids(workloads);
    let mut whole = meanings(workloads, |workload| {
        names_of(workload, name, &repeated_ids)
    });
    // A candidate that was returned earlier must resolve to itself: for example the system's unit,
    // even if a user has a unit of the same name.
    if let Some(exact) = whole.remove(name) {
        return Resolved::Found(exact);
    }
    let meanings = match whole.is_empty() {
        true => meanings(workloads, |workload| id_of(workload, name, &repeated_ids)),
        false => whole,
    };
    let mut several: Vec<String> = meanings.keys().cloned().collect();
    let mut sets: Vec<Vec<&Workload>> = meanings.into_values().collect();
    sets.dedup();
    match sets.len() {
        0 => Resolved::NotFound(nearest(name, workloads)),
        1 => Resolved::Found(sets.remove(0)),
        _ => {
            several.dedup();
            Resolved::Ambiguous(several)
        }
    }
}

/// Returns the workloads by meaning. `of` returns the meanings that the name has for one workload.
fn meanings(workloads: &[Workload], of: impl Fn(&Workload) -> Vec<String>) -> Meanings<'_> {
    let mut found = Meanings::new();
    for workload in workloads {
        for meaning in of(workload) {
            let members = found.entry(meaning).or_default();
            if members.last() != Some(&workload) {
                members.push(workload);
            }
        }
    }
    found
}

/// Returns the container ids that occur in several groups. A container has one group, but a service
/// can make a group whose name contains the id of another container.
fn repeated_ids(workloads: &[Workload]) -> BTreeSet<&str> {
    let mut seen = BTreeSet::new();
    let ids = workloads
        .iter()
        .filter_map(|workload| workload.container_id.as_deref());
    ids.filter(|id| !seen.insert(*id)).collect()
}

/// Returns a name that means only this container: `key`, or the path of its group if its id is in
/// `repeated_ids`.
fn one_container(workload: &Workload, key: String, repeated_ids: &BTreeSet<&str>) -> String {
    let is_repeated = workload
        .container_id
        .as_deref()
        .is_some_and(|id| repeated_ids.contains(id));
    if is_repeated {
        workload.group.clone()
    } else {
        key
    }
}

/// Returns a name for each meaning that `name` has for this workload; each returned name has only
/// that meaning.
fn names_of(workload: &Workload, name: &str, repeated_ids: &BTreeSet<&str>) -> Vec<String> {
    let mut found = Vec::new();
    let is_name = |part: &Option<String>| part.as_deref() == Some(name);
    if is_group(workload, name) {
        found.push(name.to_owned());
    }
    let pid = name.strip_prefix("pid:").unwrap_or(name);
    if pid
        .parse()
        .is_ok_and(|pid| workload.pids.binary_search(&pid).is_ok())
    {
        found.push(format!("pid:{pid}"));
    }
    if let Some(user) = workload.user.filter(|user| name == format!("user:{user}")) {
        found.push(format!("user:{user}"));
    }
    if let Some(key) = workload.unit_key() {
        let is_short = |unit: &Option<String>| {
            let ends = [".service", ".scope"];
            let unit = unit.as_deref().unwrap_or_default();
            ends.iter().any(|end| unit.strip_suffix(end) == Some(name))
        };
        let (unit, id) = (&workload.unit, &workload.unit_id);
        if key == name || is_name(unit) || is_name(id) || is_short(unit) || is_short(id) {
            found.push(key);
        }
    }
    if let Some(key) = workload.container_key()
        && (key == name || is_name(&workload.container) || is_name(&workload.container_id))
    {
        found.push(one_container(workload, key, repeated_ids));
    }
    if let Some(key) = workload.pod_key() {
        let by_uid = workload.pod_uid.as_deref() == Some(name.strip_prefix("pod:").unwrap_or(name));
        if key == name || is_name(&workload.pod) || by_uid {
            found.push(key);
        }
    }
    found
}

/// Returns whether `name` is the path of a workload's group or of a group above it.
fn is_group(workload: &Workload, name: &str) -> bool {
    if !name.starts_with('/') {
        return false;
    }
    let rest = workload.group.strip_prefix(name.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns a name of the workload's container if `name` is the container's id or the beginning of
/// it; otherwise an empty list.
fn id_of(workload: &Workload, name: &str, repeated_ids: &BTreeSet<&str>) -> Vec<String> {
    let begins = |id: &&String| id.starts_with(&name.to_ascii_lowercase());
    match workload.container_id.as_ref().filter(begins) {
        Some(id) if name.len() >= ID_MIN => vec![one_container(workload, id.clone(), repeated_ids)],
        _ => Vec::new(),
    }
}

/// Returns the names that are most similar to `name`, the most similar first.
fn nearest(name: &str, workloads: &[Workload]) -> Vec<String> {
    if name.len() > COMPARED_MAX {
        return Vec::new();
    }
    let short = |unit: &str| {
        let unit = unit
            .strip_suffix(".service")
            .or_else(|| unit.strip_suffix(".scope"));
        unit.unwrap_or_default().to_owned()
    };
    let mut best: BTreeMap<String, f64> = BTreeMap::new();
    for workload in workloads {
        let unit = workload.unit.as_deref().map(|unit| (By::Unit, short(unit)));
        let pod = workload.pod.clone().map(|pod| (By::Pod, pod));
        let container = workload.container.clone().map(|name| (By::Container, name));
        for (by, part) in [unit, pod, container].into_iter().flatten() {
            let key = workload.key(by);
            if part.len() > COMPARED_MAX {
                continue;
            }
            let (typed, part) = (name.to_lowercase(), part.to_lowercase());
            let is_part = typed.len() >= 3 && part.contains(&typed);
            let by_key = strsim::jaro_winkler(&typed, &key.to_lowercase());
            let similarity = strsim::jaro_winkler(&typed, &part).max(by_key);
            let similarity = if is_part {
                similarity.max(0.9)
            } else {
                similarity
            };
            let known = best.entry(key).or_default();
            *known = known.max(similarity);
        }
    }
    let mut best: Vec<(String, f64)> = best
        .into_iter()
        .filter(|(_, similarity)| *similarity >= SIMILARITY_MIN)
        .collect();
    best.sort_by(|a, b| b.1.total_cmp(&a.1));
    best.into_iter()
        .take(NEAREST_MAX)
        .map(|(key, _)| key)
        .collect()
}
