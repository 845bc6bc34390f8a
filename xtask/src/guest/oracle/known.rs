//! Figures that are known to miss, each with the rule that explains it; docs/fidelity.md says more.

/// Case, policy, tenant, figure (an empty text is any), and why.
const KNOWN: [(&str, &str, &str, &str, &str); 0] = [];

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
