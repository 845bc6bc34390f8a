use super::*;

#[test]
fn the_memcg_lru_is_flat_and_the_iterator_linear() {
    let settings = Settings { seed: 1, scale: 1 };
    let (few, many) = (200, 2000);
    let rows = [few, many].map(|tenants| Row::new(tenants, &settings));
    let outcome = outcome(&rows);
    assert_eq!(outcome.tables[0].rows.len(), 2);
    for claim in &outcome.claims {
        assert!(claim.holds, "{claim:?} {:?}", outcome.tables);
    }
}

#[test]
fn what_is_measured_is_a_machine_in_order() {
    for global in [GlobalReclaim::MemcgLru, GlobalReclaim::Iterator] {
        let mut world = World::new(20, 3);
        let cost = world.measure(global, Caches::AsLeft, 30);
        world.check();
        // A mean of whole requests, summed in parts.
        assert!(cost.reclaimed >= number(REQUEST) - 1e-6, "{cost:?}");
        let again = World::new(20, 3).measure(global, Caches::Cleared, 30);
        assert_eq!(
            (cost.steps(), cost.reclaimed),
            (again.steps(), again.reclaimed)
        );
    }
}
