//! Tests of the code that checks page ages for other tests: its parsers, and that it finds the
//! largest number of bytes in a report that can be right.

#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::ages::{Printed, Table};
use e2e::verdict::{Bin, Group, ScanTimes, Verdict, groups, judge};
use e2e::{programs, temp};

/// A second in nanoseconds.
const S: u64 = 1_000_000_000;
/// What the program `ages` prints.
const TEXT: &str = "table path=/dev/shm/ages-a b\n\
    map kind=anon pid=7 start=0x7f0000200000 pages=10 classes=1,2,3,4 loop=0 counts=anon thp_kib=0\n\
    map kind=zero pid=7 start=0x7f0000600000 pages=1 classes=0,0,0,1 loop=0 counts=none thp_kib=0\n\
    map kind=loop pid=7 start=0x7f0000400000 pages=8 classes=0,0,0,0 loop=8 counts=anon thp_kib=0\n\
    ready pid=7 child=0 kinds=3 t0=1000\n";

/// An entry of the table: kind of memory, class, pages, end of the fill (ns), number of passes
/// begun, and begin and end of each pass (ns; an end of 0: not ended).
type Entry<'a> = (usize, usize, u64, u64, u64, &'a [(u64, u64)]);

/// Returns the bytes of a table, as the program `ages` writes it, with these entries.
fn table(entries: &[Entry]) -> Vec<u8> {
    let magic = u64::from_le_bytes(*b"PTAGES01");
    let mut words = vec![0; 8 + 8 * 5 * 24];
    words[..6].copy_from_slice(&[magic, 8, 5, 8, 7, 1000]);
    for (kind, class, pages, filled, begun, passes) in entries {
        let at = 8 + (kind * 5 + class) * 24;
        let ended = passes.iter().any(|pass| pass.1 == 0);
        let ended = begun - u64::from(ended);
        let head = [
            *kind as u64,
            *class as u64,
            *pages,
            filled - 1,
            *filled,
            *begun,
            ended,
            0,
        ];
        words[at..at + 8].copy_from_slice(&head);
        for (i, pass) in passes.iter().enumerate() {
            let slot =
                usize::try_from((begun - passes.len() as u64 + i as u64) % 8).expect("below 8");
            words[at + 8 + slot * 2..][..2].copy_from_slice(&[pass.0, pass.1]);
        }
    }
    words
        .iter()
        .flat_map(|word: &u64| word.to_le_bytes())
        .collect()
}

/// Returns the expected ages for a program with five classes of pages. The first three were touched
/// in the passes `anon`, the fourth never after the fill; a loop touches the fifth all the time.
fn truth(scan: &ScanTimes, anon: [&[(u64, u64)]; 3]) -> Result<Vec<Group>, String> {
    let entry = |class: usize, pages| (0, class, pages, S, anon[class].len() as u64, anon[class]);
    let looping = (7, 4, 8, S, 1, &[(S, S + 1)][..]);
    let never = (0, 3, 4, S, 0, &[][..]);
    let bytes = table(&[entry(0, 1), entry(1, 2), entry(2, 3), never, looping]);
    groups(&Printed::parse(TEXT)?, &Table::parse(&bytes)?, scan)
}

/// Bins of anonymous pages from pairs of lower edge (ms) and number of pages.
fn bins(anon_pages: &[(u64, u64)]) -> Vec<Bin> {
    let bin = |(older_than_ms, pages): &(u64, u64)| Bin {
        older_than_ms: *older_than_ms,
        anon_bytes: pages * 4096,
        file_bytes: 0,
    };
    anon_pages.iter().map(bin).collect()
}

/// A group of anonymous pages; `ages`: the youngest and the oldest age that is right.
fn group(kind: usize, pages: u64, ages: (u64, u64)) -> Group {
    Group {
        kind,
        class: 0,
        file: false,
        bytes: pages * 4096,
        ages,
    }
}

#[test]
fn lines_are_read_and_must_add_up() {
    let printed = Printed::parse(TEXT).unwrap();
    assert_eq!(printed.table, "/dev/shm/ages-a b");
    assert_eq!((printed.pid, printed.child, printed.t0), (7, 0, 1000));
    assert_eq!(printed.maps[0].start, 0x7f00_0020_0000);
    assert_eq!(printed.maps[0].classes, [1, 2, 3, 4, 0]);
    assert_eq!(printed.maps[2].classes, [0, 0, 0, 0, 8]);
    for (from, to) in [
        ("1,2,3,4", "1,2,3,5"),
        ("kinds=3", "kinds=2"),
        ("pages=10", "pages=ten"),
        ("ready", "steady"),
        ("table path=/dev/shm/ages-a b\n", ""),
        ("kind=zero", "kind=one"),
    ] {
        assert!(Printed::parse(&TEXT.replacen(from, to, 1)).is_err(), "{to}");
    }
    assert!(Printed::parse(TEXT.split("ready").next().unwrap()).is_err());
}

