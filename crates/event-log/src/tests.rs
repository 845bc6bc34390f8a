//! A recording can be read as it was written; any other input is refused. From a file that was cut
//! off, all complete scans can be read.

mod fuzz;

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::frame::{Split, split};
use crate::{Damaged, Decoded, Decoder, Encoder, Header, MAGIC, PAGE_BITS, Pages, Scan};

fn header() -> Header {
    Header {
        page_bytes: 4096,
        interval_ms: 1000,
        seed: 7,
        begun_ms: 1_700_000_000_000,
        command: "redis-server *:6379 \u{e9}".to_owned(),
    }
}

/// Reads a recording: returns its scans, and how reading ended. That is `Ok(true)` at the end mark,
/// `Ok(false)` if the file was cut off.
fn read(bytes: &[u8]) -> (Vec<Scan>, Result<bool, Damaged>) {
    let mut scans = Vec::new();
    let Some(mut left) = bytes.strip_prefix(&MAGIC) else {
        return (scans, Err(Damaged("no recording")));
    };
    let mut decoder = Decoder::default();
    let mut is_whole = false;
    while !left.is_empty() {
        let content = match split(left) {
            Split::Needs(_) => return (scans, Ok(false)),
            Split::Damaged => return (scans, Err(Damaged("no frame"))),
            Split::Whole(content) => content,
        };
        left = &left[crate::frame::PREFIX + content.len()..];
        match decoder.frame(content) {
            Err(damaged) => return (scans, Err(damaged)),
            Ok(Decoded::Scan) => scans.push(decoder.scan()),
            Ok(Decoded::End) => is_whole = true,
            Ok(Decoded::Header | Decoded::Part) => {}
        }
    }
    (scans, Ok(is_whole))
}

/// The states of a page: unmapped; present but not accessed; paged out; present and accessed.
const GONE: u8 = 0;
const IDLE: u8 = 1;
const OUT: u8 = 2;
const USED: u8 = 3;

/// A program: what each scan of it finds.
#[derive(Clone, Debug)]
struct Program {
    /// For each scan, the address spaces that it reads, by number. The value is the state of each
    /// page by page number, or `None` if the address space has ended.
    scans: Vec<BTreeMap<u32, Option<BTreeMap<u64, u8>>>>,
}

/// Converts the states of pages to bits.
fn bits(pages: &BTreeMap<u64, u8>) -> Pages {
    let mut all = Pages::default();
    for (page, state) in pages {
        let planes = all.chunk_mut(page / 512);
        let (at, bit) = ((page % 512 / 64) as usize, 1 << (page % 64));
        match *state {
            OUT => planes.out[at] |= bit,
            IDLE => planes.present[at] |= bit,
            USED => {
                planes.present[at] |= bit;
                planes.accessed[at] |= bit;
            }
            _ => {}
        }
    }
    all.prune();
    all
}

/// Returns the recording of a program, and what each of its scans must be: accessed pages, unmapped
/// pages, number of pages paged out, number of refaults.
#[expect(clippy::type_complexity, reason = "one row of a table")]
fn recorded(program: &Program) -> (Vec<u8>, Vec<(Vec<u64>, Vec<u64>, u64, u64)>) {
    let mut encoder = Encoder::new(&header());
    let (mut held, mut reported) = (BTreeMap::<u32, BTreeMap<u64, u8>>::new(), Vec::new());
    for (number, scan) in program.scans.iter().enumerate() {
        let (mut accessed, mut unmapped, mut left, mut back) = (Vec::new(), Vec::new(), 0, 0);
        for (space, pages) in scan {
            let key = |page: u64| u64::from(*space) << PAGE_BITS | page;
            let before = held.remove(space).unwrap_or_default();
            let after = pages.clone().unwrap_or_default();
            let of =
                |pages: &BTreeMap<u64, u8>, page: &u64| pages.get(page).copied().unwrap_or(GONE);
            for (page, now) in &after {
                let was = of(&before, page);
                let is_used = *now == USED || number == 0 && *now == IDLE;
                accessed.extend(is_used.then(|| key(*page)));
                left += u64::from(matches!(was, IDLE | USED) && *now == OUT);
                back += u64::from(was == OUT && matches!(*now, IDLE | USED));
            }
            let is_gone = |page: &&u64| of(&before, page) != GONE && of(&after, page) == GONE;
            unmapped.extend(before.keys().filter(is_gone).map(|page| key(*page)));
            match pages {
                Some(_) => {
                    encoder.space(*space, &bits(&before), &bits(&after));
                    held.insert(*space, after);
                }
                None => encoder.gone(*space),
            }
        }
        encoder.scan(number as u64 * 1000, 0);
        accessed.sort_unstable();
        unmapped.sort_unstable();
        reported.push((accessed, unmapped, left, back));
    }
    let mut bytes = encoder.take();
    bytes.extend(Encoder::end_of(reported.len() as u64));
    (bytes, reported)
}

/// Makes random programs.
fn programs() -> impl Strategy<Value = Program> {
    let page = prop_oneof![
        0..200_u64,
        500..530_u64,
        (1_u64 << PAGE_BITS) - 70..1 << PAGE_BITS
    ];
    let pages = prop::collection::btree_map(page, 0..4_u8, 0..120);
    let space = (0..3_u32, prop::option::weighted(0.9, pages));
    let scan = prop::collection::vec(space, 0..3).prop_map(|all| all.into_iter().collect());
    prop::collection::vec(scan, 1..8).prop_map(|scans| Program { scans })
}

