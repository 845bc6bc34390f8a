//! Tests tenants with a policy.

use super::{complaint, ended, plans};
use crate::scenario::world::World;

/// Half of the first tenant's memory is loaded and never used again.
const FILE: &str = r#"
[run]
duration = "10m"
step = "1s"
age-every = "5s"
[[tenant]]
name = "db"
policy = { by = "cold-age", older-than = "30s", every = "10s" }
work = [
  { pattern = "scan", size = "4M", rate = 512, stop = "5s" },
  { pattern = "loop", size = "4M", rate = 200 },
]
[[tenant]]
name = "plain"
work = [{ pattern = "loop", size = "2M", rate = 100 }]
"#;

fn run(set: &[&str]) -> World {
    ended(FILE, set)
}

#[test]
fn only_pages_that_a_policy_orders_are_evicted() {
    for bits in ["engine", "page-tables"] {
        let world = run(&[&format!("run.accessed-bits={bits}")]);
        let [db, plain] = [0, 1].map(|n| world.guests[n].counts);
        assert_eq!(
            (db.resident, db.evicted, db.refaults),
            (1024, 1024, 0),
            "{bits}"
        );
        assert_eq!((plain.resident, plain.evicted), (512, 0));
    }
}

#[test]
fn every_policy_finds_the_half_that_is_never_used() {
    for policy in [
        "{ by = \"promotion-rate\", min-age = \"20s\", warm-up = \"1m\" }",
        "{ by = \"fit\", warm-up = \"1m\" }",
        "{ by = \"pressure\", floor = 0, probe = \"5%\" }",
    ] {
        let world = run(&[&format!("tenant.db.policy={policy}")]);
        let db = world.guests[0].counts;
        assert!((1000..=1050).contains(&db.resident), "{policy}: {db:?}");
    }
}

#[test]
fn a_policy_can_be_swept_and_departs_with_its_tenant() {
    let sweep = format!("{FILE}[sweep]\n\"tenant.db.policy.older-than\" = [\"30s\", \"1h\"]\n");
    let plans_of_sweep = plans(&sweep, &[]);
    let counts = plans_of_sweep.runs.iter().map(|plan| {
        let mut world = World::new(plan);
        while !world.is_over() {
            world.step();
        }
        world.guests[0].counts.evicted
    });
    assert_eq!(counts.collect::<Vec<u64>>(), [1024, 0]);
    let world = run(&["tenant.db.depart=5m"]);
    assert_eq!(world.guests[0].counts.resident, 0);
}

#[test]
fn impossible_settings_are_reported_with_their_line() {
    for (set, reported) in [
        ("tenant.db.policy={ by = \"fitt\" }", "fitt"),
        ("tenant.db.policy={ by = \"fit\", rat = \"1%\" }", "rate"),
        ("tenant.db.policy={ rate = \"1%\" }", "`by`"),
        ("run.policy=active-inactive", "knows no ages"),
    ] {
        let complaint = complaint(FILE, &[set]);
        assert!(complaint.contains(reported), "{set}: {complaint}");
    }
    let without = FILE.replace("age-every = \"5s\"\n", "");
    let complaint = complaint(&without, &[]);
    assert!(
        complaint.contains("test.toml:5: tenant `db`"),
        "{complaint}"
    );
    assert!(complaint.contains("age-every"), "{complaint}");
}
