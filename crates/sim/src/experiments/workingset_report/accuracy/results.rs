//! The results of the comparison: reported and exact histograms as a table and pictures, and the
//! claims about them.
//!
//! Invariant: generations can distinguish only ages of one, two or three whole intervals. Claims
//! about single bins are made only for these ages; the table has all bins.

use super::{COARSEST, EDGES, Reporting, Row, WAYS};
use crate::outcome::{By, Cell, Claim, Kind, Picture, Series, Table};
use crate::stats::number;
use ::engine::lru_gen::Profile;
use ::engine::workingset_report::Aggregation;

pub(super) fn table(rows: &[Row], percent: impl Fn(u64) -> f64) -> Table {
    let mut table = Table::new(
        "Idle ages reported, and true (% of pages)",
        &[
            "refresh interval (s)",
            "aggregation",
            "<= 1 s",
            "<= 5 s",
            "<= 10 s",
            "<= 20 s",
            "older",
            "in a wrong bin",
            "in a wrong bin of those in reach",
        ],
    );
    let mut line = |names: [&str; 2], bins: &[u64], wrong: [Option<u64>; 2]| {
        let mut row = names.map(|name| Cell::Text(name.to_owned())).to_vec();
        row.extend(bins.iter().map(|&bin| Cell::Figure(percent(bin))));
        let wrong = wrong.map(|wrong| wrong.map_or(Cell::Empty, |n| Cell::Figure(percent(n))));
        row.extend(wrong);
        table.row(row);
    };
    line(["", "the truth"], &rows[0].truth, [None; 2]);
    for row in rows {
        let reach = (!row.in_reach().is_empty()).then(|| row.wrong_in_reach());
        let wrong = [Some(row.wrong()), reach];
        line(
            [&row.reporting.interval.to_string(), row.reporting.name()],
            &row.reported,
            wrong,
        );
    }
    table
}

impl Reporting {
    const fn name(self) -> &'static str {
        match (self.mode, self.profile) {
            (Aggregation::Compat, _) => "compat",
            (Aggregation::Exact, Profile::P63) => "exact, v6.3",
            (Aggregation::Exact, _) => "exact",
        }
    }
}

pub(super) fn pictures(rows: &[Row], percent: impl Fn(u64) -> f64) -> [Picture; 2] {
    let share = |name: String, bins: &[u64]| {
        let up_to = super::cumulated(bins).into_iter().map(&percent);
        let seconds = EDGES.map(|edge| number(edge.0) / 1000.0);
        Series::new(name, seconds.into_iter().zip(up_to))
    };
    let exact = rows
        .iter()
        .filter(|row| row.reporting.is_exact_by(Profile::P616));
    let ages = exact.map(|row| {
        let name = format!("reported, interval {} s", row.reporting.interval);
        share(name, &row.reported)
    });
    let truth = share("the truth".to_owned(), &rows[0].truth).by(By::Rule);
    let wrong = WAYS.iter().enumerate().map(|(n, _)| {
        let name = rows[n].reporting.name();
        let rows = rows.iter().skip(n).step_by(WAYS.len());
        let points = rows.map(|row| (number(row.reporting.interval), percent(row.wrong())));
        Series::new(name, points)
    });
    [
        Picture::new(
            "Which idle ages does a report tell, and which are true?",
            Kind::Curve,
            ["idle age (s)", "pages idle for so long at most (%)"],
            ages.chain([truth]).collect(),
        ),
        Picture::new(
            "How many pages does a report put into a wrong bin?",
            Kind::Curve,
            ["refresh interval (s)", "pages in a wrong bin (%)"],
            wrong.collect(),
        ),
    ]
}

pub(super) fn claims(rows: &[Row], percent: impl Fn(u64) -> f64) -> Vec<Claim> {
    let all = |row: &Row| row.truth.iter().sum::<u64>();
    let kept = rows
        .iter()
        .filter(|row| row.reported.iter().sum::<u64>() == all(row));
    let kept = kept.count();
    let [now, then] =
        [Profile::P616, Profile::P63].map(|profile| Late::of(rows, profile, &percent));
    let mut exact = rows
        .iter()
        .filter(|row| row.reporting.is_exact_by(Profile::P616));
    let reach = exact.rfind(|row| row.is_in_reach(COARSEST));
    let wrong = reach.map_or(100.0, |row| percent(row.wrong_in_reach()));
    vec![
        Claim::ours(
            format!(
                "reports whose bins sum to the pages in memory, of {}",
                rows.len()
            ),
            number(kept as u64),
            kept == rows.len(),
        ),
        Claim::ours(
            "edges in reach: pages reported younger than they are (% at most) <= 1".to_owned(),
            now.young.max(then.young),
            now.young.max(then.young) <= 1.0,
        ),
        Claim::ours(
            "edges in reach, v6.3: pages reported more than an interval too old (% at most) <= 1"
                .to_owned(),
            then.old,
            then.old <= 1.0,
        ),
        Claim::ours(
            // A page that is used less often than walks happen must be seen twice.
            "edges in reach, v6.16: pages reported more than an interval too old (% at most) <= 5"
                .to_owned(),
            now.old,
            now.old <= 5.0,
        ),
        Claim::ours(
            "interval 10 s: pages in a wrong bin of <= 10 s, <= 20 s, older (%) <= 5".to_owned(),
            wrong,
            wrong <= 5.0,
        ),
    ]
}

/// Pages reported too young, and pages reported more than an interval too old, in percent of the
/// pages. Each is the maximum over the edges in reach.
struct Late {
    young: f64,
    old: f64,
}

impl Late {
    /// Returns the maxima over all rows with exact aggregation, at any interval.
    fn of(rows: &[Row], profile: Profile, percent: impl Fn(u64) -> f64) -> Self {
        let rows = rows.iter().filter(|row| row.reporting.is_exact_by(profile));
        let edges: Vec<[u64; 3]> = rows.flat_map(Row::in_reach).collect();
        let most = |of: fn(&[u64; 3]) -> u64| percent(edges.iter().map(of).max().unwrap_or(0));
        Self {
            young: most(|[reported, truth, _]| reported.saturating_sub(*truth)),
            old: most(|[reported, _, well_within]| well_within.saturating_sub(*reported)),
        }
    }
}
