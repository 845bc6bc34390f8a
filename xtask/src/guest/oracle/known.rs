//! Figures that are known to miss, each with the rule that explains it; docs/fidelity.md says more.

/// Of two generations in a row the second walk is skipped, unless the kernel happens to switch to somebody else in between;
/// from then on another Bloom filter is used.
const COURSE: &str = "switched between two walks";
const LATE: &str = "the kernel sees activations late";
const ALL_IN_USE: &str = "all in use, not explained";

/// Case, policy, tenant, figure (an empty text is any), and why.
const KNOWN: [(&str, &str, &str, &str, &str); 7] = [
    ("scan-hot", "multi-gen", "", "", COURSE),
    ("loop", "multi-gen", "", "pgscan", COURSE),
    ("loop", "multi-gen", "", "max_seq", COURSE),
    (
        "moving-hot",
        "classic",
        "",
        "workingset_refault_anon",
        ALL_IN_USE,
    ),
    ("moving-hot", "classic", "", "pgsteal", ALL_IN_USE),
    ("scan-hot", "classic", "", "", LATE),
    ("tree-low", "classic", "", "", LATE),
];

/// Why this figure may miss, if that is known.
pub(super) fn reason(case: &str, policy: &str, tenant: &str, figure: &str) -> Option<&'static str> {
    let fits = |wanted: &str, is: &str| wanted.is_empty() || wanted == is;
    KNOWN
        .iter()
        .find(|(c, p, t, f, _)| {
            fits(c, case) && fits(p, policy) && fits(t, tenant) && fits(f, figure)
        })
        .map(|(.., why)| *why)
}
