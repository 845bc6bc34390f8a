//! Checks whether the claims of an experiment hold at several scales, with several seeds:
//! `cargo xtask bench claims -- NAME SCALES SEEDS`, e.g. `memcg-lru 4,16,24,32,48 1,2,3`.
//!
//! Runs are spread over the processors. Exit code 1 if a claim does not hold.
#![forbid(unsafe_code)]

use sim::experiments::{ALL, Settings};
use sim::outcome::Claim;
use sim::parallel;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

fn numbers(text: Option<String>) -> Vec<u64> {
    let text = text.unwrap_or_default();
    text.split(',').filter_map(|n| n.parse().ok()).collect()
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let (scales, seeds) = (numbers(args.next()), numbers(args.next()));
    let Some(experiment) = ALL.iter().find(|e| e.name == name) else {
        eprintln!("no experiment is called {name:?}; usage: NAME SCALE,... SEED,...");
        return ExitCode::from(2);
    };
    let runs: Vec<Settings> = scales
        .iter()
        .flat_map(|&scale| seeds.iter().map(move |&seed| Settings { seed, scale }))
        .collect();
    if runs.is_empty() {
        eprintln!("give scales and seeds, e.g. {name} 16,32 1,2,3");
        return ExitCode::from(2);
    }
    let start = Instant::now();
    let claims = parallel::map(
        &runs,
        |settings| (experiment.run)(settings, &mut |_| {}).claims,
        &mut |_| {},
    );
    let held = print(&seeds, &runs, &claims);
    println!(
        "\n{} runs in {:.1} s",
        runs.len(),
        start.elapsed().as_secs_f64()
    );
    if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints a table for each claim, with a row for each scale and a column for each seed. A cell in
/// bold is a claim that does not hold. Returns whether all claims hold.
fn print(seeds: &[u64], runs: &[Settings], claims: &[Vec<Claim>]) -> bool {
    // The cells by claim, then by scale; one cell for each seed.
    let mut tables: BTreeMap<&str, BTreeMap<u64, Vec<String>>> = BTreeMap::new();
    for (settings, claims) in runs.iter().zip(claims) {
        for claim in claims {
            let ours = format!("{:.2}", claim.ours);
            let cell = if claim.holds {
                ours
            } else {
                format!("**{ours} NO**")
            };
            let rows = tables.entry(&claim.what).or_default();
            rows.entry(settings.scale).or_default().push(cell);
        }
    }
    for (what, rows) in &tables {
        let names: Vec<String> = seeds.iter().map(|seed| format!("seed {seed}")).collect();
        println!("\n{what}\n\n| scale | {} |", names.join(" | "));
        println!("|{}", "---|".repeat(seeds.len() + 1));
        for (scale, cells) in rows {
            println!("| {scale} | {} |", cells.join(" | "));
        }
    }
    claims.iter().flatten().all(|claim| claim.holds)
}
