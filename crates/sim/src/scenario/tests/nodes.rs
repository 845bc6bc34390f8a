//! Tests reclaim from one of two memory nodes.

use super::{complaint, ended};

/// Node 0 has memory that is used all the time, and memory that is used once. Node 1 has older
/// memory, used once. The file requests reclaim only from node 0, 11 MiB in all.
const TWO_NODES: &str = r#"
run = { duration = "60s", age-every = "5s" }
[[tenant]]
name = "far"
work = [{ pattern = "scan", size = "16M", rate = 4096, node = 1 }]
[[tenant]]
name = "near"
arrive = "5s"
work = [
  { pattern = "loop", size = "8M", rate = 4096 },
  { pattern = "scan", size = "16M", rate = 4096 },
]
[[reclaim]]
size = "1M"
start = "50s"
every = "1s"
node = 0
"#;

fn pgsteal_and_refaults(set: &[&str]) -> [(u64, u64); 2] {
    let world = ended(TWO_NODES, set);
    let of = |n: usize| {
        let counts = &world.guests[n].counts;
        (counts.pgsteal, counts.refaults)
    };
    [of(0), of(1)]
}

/// The requests take the cold memory of their node, for each way to choose among tenants, of a
/// kernel and of a host.
#[test]
fn only_cold_memory_of_the_node_leaves() {
    for set in [
        &[][..],
        &["run.global=iterator"],
        &["run.global=heat-level"],
        &["run.policy=multi-gen-6.3"],
        &["run.accessed-bits=page-tables"],
        &["run.reclaim=host"],
    ] {
        let [far, near] = pgsteal_and_refaults(set);
        assert_eq!(far, (0, 0), "{set:?}");
        // At each request the kernel may take a batch of 64 pages more.
        assert!((2816..=3520).contains(&near.0), "{set:?}: {near:?}");
        // The memory in use is 2048 pages.
        assert!(near.1 < 100, "{set:?}: {near:?}");
    }
    // If only node 1 is reclaimed from, the other tenant keeps everything.
    let [far, near] = pgsteal_and_refaults(&["reclaim.0.node=1"]);
    assert!(far.0 >= 2816 && near.0 == 0, "{far:?} {near:?}");
}

#[test]
fn nodes_that_cannot_exist_are_errors() {
    for (set, what) in [
        (&["tenant.near.work.0.node=8"][..], "there is no node 8"),
        (&["reclaim.0.node=9"], "there is no node 9"),
        (&["run.policy=active-inactive"], "there is no node 1"),
    ] {
        let why = complaint(TWO_NODES, set);
        assert!(why.contains(what), "{set:?}: {why}");
    }
}
