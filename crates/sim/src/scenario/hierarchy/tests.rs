//! Runs files in which tenants are below other tenants.

use crate::outcome::Cell;
use crate::scenario::tests::ended;
use crate::scenario::{parse, run};

const TREE: &str = r#"
    run = { duration = "6s", memory = "24M" }
    [[tenant]]
    name = "web"
    parent = "pod"
    count = 3
    work = [{ pattern = "uniform", size = "3M", rate = 3000 }]
    [[tenant]]
    name = "slice"
    count = 2
    memory-max = "10M"
    [[tenant]]
    name = "pod"
    parent = "slice"
    count = 2
    memory-max = "7M"
    work = [{ pattern = "loop", size = "1M", rate = 300 }]
    [[tenant]]
    name = "late"
    arrive = "1s"
    depart = "4s"
    [[tenant]]
    name = "job"
    parent = "late"
    work = [{ pattern = "scan", size = "8M", rate = 1500 }]
"#;

fn complaint(text: &str) -> String {
    match parse("test.toml", text, &[]) {
        Ok(_) => "none".to_owned(),
        Err(error) => format!("{error} -> {}", error.hint),
    }
}

#[test]
fn a_tree_of_three_levels() {
    for set in [
        "run.policy=multi-gen",
        "run.policy=active-inactive",
        "run.accessed-bits=page-tables",
    ] {
        let world = ended(TREE, &[set]);
        // There are 2 slices, 4 pods, 12 webs, and the two tenants that departed.
        assert_eq!(world.guests.len(), 20);
        for guest in &world.guests {
            let Some(id) = guest.memcg else { continue };
            let memcg = world.machine.tree().get(id);
            assert!(memcg.usage() <= memcg.limits().max.pages(), "{set}");
        }
        let of = |name: &str| {
            let named = |g: &&crate::scenario::world::Guest| {
                world.file.tenant[g.group].get_ref().name == name
            };
            world.guests.iter().filter(named).collect::<Vec<_>>()
        };
        // A slice itself touches nothing. Pages taken from the tenants below it are counted for it,
        // too.
        for slice in of("slice") {
            assert_eq!(slice.counts.touches, 0);
            assert!(slice.pgsteal > 0, "{set}");
        }
        // Departed tenants departed with their parent, and all pages that came in are accounted
        // for.
        for gone in of("late").into_iter().chain(of("job")) {
            assert!(gone.memcg.is_none());
        }
        assert!(of("job")[0].counts.came > 0);
    }
}

/// A row has the counts of the tenant and of all tenants below it, as memory.stat has, under the
/// tenant's path.
#[test]
fn results_add_up_the_tree() {
    let plans = parse("test.toml", TREE, &[]).expect("a good file");
    let outcome = run(&plans, 1, &mut |_| ());
    let rows = &outcome.tables[0].rows;
    let find = |name: &str| {
        let row = rows
            .iter()
            .find(|row| row[0] == Cell::Text(name.to_owned()));
        match row.expect("there")[1] {
            Cell::Count(touches) => touches,
            _ => panic!("touches are counted"),
        }
    };
    let [slice, pod, web] = ["slice", "slice/pod", "slice/pod/web"].map(find);
    assert_eq!(slice, pod);
    assert!(pod > web && web > 0);
    assert_eq!(find("late"), find("late/job"));
}

/// memory.min in the middle of a tree protects the memcgs below it from their siblings, but at most
/// up to its parent's memory.min.
#[test]
fn a_protected_pod_keeps_its_pages() {
    let text = r#"
        run = { duration = "20s", memory = "12M" }
        [[tenant]]
        name = "slice"
        memory-min = "6M"
        [[tenant]]
        name = "kept"
        parent = "slice"
        memory-min = "6M"
        [[tenant]]
        name = "db"
        parent = "kept"
        work = [{ pattern = "uniform", size = "5M", rate = 50 }]
        [[tenant]]
        name = "eater"
        parent = "slice"
        work = [{ pattern = "loop", size = "20M", rate = 6000 }]
    "#;
    let taken = |set: &str| ended(text, &[set]).guests[2].counts.pgsteal;
    assert_eq!(taken("run.seed=1"), 0);
    assert!(taken("tenant.slice.memory-min=0") > 500);
}

#[test]
fn invalid_trees_are_refused() {
    let work = "work = [{ pattern = \"loop\", size = \"1M\", rate = 1 }]";
    let tenant = |keys: &str| format!("[[tenant]]\n{keys}\n{work}\n");
    let named =
        |name: &str, parent: &str| tenant(&format!("name = \"{name}\"\nparent = \"{parent}\""));
    let message = complaint(&named("a", "b"));
    assert!(
        message.contains("test.toml:1: tenant `a`: there is no tenant `b`"),
        "{message}"
    );
    let message = complaint(&named("a", "a"));
    assert!(message.contains("below itself"), "{message}");
    let message = complaint(&(named("a", "b") + &named("b", "a")));
    assert!(message.contains("below itself"), "{message}");
    let deep = |levels: u32| {
        let above = (1..levels).map(|n| named(&n.to_string(), &(n - 1).to_string()));
        tenant("name = \"0\"") + &above.collect::<String>()
    };
    assert_eq!(complaint(&deep(16)), "none");
    assert!(complaint(&deep(17)).contains("too deep"));
    let message = complaint("[[tenant]]\nname = \"a\"");
    assert!(message.contains("with it as their parent"), "{message}");
    let late = tenant("name = \"a\"\narrive = \"5s\"")
        + &tenant("name = \"b\"\nparent = \"a\"\ndepart = \"5s\"");
    let message = complaint(&late);
    assert!(
        message.contains("`b`: it departs before it arrives"),
        "{message}"
    );
    let many = tenant("name = \"a\"\ncount = 1000")
        + &tenant("name = \"b\"\nparent = \"a\"\ncount = 1000");
    let message = complaint(&many);
    assert!(message.contains("1001000 tenants"), "{message}");
}
