use super::*;

/// Runs the document's experiment at scales that take seconds, with three seeds. All scales of the
/// claims: `cargo xtask bench claims -- memcg-lru 4,16,24,32,48 1,2,3`.
#[test]
fn pressure_is_shared_and_exact() {
    let runs: Vec<(u64, u64)> = [32, 48]
        .iter()
        .flat_map(|&scale| [1, 2, 3].map(|seed| (scale, seed)))
        .collect();
    let runs = crate::parallel::map(
        &runs,
        |&(scale, seed)| {
            let design = Design::document(scale);
            let world = World::new(design, MachineConfig::default(), seed);
            (scale, seed, world.experiment(&mut |_| ()))
        },
        &mut |_| (),
    );
    for (scale, seed, run) in &runs {
        for claim in claims_of_lru(&Design::document(*scale), run.figures()) {
            assert!(claim.holds, "{scale} {seed}: {claim:?}");
        }
        assert_eq!(run.again, 0, "{scale} {seed}");
    }
}

/// Checks every invariant of the engine after every write.
#[test]
fn invariants_hold_after_every_write() {
    let mut design = Design::document(256);
    (design.memcgs, design.request) = (16, design.request / 8);
    for part in parts(&design) {
        let mut world = World::new(design, part.config, 3);
        world.run_for(60);
        for n in 0..40 {
            assert!(world.write(engine::Millis(60_000 + n * 6000)));
            world.check();
            world.run_for(6);
        }
    }
}

#[test]
fn the_same_seed_produces_the_same_outcome() {
    let settings = Settings {
        seed: 5,
        scale: 1024,
    };
    let run = |settings: &Settings| {
        let outcome = run(settings, &mut |_| ());
        assert_eq!(outcome.timings[0].rows.len(), 8, "a time for each part");
        Outcome {
            timings: Vec::new(),
            ..outcome
        }
    };
    let twice = [(); 2].map(|()| run(&settings));
    assert_eq!(twice[0], twice[1]);
    let other = Settings {
        seed: 6,
        ..settings
    };
    assert_ne!(twice[0].tables, run(&other).tables);
}

/// Reclaim of the root does not depend on levels: in a tree it takes as much from each memcg as
/// without. What was taken from a memcg is also counted for all groups above it.
#[test]
fn reclaim_in_a_tree_is_as_fair() {
    let design = Design::document(48).in_tree();
    let world = World::new(design, MachineConfig::default(), 1);
    let run = world.experiment(&mut |_| ());
    for claim in claims_of_lru(&design, run.figures()) {
        assert!(claim.holds, "{claim:?}");
    }
}
