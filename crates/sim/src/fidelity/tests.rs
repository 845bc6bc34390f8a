use super::*;

fn kernel(pages: u64) -> GuestFacts {
    GuestFacts {
        kernels: vec![Pages(pages)],
        ..GuestFacts::default()
    }
}

#[test]
fn each_policy_runs_and_its_counts_agree() {
    for policy in ["multi-gen", "multi-gen-6.3", "multi-gen-6.16", "classic"] {
        let figures = run("short", policy, 1, &kernel(8)).expect("figures");
        let (one, all) = (&figures[0].counts, &figures[1].counts);
        assert_eq!(
            one["anon"] + one["pgsteal"],
            2048 + one["workingset_refault_anon"]
        );
        assert!(one["anon"] <= 1024 - 8 && one["anon"] > 900, "{policy}");
        assert_eq!(all["pswpin"], one["workingset_refault_anon"], "{policy}");
        assert!(one["pgscan"] >= one["pgsteal"]);
        assert_eq!(one.contains_key("max_seq"), policy != "classic");
    }
}

#[test]
fn the_same_seed_produces_the_same_figures() {
    let of = |seed| run("short", "multi-gen", seed, &kernel(0)).expect("figures");
    assert_eq!(of(1), of(1));
    assert_ne!(of(1)[0].counts["checksum"], of(2)[0].counts["checksum"]);
}

#[test]
fn a_tree_keeps_the_engines_invariants() {
    for policy_name in ["multi-gen", "classic"] {
        let case = cases::find("tree-low").expect("a case");
        let policy = policy(policy_name).expect("a policy");
        let late = GuestFacts {
            flushes: Some(vec![100, 1000, 2000]),
            idle_walks: Some(vec![3, 5]),
            ..GuestFacts::default()
        };
        for reported in [GuestFacts::default(), late] {
            let mut world = World::new(case, policy, 1, &reported);
            world.run().expect("room");
            world.check();
        }
    }
}

#[test]
fn unknown_names_are_errors() {
    assert!(run("none", "classic", 1, &kernel(0)).is_err());
    assert!(run("short", "none", 1, &kernel(0)).is_err());
    let why = run("short", "classic", 1, &kernel(2000)).expect_err("no room");
    assert!(why.contains("no room"), "{why}");
}

/// Without a flush, no refault is close enough to be activated: the engine works with unflushed
/// sizes of the lists, which are 0.
#[test]
fn unflushed_statistics_are_not_seen() {
    let of = |flushes| {
        let reported = GuestFacts {
            flushes,
            ..GuestFacts::default()
        };
        let figures = run("short", "classic", 1, &reported).expect("figures");
        figures[0].counts["workingset_activate_anon"]
    };
    assert_eq!(of(Some(vec![])), 0);
    let flushes = (1..10).map(|n| n * 30).collect();
    let (one, none_reported) = (of(Some(flushes)), of(None));
    assert!(one > 0 && none_reported > 0 && one != none_reported);
}

/// If the limit of a parent group evicts pages of a tenant, the tenant's clock stays. So pages that
/// the tenant's own limit evicted before are recent when they refault, and those that the parent's
/// limit evicted are not. Linux 6.12 activates the same number (docs/fidelity.md).
///
/// Regression: workingset.md 2. The tenant's clock advanced with each eviction of its pages, so 0
/// were recent.
#[test]
fn what_the_limit_above_takes_leaves_the_clock_of_a_tenant() {
    for kernels in [vec![], [60, 30, 25].map(Pages).to_vec()] {
        let reported = GuestFacts {
            kernels,
            ..GuestFacts::default()
        };
        let figures = run("two-limits", "classic", 1, &reported).expect("figures");
        let count = |name: &str| figures[0].counts[name];
        let back = 2048 + 1280 + 896 + 896;
        assert_eq!(count("workingset_refault_anon"), back);
        assert_eq!(count("workingset_activate_anon"), 896);
    }
}

/// In three runs of `moving-hot`, the guest's kernel killed the worker, out of memory, in the
/// bursts `killed`. Before that it had flushed its statistics at the bursts `flushes`
/// (docs/fidelity.md). The engine fails to reclaim at the same point, within a few bursts.
#[test]
fn a_charge_fails_where_the_kernel_killed() {
    let case = cases::find("moving-hot").expect("a case");
    let policy = policy("classic").expect("a policy");
    for (seed, flushes, killed) in [
        (1, vec![256, 1620], 2360),
        (2, vec![128, 776, 2278, 3392, 4725], 5406),
        (3, vec![285, 1442], 2363),
    ] {
        let reported = GuestFacts {
            flushes: Some(flushes),
            ..kernel(30)
        };
        let mut world = World::new(case, policy, seed, &reported);
        world.run().expect_err("no room");
        let (active, inactive) = world.lruvec(0).active_inactive(FolioType::Anon);
        assert!(active > Pages(8000) && inactive == Pages(0), "{inactive:?}");
        let bursts = world.bursts();
        assert!(bursts.abs_diff(killed) <= 8, "{bursts} beside {killed}");
    }
}
