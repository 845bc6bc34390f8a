//! What is written comes back; whatever else comes in is refused, and a file that was cut off gives what was whole.

mod fuzz;

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::frame::{Split, split};
use crate::{Damaged, Decoded, Decoder, Encoder, Header, Look, MAGIC, PAGE_BITS, Pages};

fn header() -> Header {
    Header {
        page_bytes: 4096,
        interval_ms: 1000,
        seed: 7,
        begun_ms: 1_700_000_000_000,
        command: "redis-server *:6379 \u{e9}".to_owned(),
    }
}

/// All looks of some bytes, and how reading ended: well, cut off, or damaged.
fn read(bytes: &[u8]) -> (Vec<Look>, Result<bool, Damaged>) {
    let mut looks = Vec::new();
    let Some(mut left) = bytes.strip_prefix(&MAGIC) else {
        return (looks, Err(Damaged("no recording")));
    };
    let mut decoder = Decoder::default();
    let mut is_whole = false;
    while !left.is_empty() {
        let content = match split(left) {
            Split::Needs(_) => return (looks, Ok(false)),
            Split::Damaged => return (looks, Err(Damaged("no frame"))),
            Split::Whole(content) => content,
        };
        left = &left[crate::frame::PREFIX + content.len()..];
        match decoder.frame(content) {
            Err(damaged) => return (looks, Err(damaged)),
            Ok(Decoded::Look) => looks.push(decoder.look()),
            Ok(Decoded::End) => is_whole = true,
            Ok(Decoded::Header | Decoded::Part) => {}
        }
    }
    (looks, Ok(is_whole))
}

/// A state of a page.
const GONE: u8 = 0;
const IDLE: u8 = 1;
const OUT: u8 = 2;
const USED: u8 = 3;

/// Pages of some spaces and looks at them.
#[derive(Clone, Debug)]
struct Program {
    /// By look: by space: page and state, if it was read; and whether it is gone.
    looks: Vec<BTreeMap<u32, Option<BTreeMap<u64, u8>>>>,
}

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

