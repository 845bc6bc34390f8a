//! All workloads. Their sizes are chosen so that a run takes seconds on an emulated processor, has
//! thousands of refaults, and has limits that are large against reclaim batches of 64 pages.

use crate::case::{Case, Group, NO_LIMIT, Part, Pattern, Tenant};

/// Limit (memory.max) of most cases, pages: 32 MiB.
const MAX: u32 = 8192;
/// Number of pages that the tenant of most cases touches: 59 MiB. It is not exactly twice the
/// limit: otherwise the first writes would end together with a generation, and a few pages more or
/// less would change all later results.
const PAGES: u32 = 15_000;

/// Makes a [`Group`]: name, index of the parent, memory.max and memory.low in pages.
const fn group(name: &'static str, parent: Option<usize>, max: u32, low: u32) -> Group {
    Group {
        name,
        parent,
        max,
        low,
    }
}

/// Makes a [`Tenant`]: index of the group, number of pages, pattern, number of touches.
const fn tenant(group: usize, pages: u32, pattern: Pattern, touches: u64) -> Tenant {
    Tenant {
        group,
        pages,
        pattern,
        touches,
    }
}

/// Makes a [`Case`] whose tenants take turns of [`crate::turns::SLICE`] touches.
const fn case(name: &'static str, groups: &'static [Group], tenants: &'static [Tenant]) -> Case {
    Case {
        name,
        groups,
        tenants,
        turns: &[],
    }
}

/// A single group with the limit [`MAX`].
const ONE: &[Group] = &[group("one", None, MAX, 0)];

/// Limits at two levels. The case tests which clock an eviction advances (docs/fidelity.md): that
/// of the tenant, or that of the group whose limit caused it. The turns:
///
/// 1. Tenant `limited` writes more pages than its own limit allows. It uses 2048 pages again, which
///    become active, and goes on until its own limit has evicted about 1300 other pages.
/// 2. Tenant `beside` grows, until the limit of `pod`, the parent of both, has evicted thousands of
///    pages of `limited`.
/// 3. `limited` touches 896 of the pages that its own limit evicted last. Then it touches 896 of
///    the pages that the limit of `pod` evicted first.
const TWO_LIMITS: Case = Case {
    name: "two-limits",
    groups: &[
        group("pod", None, 20_480, 0),
        group("limited", Some(0), 16_384, 0),
        group("beside", Some(0), NO_LIMIT, 0),
    ],
    tenants: &[
        tenant(1, 18_432, Pattern::Parts(RETURNING), 7168),
        tenant(2, 16_384, Pattern::Loop, 0),
    ],
    turns: &[(0, 18_432 + 5376), (1, 16_384), (0, 1792)],
};

/// What tenant `limited` of [`TWO_LIMITS`] touches after its first writes.
const RETURNING: &[Part] = &[
    // These pages are in memory. Reclaim has checked each of them once, and makes them active at
    // the next check.
    part(4096, 2048),
    // These pages are evicted. Each refault evicts another page, so reclaim comes closer to the
    // 2048 pages above, and then passes them.
    part(0, 2048),
    part(2304, 1280),
    // Evicted by the tenant's own limit, after the pages at the top of the list had become active.
    part(6272, 896),
    // Evicted by the limit of the group `pod`.
    part(8192, 896),
];

/// Makes a [`Part`].
const fn part(first: u32, pages: u32) -> Part {
    Part { first, pages }
}

/// All cases except [`WATCH`].
pub const ALL: &[Case] = &[
    case(
        "uniform",
        ONE,
        &[tenant(0, PAGES, Pattern::Uniform, 131_072)],
    ),
    case(
        "zipf-0.7",
        ONE,
        &[tenant(0, PAGES, Pattern::Zipf(0.7), 196_608)],
    ),
    case(
        "zipf-1.2",
        &[group("one", None, MAX / 2, 0)],
        &[tenant(0, PAGES, Pattern::Zipf(1.2), 786_432)],
    ),
    case(
        "scan-hot",
        ONE,
        &[tenant(0, PAGES, Pattern::ScanHot { hot: 3072 }, 196_608)],
    ),
    case("loop", ONE, &[tenant(0, 12_288, Pattern::Loop, 98_304)]),
    case(
        "moving-hot",
        ONE,
        &[tenant(
            0,
            PAGES,
            Pattern::MovingHot {
                hot: 4096,
                every: 65_536,
            },
            393_216,
        )],
    ),
    case(
        "two-tenants",
        &[
            group("both", None, MAX, 0),
            group("skewed", Some(0), NO_LIMIT, 0),
            group("even", Some(0), NO_LIMIT, 0),
        ],
        &[
            tenant(1, 8192, Pattern::Zipf(0.7), 98_304),
            tenant(2, 8192, Pattern::Uniform, 98_304),
        ],
    ),
    case(
        "tree-low",
        &[
            group("all", None, MAX, 0),
            group("inner", Some(0), NO_LIMIT, 4096),
            group("kept", Some(1), NO_LIMIT, 3072),
            group("beside", Some(1), NO_LIMIT, 0),
            group("other", Some(0), NO_LIMIT, 0),
        ],
        &[
            tenant(2, 4096, Pattern::Uniform, 65_536),
            tenant(3, 4096, Pattern::Uniform, 65_536),
            tenant(4, 8192, Pattern::Uniform, 65_536),
        ],
    ),
    TWO_LIMITS,
    case(
        "short",
        &[group("one", None, 1024, 0)],
        &[tenant(0, 2048, Pattern::Uniform, 16_384)],
    ),
];

/// An auxiliary case, not in [`ALL`]: its group serves to notice when the kernel flushes its
/// statistics (the module `watch` of the program).
pub const WATCH: Case = case(
    "watch",
    &[group("watch", None, NO_LIMIT, 0)],
    &[tenant(0, 4096, Pattern::Loop, 0)],
);

/// Returns the case in [`ALL`] with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Case> {
    ALL.iter().find(|case| case.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_first_and_tenants_are_in_leaf_groups_only() {
        for case in ALL {
            for (at, group) in case.groups.iter().enumerate() {
                assert!(group.parent.is_none_or(|parent| parent < at));
                assert_eq!(group.parent.is_none(), at == 0, "{}", case.name);
            }
            let mut groups: Vec<usize> = case.tenants.iter().map(|tenant| tenant.group).collect();
            assert!(groups.iter().all(|group| !case.is_inner(*group)));
            groups.dedup();
            assert_eq!(groups.len(), case.tenants.len(), "{}", case.name);
        }
    }

    #[test]
    fn names_and_paths() {
        let tree = find("tree-low").expect("a case");
        assert_eq!(tree.path(2), "all/inner/kept");
        assert_eq!(tree.tenant_name(1), "beside");
        assert!(tree.is_inner(1) && !tree.is_inner(4));
        assert!(find("none").is_none());
    }
}
