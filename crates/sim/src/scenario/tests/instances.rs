//! Tests the tables of the instances of a tenant.

use super::*;
use crate::outcome::{Cell, Outcome, Table};

fn table<'a>(outcome: &'a Outcome, title: &str) -> Option<&'a Table> {
    outcome.tables.iter().find(|table| table.title == title)
}

fn column(table: &Table, name: &str) -> Vec<Cell> {
    let at = table.columns.iter().position(|column| column == name);
    let at = at.unwrap_or_else(|| panic!("no column {name}"));
    table.rows.iter().map(|row| row[at].clone()).collect()
}

fn count(cell: &Cell) -> u64 {
    match cell {
        Cell::Count(count) => *count,
        other => panic!("{other:?} is no count"),
    }
}

const SHARES: &str = "Pgsteal over the instances of a tenant";

/// The counts of a tenant's instances sum to the tenant's, and differ from each other.
#[test]
fn each_instance_has_a_row() {
    let outcome = run(&plans(MIXED, &["tenant.zipf.count=3"]), 1, &mut |_| ());
    let each = table(&outcome, "Instances").expect("a table");
    let names = column(each, "tenant");
    assert_eq!(
        names,
        vec![Cell::Text("zipf".to_owned()); 3],
        "one has a row if it has a count"
    );
    assert_eq!(column(each, "instance"), [1, 2, 3].map(Cell::Count));
    let tenants = table(&outcome, "Tenants").expect("a table");
    for name in ["touches", "misses", "refaults (pages)", "pgsteal (pages)"] {
        let sum: u64 = column(each, name).iter().map(count).sum();
        assert_eq!(sum, count(&column(tenants, name)[1]), "{name}");
    }
    let pgsteal: Vec<u64> = column(each, "pgsteal (pages)").iter().map(count).collect();
    let shares = table(&outcome, SHARES).expect("a table");
    assert_eq!(column(shares, "instances"), [Cell::Count(3)]);
    let [least, most] = [pgsteal.iter().min(), pgsteal.iter().max()];
    let figure = |pages: Option<&u64>| Cell::Figure(*pages.expect("three") as f64);
    assert_eq!(column(shares, "pgsteal, least (pages)"), [figure(least)]);
    assert_eq!(column(shares, "most (pages)"), [figure(most)]);
    assert!(least < most, "{pgsteal:?}");
}

/// If a tenant's instances are below several instances of another tenant, all of them are counted.
#[test]
fn instances_of_a_tree_are_counted() {
    let text = r#"
        run = { duration = "1s" }
        [[tenant]]
        name = "parent"
        count = 2
        [[tenant]]
        name = "child"
        parent = "parent"
        work = [{ pattern = "scan", size = "1M", rate = 100 }]
    "#;
    let outcome = run(&plans(text, &[]), 1, &mut |_| ());
    let shares = table(&outcome, SHARES).expect("a table");
    let text = |name: &str| Cell::Text(name.to_owned());
    assert_eq!(
        column(shares, "tenant"),
        [text("parent"), text("parent/child")]
    );
    // No page was taken, and 0 of 0 is no share.
    assert_eq!(
        column(shares, "stddev/mean (%)"),
        [Cell::Empty, Cell::Empty]
    );
}

#[test]
fn tenants_without_a_count_have_no_table() {
    let outcome = run(
        &plans(MIXED, &["tenant.zipf.count=1", "run.duration=1s"]),
        1,
        &mut |_| (),
    );
    assert!(table(&outcome, SHARES).is_none() && table(&outcome, "Instances").is_none());
}

/// In a sweep each run has rows of its own, with the swept value.
#[test]
fn a_sweep_has_the_rows_of_each_run() {
    let sweep = format!("{MIXED}\n[sweep]\n\"tenant.zipf.count\" = [1, 2, 3]\n");
    let outcome = run(&plans(&sweep, &["run.duration=2s"]), 1, &mut |_| ());
    let each = table(&outcome, "Instances").expect("a table");
    assert_eq!(
        column(each, "tenant.zipf.count"),
        [2, 2, 3, 3, 3].map(Cell::Count)
    );
    let shares = table(&outcome, SHARES).expect("a table");
    assert_eq!(column(shares, "instances"), [2, 3].map(Cell::Count));
}
