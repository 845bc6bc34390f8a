//! Known differences, each with the rule that explains it; docs/fidelity.md says more.

/// A known difference: case, policy, tenant, figure (an empty text means any), and the reason.
type Miss = [&'static str; 5];

/// There are none at present.
const KNOWN: &[Miss] = &[];

/// Returns why this figure may differ, if that is known.
pub(super) fn reason(case: &str, policy: &str, tenant: &str, figure: &str) -> Option<&'static str> {
    among(KNOWN, [case, policy, tenant, figure])
}

fn among(known: &[Miss], [case, policy, tenant, figure]: [&str; 4]) -> Option<&'static str> {
    let fits = |wanted: &str, is: &str| wanted.is_empty() || wanted == is;
    known
        .iter()
        .find(|[c, p, t, f, _]| {
            fits(c, case) && fits(p, policy) && fits(t, tenant) && fits(f, figure)
        })
        .map(|[.., why]| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_text_is_any() {
        let known = [["loop", "classic", "", "pgscan", "why"]];
        let of = |key| among(&known, key);
        assert_eq!(of(["loop", "classic", "one", "pgscan"]), Some("why"));
        assert_eq!(of(["loop", "classic", "one", "pgsteal"]), None);
        assert_eq!(of(["uniform", "classic", "one", "pgscan"]), None);
    }
}