#[test]
fn the_per_page_file_is_split_by_map() {
    let printed = Printed::parse(TEXT).unwrap();
    let bytes = [3, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4];
    let parts = printed.split(&bytes).unwrap();
    assert_eq!(parts, [&bytes[..10], &bytes[10..11], &bytes[11..]]);
    assert!(printed.split(&bytes[..18]).is_err());
    assert!(printed.split(&[&bytes[..], &[4]].concat()).is_err());
    assert!(printed.split(&[0; 19]).is_err());
}

#[test]
fn a_table_and_its_ring_of_passes_are_parsed() {
    let passes: Vec<(u64, u64)> = (5..13).map(|n| (n * S, n * S + 3)).collect();
    let bytes = table(&[(0, 0, 9, S, 13, &passes)]);
    let read = Table::parse(&bytes).unwrap().0;
    assert_eq!((read.len(), read[0].begun), (1, 13));
    assert_eq!(read[0].passes, passes);
    let mut open = passes.clone();
    open[7].1 = 0;
    let read = Table::parse(&table(&[(0, 0, 9, S, 13, &open)])).unwrap().0;
    assert_eq!(read[0].passes, open);
    let mut torn = passes.clone();
    torn[2] = torn[6];
    assert!(Table::parse(&table(&[(0, 0, 9, S, 13, &torn)])).is_err());
    assert!(Table::parse(&bytes[8..]).is_err());
    assert!(Table::parse(&bytes[..bytes.len() - 8]).is_err());
    assert!(Table::parse(&[]).is_err());
}

#[test]
fn true_ages_follow_from_the_passes() {
    let scan = ScanTimes {
        begin: 20 * S,
        end: 20 * S + 10,
        interval: 0,
        watched: 100 * S,
    };
    // Class 0 has a pass during the scan, class 1 one before the scan, class 2 none since the
    // program filled its memory.
    let every_1 = [(18 * S, 18 * S + 5), (19 * S, 19 * S + 5), (20 * S + 4, 0)];
    let every_4 = [
        (14 * S, 14 * S + 5),
        (18 * S, 18 * S + 5),
        (22 * S, 22 * S + 5),
    ];
    let ages = truth(&scan, [&every_1, &every_4, &[]]).unwrap();
    let ages: Vec<(u64, u64)> = ages.iter().map(|group| group.ages).collect();
    assert_eq!(ages[0], (0, S + 10));
    assert_eq!(ages[1], (2 * S - 5, 2 * S + 10));
    assert_eq!(ages[2], (19 * S, 19 * S + 11));
    assert_eq!(ages[3], (19 * S, 19 * S + 11));
    assert_eq!(ages[4], (0, 0));
    // No age exceeds the watched time; each may be wrong by one scan interval.
    let seen = ScanTimes {
        interval: S,
        watched: 3 * S,
        ..scan
    };
    let ages = truth(&seen, [&every_1, &every_4, &[]]).unwrap();
    assert_eq!(ages[1].ages, (S - 5, 3 * S + 10));
    assert_eq!(ages[3].ages, (2 * S, 4 * S));
}

#[test]
fn a_table_read_too_late_is_an_error() {
    let scan = ScanTimes {
        begin: 3 * S,
        end: 3 * S,
        interval: 0,
        watched: S,
    };
    let passes: Vec<(u64, u64)> = (5..13).map(|n| (n * S, n * S + 3)).collect();
    let bytes = table(&[
        (0, 0, 1, S, 13, &passes),
        (0, 1, 2, S, 0, &[]),
        (0, 2, 3, S, 0, &[]),
        (0, 3, 4, S, 0, &[]),
        (7, 4, 8, S, 0, &[]),
    ]);
    let table = Table::parse(&bytes).unwrap();
    assert!(groups(&Printed::parse(TEXT).unwrap(), &table, &scan).is_err());
}

#[test]
fn a_right_report_is_right_and_a_shifted_one_is_not() {
    let scan = ScanTimes {
        begin: 20 * S,
        end: 20 * S,
        interval: S / 10,
        watched: 100 * S,
    };
    let passes: [&[(u64, u64)]; 3] = [
        &[(19 * S, 19 * S)],
        &[(17 * S, 17 * S)],
        &[(10 * S, 10 * S)],
    ];
    let groups = truth(&scan, passes).unwrap();
    // Right: the loop's pages below 0.5 s, the classes at 1, 3 and 10 s, untouched pages at 19 s.
    // Two pages more than expected are other memory of the program.
    let right = judge(
        &groups,
        &bins(&[(0, 8), (500, 1), (2000, 2), (8000, 3), (15000, 6)]),
    );
    assert!((right.share() - 1.0).abs() < 1e-9 && right.missing.is_empty());
    assert_eq!((right.expected, right.reported), (18 * 4096, 20 * 4096));
    assert!((right.share_at_least() - 16.0 / 18.0).abs() < 1e-9);
    let shifted = judge(
        &groups,
        &bins(&[(0, 9), (500, 2), (2000, 3), (8000, 4), (15000, 0)]),
    );
    assert_eq!(shifted.matched, (8 + 1 + 2 + 3) * 4096);
    assert_eq!(
        shifted.missing.iter().map(|(_, bytes)| bytes).sum::<u64>(),
        4 * 4096
    );
    assert_eq!(judge(&groups, &[]).matched, 0);
    assert!((Verdict::default().share() - 1.0).abs() < 1e-9);
}

