use super::*;

/// The document's experiment at 1/16 of its size: as exact, and nearly as fair. Since faults leave accessed bits,
/// the claim of 5% does not hold at just this size (5.20% by this seed, 5.44% by another); at 1/8 it is 3.35%, at
/// 1/24 3.63%.
#[test]
fn pressure_is_shared_and_exact() {
    let design = Design::document(16);
    let world = World::new(design, Policy::default(), GlobalReclaim::MemcgLru, 1);
    let run = world.experiment(&mut |_| ());
    let figures = run.figures();
    assert!(figures.spread <= 6.0, "{figures:?}");
    assert!((99.0..=101.0).contains(&figures.taken), "{figures:?}");
    assert_eq!(run.again, 0);
}

/// With every invariant asserted after every write.
#[test]
fn invariants_hold_all_along() {
    for global in [GlobalReclaim::MemcgLru, GlobalReclaim::Iterator] {
        let mut design = Design::document(256);
        (design.memcgs, design.request) = (16, design.request / 8);
        let mut world = World::new(design, Policy::default(), global, 3);
        world.run_for(60);
        for n in 0..40 {
            assert!(world.write(engine::Millis(60_000 + n * 6000)));
            world.check();
            world.run_for(6);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let settings = Settings {
        seed: 5,
        scale: 1024,
    };
    let run = |settings: &Settings| {
        let outcome = run(settings, &mut |_| ());
        assert_eq!(outcome.timings[0].rows.len(), 2, "a time for each half");
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
