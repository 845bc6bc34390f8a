//! The results of the runs as a table, and the claims about them.

use super::{HOT, Hint, Run};
use crate::outcome::{Cell, Claim, Kind, Outcome, Picture, Series, Table};
use crate::stats::number;

/// Returns the results. `runs` has a list for each policy in `names`; the list has a run for each
/// of [`Hint::ALL`].
pub(super) fn outcome(names: &[&str], runs: &[&[Run]], scale: u64) -> Outcome {
    Outcome {
        tables: vec![table(names, runs, scale)],
        claims: claims(names, runs),
        pictures: pictures(names, runs, scale).into(),
        timings: Vec::new(),
        notes: NOTES.iter().map(|&note| note.to_owned()).collect(),
    }
}

/// Returns pictures of the evicted hot pages and of the scanned pages: a group of bars for each
/// policy, a bar for each advice.
fn pictures(names: &[&str], runs: &[&[Run]], scale: u64) -> [Picture; 2] {
    let bars = |title: &str, y: &str, of: fn(&Run) -> u64| {
        let groups = names.iter().map(|&name| name.to_owned()).collect();
        let series = Hint::ALL.iter().enumerate().map(|(n, hint)| {
            let mib = |runs: &&[Run]| Some(number(of(&runs[n]) * scale) / 256.0);
            Series::bars(format!("advice: {}", hint.name()), runs.iter().map(mib))
        });
        Picture::new(title, Kind::Bars(groups), ["policy", y], series.collect())
    };
    [
        bars(
            "How much of the 5 GiB in use does the video drive out?",
            "hot memory swapped out (MiB)",
            |run| run.hot_out,
        ),
        bars(
            "How much does reclaim look at to make room for 15 GiB of video?",
            "scanned (MiB)",
            |run| run.scanned,
        ),
    ]
}

const NOTES: [&str; 2] = [
    "The document gives frames per second: 9 to 11% more with FADV_NOREUSE under the multi-gen LRU, on \
     par with the active/inactive LRU then. Ours counts what those frames waited for: pages that came \
     back from swap.",
    "The document's other figure, 6 to 8% more IOPS when random accesses to mapped files are ignored, \
     is processor time saved on uniformly random accesses, of which no policy can keep the right ones.",
];

fn table(names: &[&str], runs: &[&[Run]], scale: u64) -> Table {
    let mut table = Table::new(
        "A video read through a mapping, beside 5 GiB in use, with memory for 8 GiB (MiB)",
        &[
            "policy",
            "advice",
            "hot memory swapped out",
            "hot memory swapped in again",
            "hot memory left (%)",
            "video read",
            "scanned",
        ],
    );
    let mib = |pages: u64| Cell::Figure(number(pages * scale) / 256.0);
    for (name, runs) in names.iter().zip(runs) {
        for (hint, run) in Hint::ALL.iter().zip(*runs) {
            table.row(vec![
                Cell::Text((*name).to_owned()),
                Cell::Text(hint.name().to_owned()),
                mib(run.hot_out),
                mib(run.hot_back),
                Cell::Figure(number(run.hot_left * scale) * 100.0 / number(HOT)),
                mib(run.video_in),
                mib(run.scanned),
            ]);
        }
    }
    table
}

fn claims(names: &[&str], runs: &[&[Run]]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (name, runs) in names.iter().zip(runs) {
        let [none, marked] = [runs[0], runs[1]];
        if none.hot_back > 0 {
            claims.push(Claim {
                what: format!(
                    "{name}: hot pages swapped in again, with FADV_NOREUSE, per 100 without"
                ),
                document: None,
                ours: number(marked.hot_back) * 100.0 / number(none.hot_back),
                holds: marked.hot_back * 20 <= none.hot_back,
            });
        }
        claims.push(Claim {
            what: format!("{name}: the marked video evicts nothing of the hot set (pages out)"),
            document: None,
            ours: number(marked.hot_out),
            holds: marked.hot_out == 0,
        });
    }
    claims
}
