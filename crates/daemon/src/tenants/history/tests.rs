//! Tests of what the history keeps, and of its size.

use std::path::PathBuf;

use host::manage::tenants::figures::{Figures, NodeFigures};
use host::system::pressure::{Pressure, Stall};
use proptest::prelude::*;

use super::file::{load, save};
use super::*;

const MINUTE: u64 = 60_000;
/// A time in milliseconds since 1970 at which a column of every tier begins.
const BEGIN: u64 = 1_800_000 * 1_000_000;

fn tenant(path: &str, bytes: u64, events: u64) -> TenantFigures {
    let mut node = NodeFigures {
        unknown: [0, PAGE_SIZE],
        ..NodeFigures::default()
    };
    node.ages[0][0] = bytes;
    node.ages[1][7] = 2 * PAGE_SIZE;
    TenantFigures {
        path: path.into(),
        nodes: vec![node, node],
        swapped: 3 * PAGE_SIZE,
        charged: None,
        refaults: [events, 2 * events],
        steals: [
            ("kswapd", 0),
            ("direct", events),
            ("proactive", 0),
            ("kernel", events),
        ],
        left_out_groups: 0,
        late_seconds: None,
        unread: 0,
        pressure: Some(Pressure {
            some: Stall {
                total_us: events * 1000,
                ..Stall::default()
            },
            full: None,
        }),
    }
}

fn snapshot(at_ms: u64, tenants: Vec<TenantFigures>) -> Snapshot {
    Snapshot {
        at_ms,
        nodes: vec![0, 1],
        figures: Figures {
            tenants,
            ..Figures::default()
        },
        curves: Vec::new(),
        names: std::sync::Arc::default(),
        price: host::report::Price::default(),
        swap: None,
        actions: vec![Action {
            at_ms,
            text: "did".to_owned(),
        }],
    }
}

#[test]
fn figures_are_kept_at_their_time() {
    let mut history = History::default();
    for n in 0..40 {
        let tenants = vec![
            tenant("", 100 * PAGE_SIZE, n * 5),
            tenant("web", n * PAGE_SIZE, n),
        ];
        history.push(&snapshot(BEGIN + n * 10_000, tenants));
    }
    let now = BEGIN + 39 * 10_000;
    let track = history.track(Range::Day, "/web", now);
    let there: Vec<Moment> = track.columns.iter().flatten().copied().collect();
    assert_eq!((track.columns.len(), there.len()), (288, 2));
    // Five minutes with 30 snapshots; the first one has no earlier snapshot.
    let first = there[0];
    assert_eq!(
        first.ages[0],
        2 * 29 * PAGE_SIZE,
        "of both nodes, the newest"
    );
    assert_eq!(
        (first.ages[7], first.unknown, first.swapped),
        (4 * PAGE_SIZE, 2 * PAGE_SIZE, 3 * PAGE_SIZE)
    );
    assert_eq!(first.back, Some(3 * 29 * MINUTE / 290_000));
    assert_eq!(
        first.waited,
        Some(1),
        "29 ms of 290 s, hundredths of a percent"
    );
    assert_eq!(
        track
            .columns
            .last()
            .copied()
            .flatten()
            .map(|last| last.ages[0]),
        Some(2 * 39 * PAGE_SIZE)
    );
    let strips = history.strips(Range::Hour, 60, now);
    assert_eq!(strips.keys().copied().collect::<Vec<_>>(), ["/", "/web"]);
    assert_eq!(strips["/web"].iter().flatten().count(), 7);
    assert_eq!(
        history.recent(now)["/web"].back,
        Some(18),
        "three each ten seconds"
    );
    assert_eq!(history.actions().count(), 40);
    assert!(history.has("/web") && !history.has("/we"));
}

/// Counters that restart, or that were unknown before, do not count as a million refaults.
#[test]
fn counters_that_begin_anew_add_no_events() {
    let mut history = History::default();
    for (n, events) in [(0, 1_000_000), (1, 1_000_010), (2, 4), (3, 5)] {
        history.push(&snapshot(BEGIN + n * 15_000, vec![tenant("a", 0, events)]));
    }
    let track = history.track(Range::Hour, "/a", BEGIN + 45_000);
    let back: Vec<Option<u64>> = track
        .columns
        .iter()
        .flatten()
        .map(|moment| moment.back)
        .collect();
    assert_eq!(back, [None, Some(3 * 10 * 4), Some(3 * 4 * 4), Some(3 * 4)]);
}

