//! Pictures of runs with and without the memcg LRU: how unequal reclaim was, how much it took in
//! total, and how much from each memcg.

use super::{DOCUMENT_OFF, DOCUMENT_ON, Figures, Run};
use crate::outcome::{By, Kind, Picture, Series};
use crate::stats::number;

const WAYS: [&str; 2] = ["memcg LRU", "hierarchy iterator"];

/// Returns a picture for each of the document's two figures, with the simulator's figures; and one
/// of the distribution whose spread is the first figure.
pub(super) fn pictures(lru: &Run, iterator: &Run) -> Vec<Picture> {
    let ours = [lru, iterator].map(Run::figures);
    vec![
        spread([lru, iterator]),
        beside(
            "How unequal is what the memcgs gave?",
            "stddev/mean of pgsteal (%)",
            ours.map(|figures| figures.spread),
            |document| document.spread,
        ),
        beside(
            "How much was taken of what was requested?",
            "pgsteal/requested (%)",
            ours.map(|figures| figures.taken),
            |document| document.taken,
        ),
    ]
}

/// Returns a picture of the distribution of memcgs by the number of pages taken from each.
fn spread(runs: [&Run; 2]) -> Picture {
    let shares = |run: &Run| -> Vec<f64> {
        let equal = number(run.requested) / number(run.pgsteal.len() as u64);
        let share = |&pages: &u64| number(pages) / equal * 100.0;
        run.pgsteal.iter().map(share).collect()
    };
    let ways = WAYS.into_iter().zip(runs);
    let ways = ways.map(|(way, run)| Series::samples(way, shares(run)));
    let equal = Series::samples("an equal share of what was requested", [100.0]).by(By::Rule);
    Picture::new(
        "Does each memcg give its share?",
        Kind::Distribution,
        [
            "pgsteal of a memcg (% of an equal share of what was requested)",
            "memcgs",
        ],
        ways.chain([equal]).collect(),
    )
}

fn beside(title: &str, y: &str, ours: [f64; 2], of: fn(&Figures) -> f64) -> Picture {
    let document = [&DOCUMENT_ON, &DOCUMENT_OFF].map(of);
    let groups = WAYS.iter().map(|&way| way.to_owned()).collect();
    let axes = ["how reclaim of the root chooses memcgs", y];
    let bars = |name: &str, both: [f64; 2]| Series::bars(name, both.map(Some));
    let series = vec![
        bars("ours", ours),
        bars("document", document).by(By::Document),
    ];
    Picture::new(title, Kind::Bars(groups), axes, series)
}
