//! Tests accessed bits after faults, and advice: both implementations of memory must behave the
//! same.

use super::{World, plans};
use crate::vma::{Fadvice, OpenFileId};
use engine::word::Flag;

fn run(text: &str, set: &[&str], mut each: impl FnMut(&mut World)) -> World {
    let mut world = World::new(&plans(text, set).runs[0]);
    while !world.is_over() {
        each(&mut world);
        world.step();
        world.check().expect("all oracles agree");
    }
    world
}

const KINDS: [&[&str]; 2] = [
    &["run.accessed-bits=engine"],
    &["run.accessed-bits=page-tables", "run.look-around=false"],
];

/// A stream of 60,000 pages through memory for 10,000.
const STREAM: &str = r#"
    run = { duration = "6s", policy = "active-inactive" }
    [[tenant]]
    name = "stream"
    memory-max = 40960000
    work = [{ pattern = "scan", size = 245760000, rate = 10000, memory = "file" }]
"#;

fn stream(set: &[&str]) -> World {
    let mut world = World::new(&plans(STREAM, set).runs[0]);
    while !world.is_over() {
        world.step();
    }
    world.check().expect("all oracles agree");
    world
}

/// Returns the numbers of pages scanned and taken.
fn scans(world: &World) -> (u64, u64) {
    let id = world.guests[0].memcg.expect("there");
    let stat = world.machine.lruvec(id).stat();
    (stat.pgscan(), stat.pgsteal())
}

/// Regression: a streamed page was evicted at the first scan, because the access that had faulted
/// set no accessed bit. Only 50,001 pages were scanned, though each of 50,000 pages must be scanned
/// twice before it is evicted.
#[test]
fn a_fault_sets_the_accessed_bit() {
    let (scanned, taken) = scans(&stream(&[]));
    assert!(
        scanned >= 2 * taken && taken >= 50_000,
        "{scanned} for {taken}"
    );
    // A page that is read through a descriptor has no page-table entry in which a bit could be set.
    let (scanned, taken) = scans(&stream(&["tenant.stream.work.0.access=descriptor"]));
    assert!(scanned <= taken + 1, "{scanned} for {taken}");
}

/// The same with the multi-gen LRU, for both implementations of memory: its walks find the faulted
/// pages.
#[test]
fn walks_find_faulted_pages() {
    for set in KINDS {
        let set = [set, &["run.policy=multi-gen"]].concat();
        let world = stream(&set);
        let id = world.guests[0].memcg.expect("there");
        let folios = world.machine.lruvec(id).folios();
        let pages = (0..60_000).map(|page| folios.get(engine::FolioId(page)));
        let known = pages.filter(|word| word.is_present() && word.has(Flag::Referenced));
        assert!(known.count() > 1000, "{set:?}");
    }
}

/// Regression: advice of a running program had no effect with the engine's own table, because
/// whether accesses count was decided at the first fault.
#[test]
fn advice_takes_effect_at_once_in_both_kinds_of_memory() {
    let text = r#"
        run = { duration = "20s", age-every = "500ms" }
        [[tenant]]
        name = "reader"
        memory-max = "8M"
        work = [
          { pattern = "loop", size = "4M", rate = 4000, memory = "file" },
          { pattern = "scan", size = "40M", rate = 500, memory = "file" },
        ]
    "#;
    let counts = |set: &[&str], advised: bool| {
        let world = run(text, set, |world| {
            if world.now == 10_000 && advised {
                let id = world.guests[0].memcg.expect("there");
                let map = &mut world.spaces.of(id).map;
                map.fadvise(OpenFileId(0), Fadvice::NoReuse);
            }
        });
        world.guests[0].counts
    };
    let never = KINDS.map(|set| counts(set, false));
    let advised = KINDS.map(|set| counts(set, true));
    assert_eq!(never[0], never[1]);
    assert_eq!(advised[0], advised[1]);
    // There are not more refaults, because a page that refaulted often enough is protected by its
    // tier.
    assert!(
        never[0].refaults == 0 && advised[0].refaults >= 64,
        "{advised:?} {never:?}"
    );
}