/// More tenants, with longer names, than fit: the oldest data is dropped, and the size stays in its
/// bound.
#[test]
fn it_stays_within_its_bound() {
    let mut history = History::default();
    for n in 0..40u64 {
        let one = |number: usize| {
            tenant(
                &format!("{}{n}-{number}", "long".repeat(40)),
                PAGE_SIZE << (number % 30),
                n,
            )
        };
        let tenants = (0..2_000).map(one).collect();
        history.push(&snapshot(BEGIN + n * 5 * MINUTE, tenants));
        assert!(history.bytes() <= BYTES_MAX, "{n}: {}", history.bytes());
        assert!(history.encode().len() <= BYTES_MAX, "{n}");
    }
    let now = BEGIN + 39 * 5 * MINUTE;
    let newest = format!("/{}39-1999", "long".repeat(40));
    assert!(
        history.track(Range::Hour, &newest, now).last().is_some(),
        "the newest is there"
    );
    let oldest = format!("/{}0-0", "long".repeat(40));
    history.forget_names();
    assert!(!history.has(&oldest), "the oldest is not");
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("pagetide-history-{}-{name}", std::process::id()))
}

fn some() -> History {
    let mut history = History::default();
    for n in 0..5u64 {
        let tenants = vec![
            tenant("", 9 * PAGE_SIZE, n),
            tenant("a\u{e4}", n * PAGE_SIZE, 0),
        ];
        history.push(&snapshot(BEGIN + n * 400_000, tenants));
    }
    history
}

#[test]
fn a_restart_continues_the_history() {
    let file = path("restart");
    let before = some();
    save(&file, &before.encode()).expect("written");
    let (mut after, note) = load(&file).expect("ours");
    assert_eq!(note, None);
    let now = BEGIN + 4 * 400_000;
    for range in Range::ALL {
        assert_eq!(after.track(range, "/", now), before.track(range, "/", now));
    }
    assert_eq!(after.actions().count(), before.actions().count());
    after.push(&snapshot(now + 10_000, vec![tenant("", PAGE_SIZE, 9)]));
    let track = after.track(Range::Week, "/", now + 10_000);
    assert_eq!(
        track.last().map(|moment| moment.ages[0]),
        Some(2 * PAGE_SIZE)
    );
    let none = load(&path("nowhere")).expect("nothing is there");
    assert_eq!(none, (History::default(), None));
    std::fs::remove_file(file).expect("ours");
}

#[test]
fn an_unusable_file_is_renamed_and_reported() {
    let file = path("bad");
    let good = some().encode();
    let mut changed = good.clone();
    changed[60] ^= 1;
    let mut longer = good.clone();
    longer.push(0);
    for (bytes, why) in [
        (&b""[..], "no history"),
        (b"pagetide history 2\n", "no history"),
        (&good[..20], "cut off"),
        (&good[..good.len() - 1], "cut off"),
        (&longer, "cut off"),
        (&changed, "have changed"),
    ] {
        std::fs::write(&file, bytes).expect("written");
        let (history, note) = load(&file).expect("ours");
        let note = note.expect(why);
        assert_eq!(history, History::default());
        assert!(
            note.contains(why) && note.contains("begins anew") && note.contains(".bad"),
            "{note}"
        );
        assert!(!file.exists());
    }
    std::fs::remove_file(file.with_extension("bad"))
        .or_else(|_| {
            let mut aside = file.clone().into_os_string();
            aside.push(".bad");
            std::fs::remove_file(aside)
        })
        .expect("it was put aside");
}

/// Regression: if the path was a directory, a device, a link or another user's file, it was
/// renamed, and a history written in its place.
#[test]
fn another_file_is_not_touched() {
    let file = path("other");
    let refused = |why: &str| {
        let error = load(&file).expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    };
    std::fs::create_dir(&file).expect("a directory");
    refused("no file");
    std::fs::remove_dir(&file).expect("it is there still");
    std::os::unix::fs::symlink("elsewhere", &file).expect("a link");
    refused("a link");
    std::fs::remove_file(&file).expect("it is there still");
    std::fs::write(&file, "root:x:0:0\n").expect("written");
    refused("no history");
    let text = std::fs::read_to_string(&file).expect("it is there still");
    assert_eq!(text, "root:x:0:0\n");
    std::fs::remove_file(&file).expect("ours");
}

/// Returns a history file with this body and a correct hash.
fn sealed(body: &[u8]) -> Vec<u8> {
    let head = [
        &(body.len() as u64).to_le_bytes()[..],
        &crate::hash::fnv1a(body).to_le_bytes(),
    ]
    .concat();
    [b"pagetide history 1\n", &head[..], body].concat()
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(body in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let _ = (History::decode(&body), History::decode(&sealed(&body)));
        let good = some().encode();
        let mut body = good[35..].to_vec();
        prop_assert!(History::decode(&sealed(&body)).is_ok());
        let at = at.index(body.len());
        body[at] = to;
        if let Ok(history) = History::decode(&sealed(&body)) {
            let now = BEGIN + 2_000_000;
            for range in Range::ALL {
                let _ = (history.track(range, "/", now), history.strips(range, 60, now), history.recent(now));
            }
            let mut history = history;
            history.push(&snapshot(now, vec![tenant("", u64::MAX / 2, 1)]));
        }
    }
}
