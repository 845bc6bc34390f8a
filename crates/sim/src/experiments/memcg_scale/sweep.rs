//! Runs the measurements of `sizes` for several numbers and sizes of tenants, and makes the table,
//! the pictures and the claims.

use super::REQUEST;
use super::sizes::{Point, SIZES, Use, measure};
use crate::outcome::{Cell, Claim, Kind, Outcome, Picture, Series, Table};

/// Numbers of tenants: few; many, but not enough for the cliff; and more than the requested pages.
const TENANTS: [u32; 3] = [32, 1000, 4000];
/// Number of visits that are enough if each visit takes a batch of 64 pages.
pub(super) const FEWEST: f64 = REQUEST as f64 / 64.0;

/// Maximum memory of all tenants together, MiB. `MIB_MAX` is divided by the scale; `MIB_ALWAYS` is
/// allowed at any scale, so that the cliff is visible.
const MIB_MAX: u32 = 1 << 18;
const MIB_ALWAYS: u32 = 1 << 13;

/// Runs the sweep on as many threads as there are processors.
pub(super) fn run(scale: u32, seed: u64, outcome: &mut Outcome, progress: &mut dyn FnMut(f64)) {
    let most = (MIB_MAX / scale).max(MIB_ALWAYS);
    let worlds: Vec<(u32, u32, Use)> = [Use::Busy, Use::Idle]
        .into_iter()
        .flat_map(|used| TENANTS.map(|tenants| (tenants, used)))
        .flat_map(|(tenants, used)| SIZES.map(|mib| (tenants, mib, used)))
        .filter(|(tenants, mib, _)| tenants * mib <= most)
        .collect();
    let points = crate::parallel::map(
        &worlds,
        |&(tenants, mib, used)| measure((tenants, mib), used, seed),
        progress,
    );
    outcome.tables.push(table(&points));
    outcome.pictures.extend(pictures(&points));
    outcome.claims.extend(claims(&points));
    outcome.notes.push(NOTE.to_owned());
}

const NOTE: &str = "The cliff is the kernel's own rule (memcg-lru.md 6). The first priority is the one at which one pass over \
    all has a chance to get enough: with more tenants than pages are asked for, a tenant's part is less than a \
    page. It gives nothing then, but is visited: all are, before the priority falls. With 1,024 pages asked for that is so from \
    2,048 tenants on (from 1,024 where sizes are no powers of two), for tenants below 16 MiB: the first priority is \
    12 at most, and 2^12 pages are 16 MiB.";

fn table(points: &[Point]) -> Table {
    let mut table = Table::new(
        "Visits by size of the tenants",
        &[
            "tenants",
            "size (MiB)",
            "they are",
            "first priority",
            "visits (memcgs)",
            "reclaimed (pages)",
            "too small at the first priority",
        ],
    );
    for point in points {
        let beyond = if point.is_beyond_cliff() {
            "all"
        } else {
            "none"
        };
        table.row(vec![
            Cell::Count(u64::from(point.tenants)),
            Cell::Count(u64::from(point.mib)),
            Cell::Text(format!("{:?}", point.used).to_lowercase()),
            Cell::Count(u64::from(point.priority)),
            Cell::Figure(point.visited),
            Cell::Figure(point.reclaimed),
            Cell::Text(beyond.to_owned()),
        ]);
    }
    table
}

/// Returns a picture for busy and one for idle tenants; each has a curve for each number of
/// tenants.
fn pictures(points: &[Point]) -> [Picture; 2] {
    [Use::Busy, Use::Idle].map(|used| {
        let series = TENANTS.map(|tenants| {
            let of = |point: &&Point| point.tenants == tenants && point.used == used;
            let points = points.iter().filter(of);
            let points = points.map(|point| (f64::from(point.mib), point.visited));
            Series::new(format!("{tenants} tenants"), points)
        });
        let word = format!("{used:?}").to_lowercase();
        let title =
            format!("How many {word} tenants are visited for 1,024 pages, and where is the cliff?");
        let axes = ["size of each tenant (MiB)", "memcgs visited by a reclaim"];
        Picture::new(title, Kind::Curve, axes, series.into()).log(true, true)
    })
}

fn claims(points: &[Point]) -> Vec<Claim> {
    let (beyond, before): (Vec<&Point>, Vec<&Point>) =
        points.iter().partition(|point| point.is_beyond_cliff());
    let most = before.iter().map(|point| point.visited).fold(0.0, f64::max);
    let mut claims = vec![Claim {
        what: format!(
            "tenants of 1 to 64 MiB, busy or idle, that the first priority scans: visits at most {:.0}",
            2.0 * FEWEST
        ),
        document: None,
        ours: most,
        holds: most <= 2.0 * FEWEST,
    }];
    let share = |point: &&Point| point.visited / f64::from(point.tenants);
    let least = beyond.iter().map(share).fold(f64::MAX, f64::min);
    claims.push(Claim {
        what: format!(
            "the kernel's cliff, {} cases that it does not scan: visits for each tenant at least 1",
            beyond.len()
        ),
        document: None,
        ours: least,
        holds: !beyond.is_empty() && least >= 1.0,
    });
    claims
}
