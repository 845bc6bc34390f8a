//! Tests of workingset-report.md 7: the messages of a guest whose memory is a [`Machine`].

use super::super::tests::{Simple, machine};
use super::*;
use crate::folio::FolioId;
use crate::machine::ReclaimRequest;
use crate::memcg::MemcgProfile;
use crate::units::Pages;
use crate::workingset_report::{Bins, ReportError, config_message, read_report, request_message};

const SECOND: u64 = 1000;

fn guest() -> (Machine, MemcgId) {
    let (mut machine, ids) = machine(MemcgProfile::Newer, 2, 400);
    machine.connect_balloon(ids[0], 0);
    (machine, ids[0])
}

fn configure(machine: &mut Machine, id: MemcgId) {
    let bins = Bins::new(&[Millis(10 * SECOND)]).expect("one");
    let config = config_message(0, &bins, Millis(SECOND), Millis(5 * SECOND));
    assert_eq!(
        machine.balloon_message(id, &config, Millis(0), &mut Simple),
        None
    );
}

fn ask(machine: &mut Machine, id: MemcgId, now: u64) -> Vec<u8> {
    let now = Millis(now);
    let answer = machine.balloon_message(id, &request_message(0), now, &mut Simple);
    answer.expect("an answer")
}

#[test]
fn a_request_is_answered_with_the_guests_ages() {
    let (mut machine, id) = guest();
    let early = read_report(&ask(&mut machine, id, 1));
    assert_eq!(early, Err(ReportError::Refused(22)), "not configured");
    configure(&mut machine, id);
    // A quarter of the pages is accessed before each request. Four generations cover three
    // intervals: with a request every 5 s, the report can show pages idle for more than 10 s.
    for now in (5 * SECOND..60 * SECOND).step_by(5000) {
        (0..100).for_each(|page| {
            machine.lruvec_mut(id).touch(FolioId(page));
        });
        let read = read_report(&ask(&mut machine, id, now)).expect("configured");
        assert_eq!((read.total(), read.lines.len()), (Pages(400).bytes(), 2));
        if now > 30 * SECOND {
            let idle = read.idle_longer_than(Millis(10 * SECOND));
            assert_eq!(idle, Pages(300).bytes(), "at {now}");
        }
    }
    machine.check_invariants();
}

/// Two requests within the interval: the second gets the report of the first, and nothing is aged.
#[test]
fn a_report_is_refreshed_once_an_interval() {
    let (mut machine, id) = guest();
    configure(&mut machine, id);
    let (first, seq) = (
        ask(&mut machine, id, 5000),
        machine.lruvec(id).lru_gen().max_seq(),
    );
    assert_eq!(ask(&mut machine, id, 5900), first);
    assert_eq!(machine.lruvec(id).lru_gen().max_seq(), seq);
    ask(&mut machine, id, 6100);
    assert_eq!(machine.lruvec(id).lru_gen().max_seq(), seq + 1);
}

/// workingset-report.md 11, test 13: under pressure a guest sends reports by itself, but no more
/// often than its threshold allows.
#[test]
fn pressure_in_a_guest_is_reported_by_itself() {
    let (mut machine, id) = guest();
    let mut sent = Vec::new();
    for configured in [false, true] {
        if configured {
            configure(&mut machine, id);
        }
        for now in (20 * SECOND..40 * SECOND).step_by(500) {
            let request = ReclaimRequest::new(ScanReason::Direct, Pages(1), Millis(now));
            machine.reclaim_subtree(id, request, &mut Simple);
            for (guest, bytes) in machine.pressed_guests(Millis(now), &mut Simple) {
                assert!(guest == id && configured && read_report(&bytes).is_ok());
                sent.push(now);
            }
        }
    }
    assert_eq!(sent, [20_000, 25_000, 30_000, 35_000]);
    let mut request = ReclaimRequest::new(ScanReason::Proactive, Pages(1000), Millis(90_000));
    machine.reclaim_subtree(id, request, &mut Simple);
    assert!(machine.pressed_guests(request.now, &mut Simple).is_empty());
    // Pressure of another tenant does not make the guest send a report.
    let other = machine.create(MemcgId::ROOT, Millis(0));
    request.reason = ScanReason::Direct;
    machine.reclaim_subtree(other, request, &mut Simple);
    assert!(machine.pressed_guests(request.now, &mut Simple).is_empty());
}

#[test]
fn a_removed_guest_sends_no_report() {
    let (mut machine, id) = guest();
    configure(&mut machine, id);
    machine.unmap_range(id, FolioId(0), 400);
    machine.offline(id);
    let answer = machine.balloon_message(id, &request_message(0), Millis(9000), &mut Simple);
    assert_eq!(answer, None);
}
