//! Pictures of the cost of each way of unmapping, by the order of the folios, in updates and in
//! time.

use super::{DOCUMENT, Measured, Unmapping, shared_updates};
use crate::mmu_gather::ReleaseStats;
use crate::outcome::{By, Kind, Picture, Series};
use crate::stats::number;

/// Returns three pictures: updates per page, the ratio that the document prints, and times.
pub(super) fn pictures(measured: &[Measured], pages: u64) -> [Picture; 3] {
    let updates = |stats: &ReleaseStats| number(shared_updates(stats)) / number(pages);
    [
        by_order(
            measured,
            "How many updates of shared words does a page cost?",
            "updates of shared words (a page)",
            |way| updates(&way.1),
        ),
        fewer(measured),
        by_order(
            measured,
            "How long does a page take?",
            "processor time (ns a page)",
            |way| way.2 * 1e9 / number(pages),
        )
        .timed(),
    ]
}

type Way = (Unmapping, ReleaseStats, f64);

fn by_order(measured: &[Measured], title: &str, y: &str, of: impl Fn(&Way) -> f64) -> Picture {
    let orders = measured.iter().map(|row| row.order.to_string()).collect();
    let series = Unmapping::ALL.iter().enumerate().map(|(n, unmapping)| {
        let values = measured.iter().map(|order| Some(of(&order.ways[n])));
        Series::bars(unmapping.name(), values)
    });
    Picture::new(
        title,
        Kind::Bars(orders),
        ["folio order", y],
        series.collect(),
    )
}

/// Returns a picture of the ratio of page by page to ranges: the simulator's at each order, the
/// document's at order 3.
fn fewer(measured: &[Measured]) -> Picture {
    let orders = measured.iter().map(|row| row.order.to_string()).collect();
    let ours = |n: usize| {
        let ratio = move |order: &Measured| {
            let [page, this] = [0, n].map(|n| number(shared_updates(&order.ways[n].1)));
            Some(page / this)
        };
        Series::bars(Unmapping::ALL[n].name(), measured.iter().map(ratio))
    };
    let document = measured
        .iter()
        .map(|row| (row.order == 3).then_some(DOCUMENT));
    let document = Series::bars("document: cycles of removing rmap", document).by(By::Document);
    Picture::new(
        "How many times less do ranges cost than page by page?",
        Kind::Bars(orders),
        [
            "folio order",
            "page by page / this (updates; the document: cycles)",
        ],
        vec![ours(1), ours(2), document],
    )
    .log(false, true)
}
