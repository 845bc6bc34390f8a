//! Counts how often working-set reports are refreshed and announced, depending on the interval, the
//! threshold, pressure and the aging thread.

use crate::hardware;
use crate::in_words::InWords;
use crate::outcome::{Cell, Claim, Outcome, Table};
use crate::stats::number;
use ::engine::machine::{MachineConfig, ReclaimRequest};
use ::engine::memcg::MemcgId;
use ::engine::workingset_report::{Bins, Report};
use ::engine::{FaultKind, FolioId, FolioType, Machine, Millis, Pages, ScanReason};

const MINUTE: u64 = 60_000;

fn machine(tenants: u64) -> (Machine, Vec<MemcgId>) {
    let mut machine = Machine::new(MachineConfig::default(), Millis(0));
    let ids: Vec<MemcgId> = (0..tenants)
        .map(|_| machine.create(MemcgId::ROOT, Millis(0)))
        .collect();
    for &id in &ids {
        machine.lruvec_mut(id).ensure(20_000);
        for page in (0..20_000).map(FolioId) {
            let (ty, kind) = (FolioType::Anon, FaultKind::FirstTouch);
            hardware::fault(&mut machine, (id, page), ty, kind, true);
        }
    }
    let edges = [Millis(1000), Millis(10_000)];
    machine
        .reports_mut()
        .set_bins(Bins::new(&edges).expect("increasing edges"));
    (machine, ids)
}

/// Returns the number of agings and the number of different reports in a minute in which the report
/// is read every 100 ms.
fn reads(interval: Millis) -> (u64, u64) {
    let (mut machine, ids) = machine(1);
    let id = ids[0];
    machine
        .reports_mut()
        .state(id)
        .set_refresh_interval(interval);
    let born = machine.lruvec(id).lru_gen().max_seq();
    let (mut reports, mut last): (u64, Option<Report>) = (0, None);
    for now in (100..=MINUTE).step_by(100).map(Millis) {
        machine.refresh(id, now, &mut InWords);
        let report = machine.reports_mut().state(id).report().cloned();
        if report.is_some() && report != last {
            reports += 1;
            last = report;
        }
    }
    (machine.lruvec(id).lru_gen().max_seq() - born, reports)
}

/// Returns the number of announcements in a minute in which memory is reclaimed every 100 ms.
/// `reader`: a reader reads the report after each announcement.
fn announced(reason: ScanReason, threshold: Millis, reader: bool) -> u64 {
    let (mut machine, ids) = machine(1);
    let id = ids[0];
    let state = machine.reports_mut().state(id);
    state.set_refresh_interval(Millis(500));
    state.set_report_threshold(threshold);
    machine.refresh(id, Millis(600), &mut InWords);
    let mut announced = 0;
    for now in (1000..=MINUTE).step_by(100).map(Millis) {
        let request = ReclaimRequest::new(reason, Pages(20), now);
        machine.reclaim_subtree(id, request, &mut InWords);
        let reported = machine.reports_mut().take_notified();
        announced += reported.len() as u64;
        if reader && !reported.is_empty() {
            machine.refresh(id, now, &mut InWords);
        }
    }
    announced
}

/// Returns how often the aging thread refreshes each of two memcgs in a minute, and how often it
/// wakes up.
fn aging_thread(intervals: [Millis; 2]) -> ([u64; 2], u64) {
    let (mut machine, ids) = machine(2);
    for (&id, interval) in ids.iter().zip(intervals) {
        machine
            .reports_mut()
            .state(id)
            .set_refresh_interval(interval);
    }
    let born = [0, 1].map(|n| machine.lruvec(ids[n]).lru_gen().max_seq());
    let (mut now, mut wakeups) = (Millis(0), 0);
    while now.0 <= MINUTE {
        wakeups += 1;
        let Some(next) = machine.aging_thread(now, &mut InWords) else {
            break;
        };
        now = next.max(now).after(Millis(1));
    }
    let aged = |n: usize| machine.lruvec(ids[n]).lru_gen().max_seq() - born[n];
    ([aged(0), aged(1)], wakeups)
}

/// Adds the tables and claims to `outcome`.
pub(super) fn run(outcome: &mut Outcome) {
    refreshes(outcome);
    announcements(outcome);
    let mut table = Table::new(
        "The aging thread in a minute",
        &[
            "intervals (s)",
            "agings of the first",
            "of the second",
            "wakeups",
        ],
    );
    for intervals in [[1000, 3000], [5000, 0], [0, 0]].map(|both| both.map(Millis)) {
        let ([first, second], wakeups) = aging_thread(intervals);
        let text = intervals.map(|interval| (interval.0 / 1000).to_string());
        let mut row = vec![Cell::Text(text.join(", "))];
        row.extend([first, second, wakeups].map(Cell::Count));
        table.row(row);
        let most = |n: usize| {
            intervals[n]
                .0
                .checked_div(1)
                .map_or(0, |i| MINUTE.checked_div(i).unwrap_or(0))
        };
        outcome.claims.push(Claim {
            what: format!(
                "aging thread, {} s: no more agings than intervals",
                text.join(", ")
            ),
            document: None,
            ours: number(first + second),
            holds: first <= most(0)
                && second <= most(1)
                && (most(0) == 0 || first * 10 >= most(0) * 8),
        });
    }
    outcome.tables.push(table);
}

fn refreshes(outcome: &mut Outcome) {
    let mut table = Table::new(
        "A minute of reads every 100 ms",
        &["refresh interval (s)", "agings", "different reports"],
    );
    let mut good = true;
    for interval in [0, 1, 5, 20] {
        let (agings, reports) = reads(Millis(interval * 1000));
        let most = 60u64.checked_div(interval).unwrap_or(0);
        good &= agings <= most && (reports > 0) == (interval > 0);
        table.row([interval, agings, reports].map(Cell::Count).to_vec());
    }
    outcome.tables.push(table);
    outcome.claims.push(Claim {
        what: "reads age once an interval at most, and report nothing while disabled".to_owned(),
        document: None,
        ours: f64::from(u8::from(good)),
        holds: good,
    });
}

fn announcements(outcome: &mut Outcome) {
    let mut table = Table::new(
        "Announcements in a minute of reclaim every 100 ms",
        &["reclaim", "threshold (s)", "reader", "announcements"],
    );
    let mut count = |reason: ScanReason, threshold: u64, reader: bool| {
        let reported = announced(reason, Millis(threshold * 1000), reader);
        table.row(vec![
            Cell::Text(format!("{reason:?}").to_lowercase()),
            Cell::Count(threshold),
            Cell::Text(if reader { "reads" } else { "ignores them" }.to_owned()),
            Cell::Count(reported),
        ]);
        reported
    };
    let direct = count(ScanReason::Direct, 2, true);
    let ignored = count(ScanReason::Direct, 2, false);
    let off = count(ScanReason::Direct, 0, true);
    let proactive = count(ScanReason::Proactive, 2, true);
    outcome.tables.push(table);
    let claim = |what: &str, ours, holds| Claim {
        what: what.to_owned(),
        document: None,
        ours: number(ours),
        holds,
    };
    outcome.claims.extend([
        claim(
            "announced at most once a threshold to who reads",
            direct,
            (1..=30).contains(&direct),
        ),
        claim(
            "announced again and again to who does not",
            ignored,
            ignored > direct,
        ),
        claim(
            "announced without a threshold, or by proactive reclaim",
            off + proactive,
            off + proactive == 0,
        ),
    ]);
}