/// The recording of a program, and what its looks are to say: accessed and unmapped pages, left, back.
#[expect(clippy::type_complexity, reason = "one row of a table")]
fn recorded(program: &Program) -> (Vec<u8>, Vec<(Vec<u64>, Vec<u64>, u64, u64)>) {
    let mut encoder = Encoder::new(&header());
    let (mut held, mut told) = (BTreeMap::<u32, BTreeMap<u64, u8>>::new(), Vec::new());
    for (number, look) in program.looks.iter().enumerate() {
        let (mut accessed, mut unmapped, mut left, mut back) = (Vec::new(), Vec::new(), 0, 0);
        for (space, pages) in look {
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
        encoder.look(number as u64 * 1000, 0);
        accessed.sort_unstable();
        unmapped.sort_unstable();
        told.push((accessed, unmapped, left, back));
    }
    let mut bytes = encoder.take();
    bytes.extend(Encoder::end_of(told.len() as u64));
    (bytes, told)
}

fn programs() -> impl Strategy<Value = Program> {
    let page = prop_oneof![
        0..200_u64,
        500..530_u64,
        (1_u64 << PAGE_BITS) - 70..1 << PAGE_BITS
    ];
    let pages = prop::collection::btree_map(page, 0..4_u8, 0..120);
    let space = (0..3_u32, prop::option::weighted(0.9, pages));
    let look = prop::collection::vec(space, 0..3).prop_map(|all| all.into_iter().collect());
    prop::collection::vec(look, 1..8).prop_map(|looks| Program { looks })
}

fn pages_of(units: &[crate::Unit]) -> Vec<u64> {
    let mut all: Vec<u64> = units.iter().flat_map(|unit| unit.pages()).collect();
    all.sort_unstable();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(80) })]

    #[test]
    fn what_is_written_comes_back(program in programs()) {
        let (bytes, told) = recorded(&program);
        let (looks, end) = read(&bytes);
        prop_assert_eq!(end, Ok(true));
        prop_assert_eq!(looks.len(), told.len());
        for (look, (accessed, unmapped, left, back)) in looks.iter().zip(told) {
            prop_assert_eq!(pages_of(&look.accessed), accessed);
            prop_assert_eq!(pages_of(&look.unmapped), unmapped);
            prop_assert_eq!((look.left, look.back), (left, back));
        }
        prop_assert_eq!(read(&bytes).0, looks, "the same bytes give the same order");
    }

    #[test]
    fn what_was_cut_off_gives_what_was_whole(program in programs(), part in 0.0..1.0_f64) {
        let (bytes, _) = recorded(&program);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a share")]
        let cut = MAGIC.len() + ((bytes.len() - MAGIC.len()) as f64 * part) as usize;
        let (all, _) = read(&bytes);
        let (some, end) = read(&bytes[..cut]);
        prop_assert_eq!(end, Ok(false));
        prop_assert!(some.len() <= all.len() && some[..] == all[..some.len()]);
    }

    /// Also where the checksum is right: whoever made such a file meant it.
    #[test]
    fn what_was_changed_ends_reading(program in programs(), at in any::<prop::sample::Index>(), with in 1..=255_u8) {
        let (bytes, _) = recorded(&program);
        let mut changed = bytes.clone();
        changed[at.index(bytes.len())] ^= with;
        let (looks, end) = read(&changed);
        prop_assert!(end.is_err() || end == Ok(false), "a changed byte is found: {end:?}");
        let (all, _) = read(&bytes);
        prop_assert!(looks[..] == all[..looks.len().min(all.len())]);
    }

    /// The same with a checksum that is right.
    #[test]
    fn what_was_forged_is_refused_or_bounded(program in programs(), forge in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
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
        let (looks, _) = read(&forged);
        prop_assert!(looks.len() <= contents.len());
    }

    #[test]
    fn any_content_is_refused_or_bounded(contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..60), 1..6)) {
        let mut decoder = Decoder::default();
        let mut first = vec![crate::item::HEADER];
        header().put(&mut first);
        prop_assert_eq!(decoder.frame(&first), Ok(Decoded::Header));
        for content in contents {
            match decoder.frame(&content) {
                Ok(Decoded::Look) => drop(decoder.look()),
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }
}

/// The story that the bound is for: ten bytes that claim all memory there can be.
#[test]
fn a_run_of_everything_is_refused() {
    let mut decoder = Decoder::default();
    let mut first = vec![crate::item::HEADER];
    header().put(&mut first);
    assert_eq!(decoder.frame(&first), Ok(Decoded::Header));
    assert_eq!(decoder.header(), Some(&header()));
    let mut content = vec![2, 1, 3, 0, 1, 0];
    crate::varint::put(&mut content, (1 << PAGE_BITS) - 1);
    assert_eq!(
        decoder.frame(&content),
        Err(Damaged("more pages than any program has"))
    );
}

/// A first look at a large program is longer than a frame.
#[test]
fn a_look_of_many_runs_is_several_frames() {
    let pages: BTreeMap<u64, u8> = (0..100_000).map(|n| (n * 3, USED)).collect();
    let program = Program {
        looks: vec![[(5, Some(pages.clone()))].into(), [(5, Some(pages))].into()],
    };
    let (bytes, told) = recorded(&program);
    let (looks, end) = read(&bytes);
    assert_eq!((end, looks.len()), (Ok(true), 2));
    assert_eq!(pages_of(&looks[0].accessed), told[0].0);
    assert_ne!(
        looks[0].accessed, looks[1].accessed,
        "each look has its order"
    );
    assert_eq!(pages_of(&looks[1].accessed), told[1].0);
}

/// A program that does what it did before takes some bytes a look.
#[test]
fn what_does_not_change_costs_nothing() {
    let pages: BTreeMap<u64, u8> = (0..50_000).map(|n| (n * 2, USED)).collect();
    let same = || [(0, Some(pages.clone()))].into();
    let one = Program {
        looks: vec![same()],
    };
    let many = Program {
        looks: (0..11).map(|_| same()).collect(),
    };
    let more = recorded(&many).0.len() - recorded(&one).0.len();
    assert!(more < 10 * 20, "{more} bytes for ten looks");
}
