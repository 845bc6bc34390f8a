//! The difference between figures of the guest and of the simulator, over all seeds.
//!
//! Means are judged, because a single run depends on the place of a few pages when a generation is
//! created: with the same seed, one guest makes 29 to 34 generations, depending on what ran there
//! before (docs/fidelity.md). The seed with the largest difference is reported.

use std::collections::BTreeMap;

use super::jobs::{ALL, Pair};
use super::known;

/// Pages in one batch of the kernel's reclaim: smaller differences do not count.
const BATCH: f64 = 64.0;

/// The compared figures, in the order of the table: name, and allowed difference in percent, `None`
/// if the figure is only reported.
pub(super) const FIGURES: [(&str, Option<f64>); 11] = [
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

/// One figure of one tenant, over all seeds.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Row {
    pub(super) case: String,
    pub(super) policy: String,
    pub(super) burst: u64,
    pub(super) tenant: String,
    pub(super) figure: &'static str,
    /// Means over the seeds.
    pub(super) guest: f64,
    pub(super) simulated: f64,
    /// Largest difference of a seed, in percent of the guest's figure; negative if the simulator's
    /// figure is lower.
    pub(super) worst: f64,
    pub(super) verdict: Verdict,
}

/// Result of comparing a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// The figure is only reported.
    NotJudged,
    Within,
    /// The difference is larger than allowed, for this known reason.
    Known(&'static str),
    Missed,
}

impl Row {
    pub(super) fn is_unknown_miss(&self) -> bool {
        self.verdict == Verdict::Missed
    }
}

/// Returns all rows, in the order of the runs and of [`FIGURES`].
pub(super) fn rows(pairs: &[Pair]) -> Vec<Row> {
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
        Some(_) => known::reason(&key.case, &key.policy, &key.tenant, figure)
            .map_or(Verdict::Missed, Verdict::Known),
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

#[cfg(test)]
mod tests {
    use super::*;
    use touches::figures::Figures;

    fn pair(seed: u64, guest: &str, simulated: &str) -> Pair {
        pair_of("c multi-gen", seed, guest, simulated)
    }

    /// `run`: case, then policy.
    fn pair_of(run: &str, seed: u64, guest: &str, simulated: &str) -> Pair {
        let figures = |burst: u64, counts: &str| {
            let line = format!("figures {run} {seed} {burst} one {counts}");
            Figures::parse(&line).unwrap()
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
        assert!(rows[1].worst > 19.9 && rows[1].is_unknown_miss());
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
}
