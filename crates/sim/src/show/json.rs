//! Formats an outcome as one JSON object.

use super::{Heading, tables};
use crate::outcome::{Cell, Outcome, Table};
use serde_json::{Value, json};

/// Returns
/// `{"name","seed",...,"claims":[...],"tables":[{"title","columns","rows"}],"notes":[...]}`, with
/// `"timings"` if requested.
#[must_use]
pub fn json(heading: &Heading, outcome: &Outcome, timings: bool) -> Value {
    let without_claims = Outcome {
        claims: Vec::new(),
        ..outcome.clone()
    };
    let claims: Vec<Value> = outcome
        .claims
        .iter()
        .map(|c| json!({"what": c.what, "document": c.document, "ours": c.ours, "holds": c.holds}))
        .collect();
    let all: Vec<Value> = tables(&without_claims, false).iter().map(table).collect();
    let mut value = json!({
        "name": heading.name,
        "about": heading.about,
        "document": heading.document,
        "seed": heading.seed,
        "scale": heading.scale,
        "claims": claims,
        "tables": all,
        "notes": outcome.notes,
    });
    if timings {
        value["timings"] = outcome.timings.iter().map(table).collect();
    }
    value
}

fn table(table: &Table) -> Value {
    let rows: Vec<Vec<Value>> = table
        .rows
        .iter()
        .map(|row| row.iter().map(cell).collect())
        .collect();
    json!({"title": table.title, "columns": table.columns, "rows": rows})
}

fn cell(cell: &Cell) -> Value {
    match cell {
        Cell::Text(text) => json!(text),
        Cell::Count(count) => json!(count),
        Cell::Figure(value) => json!(value),
        Cell::Empty => Value::Null,
    }
}
