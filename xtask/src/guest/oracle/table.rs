//! The comparison for people, and for programs.

use std::fmt::Write;

use serde_json::{Value, json};
use touches::figures::Figures;

use super::compare::{Row, Verdict};
use super::jobs::Pair;

const HEAD: &str = "| workload | policy | burst | tenant | figure | guest | sim | worst seed | |\n\
                    |---|---|---|---|---|---|---|---|---|\n";

fn word(verdict: Verdict) -> String {
    match verdict {
        Verdict::NotJudged => String::new(),
        Verdict::Within => "within".to_owned(),
        Verdict::Known(why) => format!("known: {why}"),
        Verdict::Missed => "MISSED".to_owned(),
    }
}

/// Formats rows as a table; counts are means over the seeds.
pub(super) fn text(rows: &[Row]) -> String {
    let mut text = HEAD.to_owned();
    for row in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {:.0} | {:.0} | {:+.1}% | {} |",
            row.case,
            row.policy,
            row.burst,
            row.tenant,
            row.figure,
            row.guest,
            row.simulated,
            row.worst,
            word(row.verdict)
        );
    }
    text
}

/// Formats every figure of every run, and the rows, as JSON.
pub(super) fn json(pairs: &[Pair], rows: &[Row]) -> Value {
    let figures = |figures: &Figures| json!(figures.counts);
    let run = |pair: &Pair| {
        let key = &pair.guest.key;
        json!({
            "workload": key.case, "policy": key.policy, "seed": key.seed, "burst": key.burst,
            "tenant": key.tenant, "guest": figures(&pair.guest), "sim": figures(&pair.simulated),
        })
    };
    let row = |row: &Row| {
        json!({
            "workload": row.case, "policy": row.policy, "burst": row.burst, "tenant": row.tenant,
            "figure": row.figure, "guest_mean": row.guest, "sim_mean": row.simulated,
            "worst_percent": row.worst, "verdict": word(row.verdict),
        })
    };
    json!({
        "runs": pairs.iter().map(run).collect::<Vec<Value>>(),
        "rows": rows.iter().map(row).collect::<Vec<Value>>(),
    })
}
