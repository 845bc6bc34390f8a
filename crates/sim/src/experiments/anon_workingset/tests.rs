//! Tests a few of the rows, at a scale at which a chunk has only one or two pages.

use super::*;

fn cells(wanted: &[(u32, u32, f64)], scale: u64, seeds: u64) -> Vec<RowRuns> {
    let is_wanted = |row: &Row| {
        wanted
            .iter()
            .any(|&(t, m, a)| (row.threads, row.mib) == (t, m) && (row.alpha - a).abs() < 0.01)
    };
    let rows: Vec<Row> = document::ebizzy().filter(is_wanted).collect();
    let settings = Settings { seed: 1, scale };
    run_rows(&rows, &settings, seeds, &mut |_| {})
}

#[test]
fn hot_memory_is_protected_and_detected() {
    let wanted = [
        (1, 1536, 0.7),
        (8, 1280, 0.7),
        (1, 1280, 1.3),
        (8, 2048, 1.3),
    ];
    let cells = cells(&wanted, 64, 1);
    assert_eq!(cells.len(), 4);
    for cell in &cells {
        assert!(cell.sign_agrees(1) && cell.sign_agrees(2), "{cell:?}");
    }
    assert!(table::claims(&cells).iter().all(|claim| claim.holds));
    let table = table::table(&cells, 64);
    assert_eq!(table.rows.len(), 4 * 6);
    assert!(!table::notes(&cells).is_empty());
}

#[test]
fn the_same_seed_produces_the_same_cells() {
    let run = || cells(&[(8, 1024, 1.3)], 128, 2).remove(0).runs;
    let first = run();
    assert_eq!(first, run());
    assert_ne!(first[0], first[1], "seeds differ");
}

#[test]
fn the_claims_of_the_scenario_hold() {
    let outcome = scenario::outcome(16);
    assert_eq!(outcome.tables[0].rows.len(), kernel::Kernel::ALL.len());
    let claims = outcome.claims;
    assert!(claims.iter().all(|claim| claim.holds), "{claims:?}");
}