/// The numbers of all pages of the units, ascending.
fn pages_of(units: &[crate::Unit]) -> Vec<u64> {
    let mut all: Vec<u64> = units.iter().flat_map(|unit| unit.pages()).collect();
    all.sort_unstable();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(80) })]

    #[test]
    fn what_is_written_can_be_read(program in programs()) {
        let (bytes, reported) = recorded(&program);
        let (scans, end) = read(&bytes);
        prop_assert_eq!(end, Ok(true));
        prop_assert_eq!(scans.len(), reported.len());
        for (scan, (accessed, unmapped, left, back)) in scans.iter().zip(reported) {
            prop_assert_eq!(pages_of(&scan.accessed), accessed);
            prop_assert_eq!(pages_of(&scan.unmapped), unmapped);
            prop_assert_eq!((scan.left, scan.back), (left, back));
        }
        prop_assert_eq!(read(&bytes).0, scans, "the same bytes give the same order");
    }

    #[test]
    fn a_truncated_recording_yields_its_complete_scans(program in programs(), part in 0.0..1.0_f64) {
        let (bytes, _) = recorded(&program);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a share")]
        let cut = MAGIC.len() + ((bytes.len() - MAGIC.len()) as f64 * part) as usize;
        let (all, _) = read(&bytes);
        let (some, end) = read(&bytes[..cut]);
        prop_assert_eq!(end, Ok(false));
        prop_assert!(some.len() <= all.len() && some[..] == all[..some.len()]);
    }

    /// If one byte of a file is changed, reading ends before the end mark, with scans of the
    /// original only.
    #[test]
    fn a_changed_byte_ends_reading(program in programs(), at in any::<prop::sample::Index>(), with in 1..=255_u8) {
        let (bytes, _) = recorded(&program);
        let mut changed = bytes.clone();
        changed[at.index(bytes.len())] ^= with;
        let (scans, end) = read(&changed);
        prop_assert!(end.is_err() || end == Ok(false), "a changed byte is found: {end:?}");
        let (all, _) = read(&bytes);
        prop_assert!(scans[..] == all[..scans.len().min(all.len())]);
    }

    /// A forged file has correct checksums: reading it yields at most one scan for each frame.
    #[test]
    fn forged_recordings_are_refused_or_bounded(program in programs(), forge in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let (bytes, _) = recorded(&program);
        let (mut contents, mut left) = (Vec::new(), &bytes[MAGIC.len()..]);
        while let Split::Whole(content) = split(left) {
            contents.push(content.to_vec());
            left = &left[crate::frame::PREFIX + content.len()..];
        }
        for (frame, at, with) in forge {
            let frame = frame.index(contents.len());
            let at = at.index(contents[frame].len());
            contents[frame][at] = with;
        }
        let mut forged = MAGIC.to_vec();
        contents.iter().for_each(|content| crate::frame::put(&mut forged, content));
        let (scans, _) = read(&forged);
        prop_assert!(scans.len() <= contents.len());
    }

    #[test]
    fn any_content_is_refused_or_bounded(contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..60), 1..6)) {
        let mut decoder = Decoder::default();
        let mut first = vec![crate::item::HEADER];
        header().put(&mut first);
        prop_assert_eq!(decoder.frame(&first), Ok(Decoded::Header));
        for content in contents {
            match decoder.frame(&content) {
                Ok(Decoded::Scan) => drop(decoder.scan()),
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }
}

/// Regression: an item of ten bytes could make the decoder take all memory. [`crate::CHUNKS_MAX`]
/// prevents that.
#[test]
fn a_run_of_all_pages_is_refused() {
    let mut decoder = Decoder::default();
    let mut first = vec![crate::item::HEADER];
    header().put(&mut first);
    assert_eq!(decoder.frame(&first), Ok(Decoded::Header));
    assert_eq!(decoder.header(), Some(&header()));
    let mut content = vec![2, 1, 3, 0, 1, 0];
    crate::varint::put(&mut content, (1 << PAGE_BITS) - 1);
    assert_eq!(
        decoder.frame(&content),
        Err(Damaged("more pages than an address space can have"))
    );
}

/// The first scan of a large program is longer than a frame.
#[test]
fn a_scan_of_many_runs_is_several_frames() {
    let pages: BTreeMap<u64, u8> = (0..100_000).map(|n| (n * 3, USED)).collect();
    let program = Program {
        scans: vec![[(5, Some(pages.clone()))].into(), [(5, Some(pages))].into()],
    };
    let (bytes, reported) = recorded(&program);
    let (scans, end) = read(&bytes);
    assert_eq!((end, scans.len()), (Ok(true), 2));
    assert_eq!(pages_of(&scans[0].accessed), reported[0].0);
    assert_ne!(
        scans[0].accessed, scans[1].accessed,
        "each look has its order"
    );
    assert_eq!(pages_of(&scans[1].accessed), reported[1].0);
}

/// If a program accesses the same pages in every scan, each scan takes at most 20 bytes.
#[test]
fn unchanged_pages_take_few_bytes() {
    let pages: BTreeMap<u64, u8> = (0..50_000).map(|n| (n * 2, USED)).collect();
    let same = || [(0, Some(pages.clone()))].into();
    let one = Program {
        scans: vec![same()],
    };
    let many = Program {
        scans: (0..11).map(|_| same()).collect(),
    };
    let more = recorded(&many).0.len() - recorded(&one).0.len();
    assert!(more < 10 * 20, "{more} bytes for ten looks");
}
