use super::*;

#[test]
fn each_policy_runs_and_its_counts_agree() {
    for policy in ["multi-gen", "multi-gen-6.3", "multi-gen-6.16", "classic"] {
        let figures = run("short", policy, 1, Pages(8)).expect("figures");
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
fn a_seed_is_a_run() {
    let of = |seed| run("short", "multi-gen", seed, Pages(0)).expect("figures");
    assert_eq!(of(1), of(1));
    assert_ne!(of(1)[0].counts["checksum"], of(2)[0].counts["checksum"]);
}

#[test]
fn a_tree_keeps_the_engines_invariants() {
    for policy_name in ["multi-gen", "classic"] {
        let case = cases::find("tree-low").expect("a case");
        let policy = policy(policy_name).expect("a policy");
        let mut world = World::new(case, policy, 1, Pages(0));
        world.run().expect("room");
        world.check();
    }
}

#[test]
fn what_there_is_not_is_said() {
    assert!(run("none", "classic", 1, Pages(0)).is_err());
    assert!(run("short", "none", 1, Pages(0)).is_err());
    let why = run("short", "classic", 1, Pages(2000)).expect_err("no room");
    assert!(why.contains("no room"), "{why}");
}
