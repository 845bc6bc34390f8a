//! Decoders are total: true encodings come back, anything else is an error and nothing worse.
#![cfg(feature = "decode")]

use std::cell::RefCell;
use std::fmt::Debug;

use keeper::decode::{Corrupt, Scratch, decode};
use keeper::word::{Kind, PAGE_SIZE};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{RngSeed, TestRunner};

const KINDS: [Kind; 5] = [Kind::Same, Kind::Lz4, Kind::Zstd, Kind::Raw, Kind::Snapshot];

fn scratch() -> Scratch {
    Scratch::new().expect("memory")
}

/// Runs `test` on `cases` random inputs and prints the seed.
fn run<S: Strategy>(cases: u32, input: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>)
where
    S::Value: Debug,
{
    let seed = std::env::var("PAGETIDE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("PAGETIDE_SEED={seed} repeats this run");
    let config = ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    TestRunner::new(config)
        .run(input, test)
        .unwrap_or_else(|failure| panic!("{failure}"));
}

fn lz4(page: &[u8]) -> Vec<u8> {
    let mut out = vec![0; lz4_flex::block::get_maximum_output_size(page.len())];
    let len = lz4_flex::block::compress_into(page, &mut out).expect("room enough");
    out.truncate(len);
    out
}

fn zstd(page: &[u8]) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(page.len())];
    let len = zstd_safe::compress(&mut out[..], page, 3).expect("room enough");
    out.truncate(len);
    out
}

fn encode(kind: Kind, page: &[u8]) -> Vec<u8> {
    match kind {
        Kind::Same => page[..4].to_vec(),
        Kind::Lz4 => lz4(page),
        Kind::Zstd => zstd(page),
        Kind::Raw | Kind::Snapshot => page.to_vec(),
    }
}

/// Pages of few symbols, so that every kind of sequence and table of the formats turns up.
fn pages(len: usize) -> impl Strategy<Value = Vec<u8>> {
    let word = prop::collection::vec(any::<u8>(), 1..40);
    let words = prop::collection::vec(word, 1..60);
    (words, prop::collection::vec(any::<Index>(), len)).prop_map(move |(words, at)| {
        at.iter()
            .flat_map(|at| at.get(&words).clone())
            .take(len)
            .collect()
    })
}

#[test]
fn true_encodings_come_back() {
    let scratch = RefCell::new(scratch());
    run(256, &pages(PAGE_SIZE), |bytes| {
        for kind in [Kind::Lz4, Kind::Zstd, Kind::Raw, Kind::Snapshot] {
            let mut page = [0xa5; PAGE_SIZE];
            let encoded = encode(kind, &bytes);
            let result = decode(kind, &encoded, &mut page, &mut scratch.borrow_mut());
            prop_assert_eq!(result, Ok(()));
            prop_assert!(page[..] == bytes[..], "{:?} gives another page", kind);
        }
        Ok(())
    });
}

#[test]
fn a_word_is_repeated() {
    let mut page = [0; PAGE_SIZE];
    assert_eq!(
        decode(Kind::Same, &[1, 2, 3, 4], &mut page, &mut scratch()),
        Ok(())
    );
    assert!(page.chunks(4).all(|word| word == [1, 2, 3, 4]));
}

#[test]
fn changed_encodings_are_survived_and_not_remembered() {
    let scratch = RefCell::new(scratch());
    let change = (any::<Index>(), any::<u8>());
    let changes = prop::collection::vec(change, 0..12);
    let input = (
        prop::sample::select(KINDS.to_vec()),
        pages(PAGE_SIZE),
        changes,
        any::<Index>(),
    );
    let good = zstd(&[7u8; PAGE_SIZE]);
    run(4096, &input, |(kind, bytes, changes, cut)| {
        let mut encoded = encode(kind, &bytes);
        for (at, byte) in changes {
            let at = at.index(encoded.len());
            encoded[at] ^= byte;
        }
        if cut.index(4) == 0 {
            encoded.truncate(cut.index(encoded.len()));
        }
        // A guard on either side would show a write past the page.
        let mut guarded = [[0xa5u8; PAGE_SIZE]; 3];
        let mut scratch = scratch.borrow_mut();
        let _ = decode(kind, &encoded, &mut guarded[1], &mut scratch);
        prop_assert!(guarded[0] == [0xa5; PAGE_SIZE] && guarded[2] == [0xa5; PAGE_SIZE]);
        let result = decode(Kind::Zstd, &good, &mut guarded[1], &mut scratch);
        prop_assert_eq!(result, Ok(()));
        prop_assert!(
            guarded[1] == [7; PAGE_SIZE],
            "the decoder remembers the last page"
        );
        Ok(())
    });
}

#[test]
fn noise_of_any_length_is_survived() {
    let scratch = RefCell::new(scratch());
    let magic = 0xfd2f_b528_u32.to_le_bytes();
    let input = (
        prop::collection::vec(any::<u8>(), 0..=PAGE_SIZE),
        any::<bool>(),
    );
    run(4096, &input, |(mut bytes, frame)| {
        if frame {
            bytes.splice(0..0, magic);
            bytes.truncate(PAGE_SIZE);
        }
        for kind in KINDS {
            let _ = decode(kind, &bytes, &mut [0; PAGE_SIZE], &mut scratch.borrow_mut());
        }
        Ok(())
    });
}

#[test]
fn pages_of_another_length_are_corrupt() {
    let mut scratch = scratch();
    let mut page = [0; PAGE_SIZE];
    for kind in KINDS {
        assert_eq!(
            decode(kind, &[], &mut page, &mut scratch),
            Err(Corrupt),
            "{kind:?}"
        );
    }
    for len in [1, 100, PAGE_SIZE - 1, PAGE_SIZE + 1, 100_000] {
        let bytes = vec![7; len];
        for kind in [Kind::Lz4, Kind::Zstd, Kind::Raw, Kind::Snapshot] {
            let result = decode(kind, &encode(kind, &bytes), &mut page, &mut scratch);
            assert_eq!(result, Err(Corrupt), "{kind:?} of {len} bytes");
        }
    }
    // A frame that claims a window of gigabytes must not make anybody ask for them.
    let huge = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0x01, 0x00, 0x00];
    assert_eq!(
        decode(Kind::Zstd, &huge, &mut page, &mut scratch),
        Err(Corrupt)
    );
}
