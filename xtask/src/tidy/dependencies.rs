//! Rule: every crate from a registry has a line in `docs/dependencies.md` that says what uses it
//! and why, sorted, and every line has its crate.

use std::collections::BTreeSet;

use super::metadata::Metadata;

/// Path of the table, relative to the workspace.
pub(super) const TABLE: &str = "docs/dependencies.md";

pub(super) fn problems(metadata: &Metadata, table: &str) -> Vec<String> {
    let used: BTreeSet<&str> = metadata
        .edges
        .iter()
        .filter(|edge| !edge.is_ours)
        .map(|edge| edge.to.as_str())
        .collect();
    let rows = rows(table);
    let mut found = Vec::new();
    for name in &used {
        if !rows.iter().any(|row| row.name == *name) {
            found.push(format!("{TABLE}: no line says why {name} is used"));
        }
    }
    for row in &rows {
        if !used.contains(row.name) {
            found.push(format!(
                "{TABLE}: {} is used by no crate; remove its line",
                row.name
            ));
        }
        if row.why.is_empty() {
            found.push(format!("{TABLE}: {} has no reason", row.name));
        }
    }
    for pair in rows.windows(2).filter(|pair| pair[0].name >= pair[1].name) {
        found.push(format!(
            "{TABLE}: {} stands before {}: sort",
            pair[0].name, pair[1].name
        ));
    }
    found
}

struct Row<'a> {
    name: &'a str,
    why: &'a str,
}

/// Returns the lines of the table `| crate | used by | why |` below its heading.
fn rows(table: &str) -> Vec<Row<'_>> {
    table
        .lines()
        .filter_map(|line| line.trim().strip_prefix('|')?.strip_suffix('|'))
        .filter_map(|line| {
            let mut cells = line.split('|').map(str::trim);
            let name = cells.next()?.trim_matches('`');
            let why = cells.nth(1)?;
            (name != "crate" && !name.starts_with(['-', ':'])).then_some(Row { name, why })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::metadata::Edge;
    use super::*;

    const HEAD: &str = "| crate | used by | why |\n|---|---|---|\n";

    fn of(used: &[&str], table: &str) -> Vec<String> {
        let edge = |to: &&str| Edge {
            from: "cli".into(),
            to: (*to).into(),
            is_ours: false,
            is_normal: true,
        };
        let edges = used.iter().map(edge).collect();
        problems(
            &Metadata {
                edges,
                ..Metadata::default()
            },
            &format!("{HEAD}{table}"),
        )
    }

    #[test]
    fn a_table_that_fits_is_fine() {
        let table = "| `clap` | cli | arguments |\n| serde | cli | reports |\n";
        assert!(of(&["serde", "clap"], table).is_empty());
    }

    #[test]
    fn each_defect_is_found() {
        assert_eq!(of(&["clap"], "").len(), 1);
        assert_eq!(of(&[], "| clap | cli | arguments |\n").len(), 1);
        assert_eq!(of(&["clap"], "| clap | cli | |\n").len(), 1);
        let unsorted = "| serde | cli | reports |\n| clap | cli | arguments |\n";
        assert_eq!(of(&["clap", "serde"], unsorted).len(), 1);
    }
}
