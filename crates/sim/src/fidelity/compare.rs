//! The difference between figures of a kernel in a guest and of the simulator, over all seeds.
//!
//! Means are judged, because a single run depends on the place of a few pages when a generation is
//! created: with the same seed, one guest makes 29 to 34 generations, depending on what ran there
//! before (docs/fidelity.md). The seed with the largest difference is reported.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};
use touches::figures::{Figures, Key};

use super::ALL;

/// Pages in one batch of the kernel's reclaim: smaller differences do not count.
const BATCH: f64 = 64.0;

/// The compared figures, in the order of the table: name, and allowed difference in percent, `None`
/// if the figure is only reported.
const FIGURES: [(&str, Option<f64>); 11] = [
    ("workingset_refault_anon", Some(5.0)),
    ("pgsteal", Some(5.0)),
    ("pgscan", Some(15.0)),
    ("max_seq", Some(10.0)),
    ("workingset_activate_anon", None),
    ("workingset_restore_anon", None),
    ("pgrefill", None),
    ("pgactivate", None),
    ("pgdeactivate", None),
    ("pswpin", None),
    ("pswpout", None),
];

/// Figures that are judged in one case and with one policy only: case, policy, figure, and allowed
/// difference in percent. Activations decide whose clock an eviction advances.
const IN_ONE_CASE: [(&str, &str, &str, f64); 1] =
    [("two-limits", "classic", "workingset_activate_anon", 5.0)];

/// The figures of one tenant in one run: the guest's and the simulator's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pair {
    guest: Figures,
    simulated: Figures,
}

impl Pair {
    /// Finds the guest's figures of the same run and tenant.
    ///
    /// # Errors
    /// If there are none, or if the two runs did not make the same accesses.
    pub fn of(guest: &[Figures], simulated: Figures) -> Result<Pair, String> {
        let is_same = |guest: &&Figures| {
            let burst = simulated.key.burst;
            let key = guest.key.clone();
            Key { burst, ..key } == simulated.key
        };
        let found = guest.iter().find(is_same);
        let found = found.ok_or_else(|| format!("{:?}: the guest has none", simulated.key))?;
        if found.counts.get("checksum") != simulated.counts.get("checksum") {
            let key = &found.key;
            return Err(format!("{key:?}: not the same touches on both sides"));
        }
        Ok(Pair {
            guest: found.clone(),
            simulated,
        })
    }
}

/// One figure of one tenant, over all seeds.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    case: String,
    policy: String,
    burst: u64,
    tenant: String,
    figure: &'static str,
    /// Means over the seeds.
    guest: f64,
    simulated: f64,
    /// Largest difference of a seed, in percent of the guest's figure; negative if the simulator's
    /// figure is lower.
    worst: f64,
    verdict: Verdict,
}

/// Result of comparing a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// The figure is only reported.
    NotJudged,
    Within,
    Missed,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Verdict::NotJudged => "",
            Verdict::Within => "within",
            Verdict::Missed => "MISSED",
        }
    }
}

impl Row {
    /// Whether the difference is larger than allowed.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        self.verdict == Verdict::Missed
    }
}

/// Returns all rows, in the order of the runs and of the figures.
#[must_use]
pub fn rows(pairs: &[Pair]) -> Vec<Row> {
    let mut groups: Vec<Vec<&Pair>> = Vec::new();
    let same = |a: &Pair, b: &Pair| {
        let of = |pair: &Pair| {
            let mut key = pair.guest.key.clone();
            key.seed = 0;
            key
        };
        of(a) == of(b)
    };
    for pair in pairs {
        match groups.iter_mut().find(|group| same(group[0], pair)) {
            Some(group) => group.push(pair),
            None => groups.push(vec![pair]),
        }
    }
    let of_group = |group: &Vec<&Pair>| {
        FIGURES
            .iter()
            .filter_map(|(figure, percent)| row(group, figure, *percent))
            .collect::<Vec<Row>>()
    };
    groups.iter().flat_map(of_group).collect()
}

