//! Rule: which crate may depend on which. The engine depends on no other crate; the simulator and
//! the host never depend on each other.

use super::metadata::{Edge, Metadata};

/// Each crate of the workspace, with the crates of the workspace on which it may depend.
const ARROWS: [(&str, &[&str]); 14] = [
    ("engine", &[]),
    ("sys", &[]),
    ("pagetables", &["sys"]),
    ("fuzz", &[]),
    ("event-log", &["fuzz"]),
    ("host", &["engine", "event-log", "pagetables", "sys"]),
    ("touches", &[]),
    (
        "sim",
        &["engine", "event-log", "fuzz", "pictures", "touches"],
    ),
    ("pictures", &["engine"]),
    ("daemon", &["engine", "fuzz", "host", "pictures"]),
    ("cli", &["host", "daemon", "pictures", "sim"]),
    ("python", &["cli"]),
    ("xtask", &["touches"]),
    ("e2e", &[]),
];

pub(super) fn problems(metadata: &Metadata) -> Vec<String> {
    let mut found = Vec::new();
    let allowed = |name: &str| {
        ARROWS
            .iter()
            .find(|arrow| arrow.0 == name)
            .map(|arrow| arrow.1)
    };
    for name in &metadata.crates {
        if allowed(name).is_none() {
            found.push(format!(
                "crate {name}: has no line in the table of arrows; give it one in {}",
                file!()
            ));
        }
    }
    // A crate may depend on itself: its tests need it with one of its features.
    let others = |edge: &&Edge| edge.is_ours && edge.from != edge.to;
    for edge in metadata.edges.iter().filter(others) {
        if allowed(&edge.from).is_some_and(|to| !to.contains(&edge.to.as_str())) {
            found.push(format!(
                "crate {}: may not depend on {} (ARCHITECTURE.md, crates)",
                edge.from, edge.to
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::metadata::Edge;
    use super::*;

    fn with_edge(from: &str, to: &str, is_normal: bool) -> Metadata {
        let edge = Edge {
            from: from.into(),
            to: to.into(),
            is_ours: true,
            is_normal,
        };
        Metadata {
            crates: [from.to_owned()].into(),
            edges: vec![edge],
            roots: vec![],
        }
    }

    #[test]
    fn a_wrong_arrow_is_found_also_in_tests() {
        assert_eq!(problems(&with_edge("engine", "host", true)).len(), 1);
        assert_eq!(problems(&with_edge("engine", "sim", false)).len(), 1);
        assert_eq!(problems(&with_edge("sim", "host", true)).len(), 1);
    }

    #[test]
    fn a_right_arrow_is_not() {
        assert!(problems(&with_edge("host", "engine", true)).is_empty());
    }

    #[test]
    fn an_unknown_crate_is_found() {
        let crates = ["newcomer".to_owned()].into();
        assert_eq!(
            problems(&Metadata {
                crates,
                ..Metadata::default()
            })
            .len(),
            1
        );
    }
}
