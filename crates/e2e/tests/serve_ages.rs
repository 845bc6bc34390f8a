//! Ages of many tenants are as true as those of one process: sixteen programs record when they
//! touched each of their pages, and `memory.workingset.page_age` of their tenants must agree.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::aged::now_ns;
use e2e::subject::AgesSubject;
use e2e::temp::serial;
use e2e::tenants::Tree;
use e2e::verdict::{Bin, ScanTimes, groups, judge};

/// Number of tenants, each with one program.
const TENANTS: usize = 16;
/// Time between two scans of the tree.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// Seconds of watching: enough to tell apart the classes touched every 1, 4 and 16 s, and untouched
/// memory.
const WATCH_SECONDS: u64 = 22;
/// Upper edges of the bins, milliseconds.
const EDGES: [u64; 8] = [1000, 2000, 3000, 5000, 7000, 11_000, 17_000, 20_000];
/// Kinds of memory, one per tenant in turn: private; written after a fork; of a memory file;
/// inherited by a child that still shares it.
const KINDS: [&str; 4] = ["anon", "cow", "memfd", "forked"];
/// Smallest accepted share of a tenant's pages in a bin that is right within one interval.
const RIGHT_SHARE_MIN: f64 = 0.99;

/// Parses the bins of a page-age report, all nodes together. In the file each bin has its upper
/// edge; a `Bin` has its lower edge.
fn bins(text: &str) -> Vec<Bin> {
    let mut found: Vec<Bin> = Vec::new();
    let mut lower = 0;
    for line in text.lines().filter(|line| !line.starts_with('N')) {
        let mut words = line.split(' ');
        let edge: u64 = words
            .next()
            .and_then(|word| word.parse().ok())
            .expect("an edge");
        let mut bytes = |name: &str| -> u64 {
            let word = words.next().and_then(|word| word.strip_prefix(name));
            word.and_then(|word| word.parse().ok()).expect("bytes")
        };
        found.push(Bin {
            older_than_ms: lower,
            anon_bytes: bytes("anon="),
            file_bytes: bytes("file="),
        });
        lower = edge;
    }
    found
}

#[test]
fn the_page_ages_of_sixteen_tenants_are_right() {
    let _serial = serial();
    // A pass between a walk and the clearing of bits is seen by no scan, as in `report_truth`.
    // Scans and passes are both one second apart, so the second try starts `serve` anew.
    if let Err(text) = all_are_right() {
        eprintln!("once more, for: {text}");
        all_are_right().unwrap_or_else(|text| panic!("{text}"));
    }
}

/// Checks all sixteen tenants; the error names the first wrong tenant.
fn all_are_right() -> Result<(), String> {
    let tree = Tree::serve(&["--age-every", "1s"]);
    let edges: Vec<String> = EDGES.iter().map(u64::to_string).collect();
    tree.write(
        "node0/workingset_report/page_age_intervals",
        &edges.join(","),
    );
    let names: Vec<String> = (0..TENANTS).map(|number| format!("t{number}")).collect();
    let begin = now_ns();
    let programs: Vec<AgesSubject> = names
        .iter()
        .zip(KINDS.iter().cycle())
        .map(|(name, kind)| {
            tree.make(name);
            tree.write(
                &format!("{name}/memory.workingset.refresh_interval"),
                "N0=100",
            );
            AgesSubject::start_under(tree.inside(name), 8, 120, &[kind])
        })
        .collect();
    std::thread::sleep(Duration::from_secs(WATCH_SECONDS));
    let every = u64::try_from(SCAN_INTERVAL.as_nanos()).unwrap_or(u64::MAX);
    for (name, ages) in names.iter().zip(&programs) {
        let before = now_ns();
        let text = tree.read(&format!("{name}/memory.workingset.page_age"));
        let after = now_ns();
        // The last scan was at most one interval before the request; up to half an interval more on
        // a busy machine.
        let scan = ScanTimes {
            begin: before.saturating_sub(every + every / 2),
            end: after,
            interval: every,
            watched: after - begin,
        };
        let expected = groups(&ages.printed, &ages.table(), &scan).expect("a truth");
        let expected: Vec<_> = expected.into_iter().filter(|group| !group.file).collect();
        let bins = bins(&text);
        assert_eq!(bins.len(), EDGES.len() + 1, "{text}");
        let verdict = judge(&expected, &bins);
        if verdict.share() < RIGHT_SHARE_MIN {
            let (share, missing) = (verdict.share(), verdict.missing);
            return Err(format!("{name}: {share:.4}: {missing:?}\n{text}"));
        }
        // The pages are spread over several bins, because the classes have different ages.
        let filled = bins.iter().filter(|bin| bin.anon_bytes > 1 << 20).count();
        assert!(filled >= 3, "{name}: {text}");
    }
    Ok(())
}
