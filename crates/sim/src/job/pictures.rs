//! Draws the pictures of an experiment file's results from their tables.
//!
//! Invariant: there is a picture of each table over time, of each sweep over one key, and of the
//! misses of all tenants if their bars can be distinguished.

use crate::outcome::{Cell, Kind, Picture, Series, Table};
use crate::scenario::Plans;
use crate::stats::number;

/// Maximum number of bars in a picture.
const BARS_MAX: usize = 24;

/// Returns the pictures of `tables`, which are the results of `plans`.
pub(super) fn pictures(plans: &Plans, tables: &[Table]) -> Vec<Picture> {
    let curves = tables.iter().filter_map(|table| curve(plans, table));
    let swept = plans.runs.first().map_or(0, |plan| plan.values.len());
    let bars = tables.iter().filter_map(|table| missed(table, swept));
    curves.chain(bars).collect()
}

fn curve(plans: &Plans, table: &Table) -> Option<Picture> {
    let picture = |title, unit| Picture::of_columns(title, table, unit);
    match table.title.as_str() {
        "Resident by time" => Some(Picture {
            y: "resident memory (MiB)".to_owned(),
            ..picture("How much memory has each tenant?", "MiB")?
        }),
        "Misses by time" => picture("When does each tenant miss?", "misses a second"),
        _ => {
            let missed = picture("How much does each tenant miss?", "% missed")?;
            Some(Picture {
                x: with_unit(plans, &missed.x),
                y: "misses (% of touches)".to_owned(),
                ..missed
            })
        }
    }
}

/// Returns the label of a swept key; sizes are drawn in MiB.
fn with_unit(plans: &Plans, key: &str) -> String {
    let values = plans.runs.iter().flat_map(|plan| &plan.values);
    let mut values = values.filter(|(name, _)| name == key);
    if values.any(|(_, value)| value.is_str()) {
        format!("{key} (MiB)")
    } else {
        key.to_owned()
    }
}

/// Returns bars of the misses; `None` if a curve already shows them, or if there are too few or too
/// many bars. The first `swept` columns of the table are the swept values.
fn missed(table: &Table, swept: usize) -> Option<Picture> {
    let at = table.columns.iter().position(|name| name == "missed (%)")?;
    if swept == 1 || !(2..=BARS_MAX).contains(&table.rows.len()) {
        return None;
    }
    let names = |row: &Vec<Cell>| {
        row[..=swept]
            .iter()
            .map(named)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let value = |row: &Vec<Cell>| match row[at] {
        Cell::Figure(value) => Some(value),
        Cell::Count(count) => Some(number(count)),
        _ => None,
    };
    let groups = Kind::Bars(table.rows.iter().map(names).collect());
    let keys = table.columns[..=swept].join(", ");
    let all = Series::bars("misses", table.rows.iter().map(value));
    let axes = [keys.as_str(), "misses (% of touches)"];
    Some(Picture::new(
        "Who misses how much?",
        groups,
        axes,
        vec![all],
    ))
}

fn named(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(count) => count.to_string(),
        Cell::Figure(value) => value.to_string(),
        Cell::Empty => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{parse, run};

    const TWO: &str = "[run]\nduration = \"1s\"\n[[tenant]]\nname = \"a\"\nmemory-max = \"1M\"\n\
        work = [{ pattern = \"loop\", size = \"2M\", rate = 2000 }]\n[[tenant]]\nname = \"b\"\n\
        work = [{ pattern = \"uniform\", size = \"1M\", rate = 1000 }]\n";

    fn drawn(sweep: &str) -> Vec<[String; 3]> {
        let plans = parse("two.toml", &format!("{TWO}{sweep}"), &[]).expect("a sound file");
        let tables = run(&plans, 1, &mut |_| {}).tables;
        let pictures = pictures(&plans, &tables);
        assert!(
            pictures
                .iter()
                .all(|p| p.series.iter().all(|s| !s.points.is_empty()))
        );
        let words = pictures.into_iter().map(|p| [p.title, p.x, p.y]);
        words.collect()
    }

    #[test]
    fn each_kind_of_run_has_its_pictures() {
        let courses = drawn("");
        let ys: Vec<&str> = courses.iter().map(|words| words[2].as_str()).collect();
        let misses = "misses (% of touches)";
        assert_eq!(ys, ["resident memory (MiB)", "misses a second", misses]);
        let key = "tenant.a.memory-max";
        let one = drawn(&format!("[sweep]\n\"{key}\" = [\"1M\", \"2M\"]\n"));
        assert_eq!(one.len(), 1);
        assert_eq!(one[0][1..], [format!("{key} (MiB)"), misses.to_owned()]);
        let two = drawn("[sweep]\n\"run.seed\" = [1, 2]\n\"tenant.a.work.0.rate\" = [1000]\n");
        assert_eq!((two.len(), two[0][1].contains("run.seed")), (1, true));
    }
}