#[test]
fn files_do_not_fill_in_for_anonymous_memory() {
    let mut of = vec![group(0, 5, (0, S)), group(2, 5, (0, S))];
    of[1].file = true;
    let bin = Bin {
        older_than_ms: 0,
        anon_bytes: 10 * 4096,
        file_bytes: 2 * 4096,
    };
    assert_eq!(judge(&of, &[bin]).matched, 7 * 4096);
}

/// Tries all ways of assigning the pages of each group to the bins that allow its ages; returns the
/// largest number of pages that can be assigned.
fn most_pages(groups: &[Group], free: &mut [(u64, u64, u64)]) -> u64 {
    let Some((first, rest)) = groups.split_first() else {
        return 0;
    };
    if first.bytes == 0 {
        return most_pages(rest, free);
    }
    let less = Group {
        bytes: first.bytes - 4096,
        ..*first
    };
    let remaining = [&[less], rest].concat();
    let mut best = most_pages(&remaining, free);
    for i in 0..free.len() {
        let (from, to, pages) = free[i];
        if pages > 0 && first.ages.0 < to && first.ages.1 >= from {
            free[i].2 -= 1;
            best = best.max(1 + most_pages(&remaining, free));
            free[i].2 += 1;
        }
    }
    best
}

#[test]
fn no_other_assignment_finds_more() {
    let mut state = 9_u64;
    let mut next = |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % limit
    };
    for _ in 0..300 {
        let mut of = Vec::new();
        for kind in 0..3 {
            let from = next(4);
            of.push(group(kind, next(3), (from * S, (from + next(3)) * S)));
        }
        let pages: Vec<u64> = (0..4).map(|_| next(3)).collect();
        let edges: Vec<_> = (0..4)
            .map(|i| i * 1000)
            .zip(pages.iter().copied())
            .collect();
        let end = |i: u64| if i == 4 { u64::MAX } else { i * S };
        let sizes = (0..4).zip(&pages);
        let mut free: Vec<_> = sizes
            .map(|(i, pages)| (i * S, end(i + 1), *pages))
            .collect();
        let found = judge(&of, &bins(&edges)).matched;
        assert_eq!(found, most_pages(&of, &mut free) * 4096, "{of:?} {pages:?}");
    }
}

/// The C program `ages` prints the formats that the checker parses: its output and its table can be
/// parsed and agree.
#[test]
fn the_output_of_ages_can_be_parsed_and_agrees_with_its_table() {
    let _serial = temp::serial();
    let folder = temp::TempDir::new();
    // The program ends when its standard input does: at the latest when this test is over.
    let mut child = Command::new(programs::c("ages"))
        .args(["4", "60", "--per-page", "classes"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("ages starts");
    let mut text = String::new();
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    while !text.contains("\nready ") {
        assert_ne!(lines.read_line(&mut text).expect("text"), 0, "{text}");
    }
    let printed = Printed::parse(&text).unwrap();
    assert_eq!((printed.maps.len(), printed.pid), (8, child.id()));
    let classes = std::fs::read(folder.path().join("classes")).unwrap();
    assert_eq!(printed.split(&classes).unwrap().len(), 8);
    std::thread::sleep(Duration::from_millis(4500));
    let read = || Table::parse(&std::fs::read(&printed.table).expect("the table is there"));
    let table = read().or_else(|_| read()).unwrap();
    let reported = [1, 2, 3, 4].map(|second| {
        let begin = printed.t0 + second * S + S / 5;
        let scan = ScanTimes {
            begin,
            end: begin,
            interval: 0,
            watched: 10 * S,
        };
        groups(&printed, &table, &scan).unwrap()
    });
    for expected in &reported {
        assert_eq!(expected.iter().filter(|group| group.class == 0).count(), 6);
        let is_known = |group: &Group| group.ages.1 < 10 * S;
        assert!(expected.iter().all(is_known), "{expected:?}");
    }
    // A busy machine may delay one pass, but hardly one in each of the four reports.
    let is_in_time = |group: &Group| group.class > 0 || group.ages.1 < S;
    let some = reported.iter().any(|all| all.iter().all(is_in_time));
    assert!(some, "{reported:?}");
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
    assert!(!std::path::Path::new(&printed.table).exists());
}
