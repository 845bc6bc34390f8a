//! How far apart two figures may be, over the seeds.
//!
//! Means are judged. A single run turns on where a few pages stood when a generation was opened: the same seed gives 29 to
//! 34 generations in one guest, by what ran there before (docs/fidelity.md). The seed that is furthest off is told.

use std::collections::BTreeMap;

use super::jobs::{ALL, Pair};
use super::known;

/// One batch of the kernel's reclaim, in pages: less than that no rule decides.
const BATCH: f64 = 64.0;

/// Figures in the order of the table, with the percent that they may be off, where that is judged.
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
    /// The seed that is furthest off, in percent of the guest's; its sign is that of the difference.
    pub(super) worst: f64,
    pub(super) verdict: Verdict,
}

/// What is to be said of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Told, not judged.
    Told,
    Within,
    /// Further apart, for this reason.
    Known(&'static str),
    Missed,
}

impl Row {
    pub(super) fn is_unknown_miss(&self) -> bool {
        self.verdict == Verdict::Missed
    }
}

/// All rows, in the order of the runs and of [`FIGURES`].
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

/// None where a side does not count the figure.
fn row(group: &[&Pair], figure: &'static str, percent: Option<f64>) -> Option<Row> {
    let key = &group[0].guest.key;
    // Of all tenants together only that is told which is counted of all together, unless there is one.
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
    let verdict = match percent {
        None => Verdict::Told,
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
        let figures = |burst: u64, counts: &str| {
            let line = format!("figures c multi-gen {seed} {burst} one {counts}");
            Figures::parse(&line).unwrap()
        };
        Pair {
            guest: figures(64, guest),
            simulated: figures(0, simulated),
        }
    }

    #[test]
    fn means_are_judged_and_the_worst_seed_is_told() {
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
    fn less_than_a_batch_is_no_difference_and_the_rest_is_told() {
        let rows = rows(&[pair(1, "pgscan=10 pgrefill=5", "pgscan=70 pgrefill=900")]);
        assert_eq!(
            (rows[0].figure, rows[0].verdict),
            ("pgscan", Verdict::Within)
        );
        assert_eq!(
            (rows[1].figure, rows[1].verdict),
            ("pgrefill", Verdict::Told)
        );
    }
}