/// Returns a row; `None` if one side does not count the figure.
fn row(group: &[&Pair], figure: &'static str, percent: Option<f64>) -> Option<Row> {
    let key = &group[0].guest.key;
    // The row of all tenants together holds only what is counted for all together, unless there is
    // a single tenant.
    let is_swap = figure.starts_with("pswp");
    if key.tenant == ALL && !is_swap {
        return None;
    }
    let count = |counts: &BTreeMap<String, u64>| counts.get(figure).copied().map(number);
    let values: Option<Vec<(f64, f64)>> = group
        .iter()
        .map(|pair| count(&pair.guest.counts).zip(count(&pair.simulated.counts)))
        .collect();
    let values = values?;
    let seeds = number(values.len() as u64);
    let off = |(guest, simulated): &(f64, f64)| (simulated - guest) * 100.0 / guest.max(1.0);
    let worst = values
        .iter()
        .map(off)
        .max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
    let guest = values.iter().map(|(guest, _)| guest).sum::<f64>() / seeds;
    let simulated = values.iter().map(|(_, simulated)| simulated).sum::<f64>() / seeds;
    let within = |percent: f64| {
        let slack = if figure == "max_seq" { 0.0 } else { BATCH };
        (simulated - guest).abs() <= (guest * percent / 100.0).max(slack)
    };
    let in_this_case = IN_ONE_CASE.iter().find(|(case, policy, one, _)| {
        (*case, *policy, *one) == (key.case.as_str(), key.policy.as_str(), figure)
    });
    let verdict = match percent.or_else(|| in_this_case.map(|(.., percent)| *percent)) {
        None => Verdict::NotJudged,
        Some(percent) if within(percent) => Verdict::Within,
        Some(_) => Verdict::Missed,
    };
    Some(Row {
        case: key.case.clone(),
        policy: key.policy.clone(),
        burst: key.burst,
        tenant: key.tenant.clone(),
        figure,
        guest,
        simulated,
        worst,
        verdict,
    })
}

/// Counts are far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn number(count: u64) -> f64 {
    count as f64
}

const HEAD: &str = "| workload | policy | burst | tenant | figure | guest | sim | worst seed | |\n\
                    |---|---|---|---|---|---|---|---|---|\n";

/// Formats rows as a table; counts are means over the seeds.
#[must_use]
pub fn text(rows: &[Row]) -> String {
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
            row.verdict.word()
        );
    }
    text
}

/// Formats every figure of every run, and the rows, as JSON.
#[must_use]
pub fn json(pairs: &[Pair], rows: &[Row]) -> Value {
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
            "worst_percent": row.worst, "verdict": row.verdict.word(),
        })
    };
    json!({
        "runs": pairs.iter().map(run).collect::<Vec<Value>>(),
        "rows": rows.iter().map(row).collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(seed: u64, guest: &str, simulated: &str) -> Pair {
        pair_of("c multi-gen", seed, guest, simulated)
    }

    /// `run`: case, then policy.
    fn pair_of(run: &str, seed: u64, guest: &str, simulated: &str) -> Pair {
        let figures = |burst: u64, counts: &str| {
            let line = format!("figures {run} {seed} {burst} one {counts}");
            Figures::parse(&line).expect("figures")
        };
        Pair {
            guest: figures(64, guest),
            simulated: figures(0, simulated),
        }
    }

    #[test]
    fn means_are_judged_and_the_worst_seed_is_reported() {
        let pairs = [
            pair(1, "pgsteal=10000 max_seq=10", "pgsteal=10400 max_seq=11"),
            pair(2, "pgsteal=10000 max_seq=10", "pgsteal=9400 max_seq=12"),
        ];
        let rows = rows(&pairs);
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (rows[0].guest, rows[0].simulated, rows[0].worst),
            (1e4, 9900.0, -6.0)
        );
        assert_eq!(rows[0].verdict, Verdict::Within);
        assert!(rows[1].worst > 19.9 && rows[1].is_missed());
    }

    #[test]
    fn less_than_a_batch_is_within_and_unjudged_figures_are_reported() {
        let rows = rows(&[pair(1, "pgscan=10 pgrefill=5", "pgscan=70 pgrefill=900")]);
        assert_eq!(
            (rows[0].figure, rows[0].verdict),
            ("pgscan", Verdict::Within)
        );
        assert_eq!(
            (rows[1].figure, rows[1].verdict),
            ("pgrefill", Verdict::NotJudged)
        );
    }

    #[test]
    fn activations_are_judged_where_they_decide() {
        let verdict = |run| {
            let counts = ["workingset_activate_anon=896", "workingset_activate_anon=0"];
            rows(&[pair_of(run, 1, counts[0], counts[1])])[0].verdict
        };
        assert_eq!(verdict("two-limits classic"), Verdict::Missed);
        assert_eq!(verdict("two-limits multi-gen"), Verdict::NotJudged);
        assert_eq!(verdict("loop classic"), Verdict::NotJudged);
    }

    #[test]
    fn runs_that_are_not_the_same_are_not_compared() {
        let figures = |line: &str| Figures::parse(line).expect("figures");
        let guest = [figures("figures loop classic 2 64 one checksum=7 pgscan=1")];
        let beside = |line: &str| Pair::of(&guest, figures(line));
        assert!(beside("figures loop classic 2 0 one checksum=7 pgscan=2").is_ok());
        assert!(beside("figures loop classic 2 0 one checksum=8").is_err());
        assert!(beside("figures loop classic 3 0 one checksum=7").is_err());
    }
}
