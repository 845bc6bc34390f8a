//! Runs an experiment and prints its outcome:
//! `cargo run --release -p sim --example experiment -- NAME [SCALE] [SEED]`.
#![forbid(unsafe_code)]

use sim::experiments::{ALL, Settings};
use sim::outcome::{Cell, Table};
use std::time::Instant;

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(count) => count.to_string(),
        Cell::Figure(figure) => format!("{figure:.2}"),
        Cell::Empty => String::new(),
    }
}

fn print(table: &Table) {
    println!("\n{}\n\n| {} |", table.title, table.columns.join(" | "));
    println!("|{}", "---|".repeat(table.columns.len()));
    for row in &table.rows {
        println!(
            "| {} |",
            row.iter().map(cell).collect::<Vec<_>>().join(" | ")
        );
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let mut number = || args.next().and_then(|n| n.parse().ok());
    let (scale, seed) = (number().unwrap_or(1), number().unwrap_or(1));
    let Some(experiment) = ALL.iter().find(|experiment| experiment.name == name) else {
        let names: Vec<&str> = ALL.iter().map(|experiment| experiment.name).collect();
        eprintln!(
            "no experiment is called {name:?}; there are: {}",
            names.join(", ")
        );
        std::process::exit(2);
    };
    let start = Instant::now();
    let outcome = (experiment.run)(&Settings { seed, scale }, &mut |_| {});
    outcome
        .tables
        .iter()
        .chain(&outcome.timings)
        .for_each(print);
    println!();
    for claim in &outcome.claims {
        let holds = if claim.holds {
            "holds"
        } else {
            "DOES NOT HOLD"
        };
        let document = claim
            .document
            .map_or(String::new(), |d| format!(", document {d:.2}"));
        println!("{holds}: {}: {:.2}{document}", claim.what, claim.ours);
    }
    for note in &outcome.notes {
        println!("\nNote: {note}");
    }
    println!("\n{:.1} s", start.elapsed().as_secs_f64());
}
