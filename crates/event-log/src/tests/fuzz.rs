//! Compares the decoder with a simple decoder that stores each page separately, on random
//! recordings.

use std::collections::{BTreeMap, BTreeSet};

use ::fuzz::Chance;

use super::{header, pages_of, read};
use crate::frame::{PREFIX, Split, put, split};
use crate::{Header, MAGIC, item, varint};

/// Maximum number of page bits that the simple decoder inverts. For a recording with more, the test
/// only checks that reading ends within the bounds of memory and time.
const NAIVE_MAX: u64 = 100_000;

/// What a scan must be: accessed pages, unmapped pages, number of pages paged out, number of
/// refaults.
type DecodedScan = (Vec<u64>, Vec<u64>, u64, u64);

/// The bits of one page: present, paged out, accessed.
type Bits = [bool; 3];

/// Appends an item: the number of its kind, if any, then its values.
fn number(content: &mut Vec<u8>, tag: Option<u8>, values: &[u64]) {
    content.extend(tag);
    values.iter().for_each(|value| varint::put(content, *value));
}

/// Makes up to five runs: pages since the previous run, pages minus 1. Most are short, some are
/// very long, some have any size.
fn runs(chance: &mut Chance) -> Vec<(u64, u64)> {
    let one = |chance: &mut Chance| match chance.below(40) {
        0 => (chance.number(), chance.number()),
        1 => (0, 1 << 18),
        2 => (511, 0),
        _ => (chance.below(600) as u64, chance.below(200) as u64),
    };
    (0..chance.below(6)).map(|_| one(chance)).collect()
}

/// Makes a recording that is mostly valid, with some errors as an attacker would make them.
fn make(chance: &mut Chance) -> Vec<u8> {
    let (mut out, mut content) = (MAGIC.to_vec(), vec![item::HEADER]);
    header().put(&mut content);
    put(&mut out, &content);
    let held: Vec<_> = (0..3).map(|_| runs(chance)).collect();
    let scans = chance.below(6) as u64;
    for scan in 0..scans {
        content.clear();
        for (space, held) in (0..).zip(&held) {
            if chance.one_in(3) {
                continue;
            }
            number(&mut content, Some(item::SPACE), &[space]);
            let kind = if scan == 0 { 0 } else { 2 };
            let kind = if chance.one_in(8) {
                chance.below(4) as u64
            } else {
                kind
            };
            let other = runs(chance);
            let runs = if chance.one_in(5) { &other } else { held };
            number(&mut content, Some(item::RUNS), &[kind, runs.len() as u64]);
            for (gap, more) in runs {
                number(&mut content, None, &[*gap, *more]);
            }
            if chance.one_in(6) {
                number(&mut content, Some(item::GONE), &[chance.below(4) as u64]);
            }
            if chance.one_in(6) {
                put(&mut out, &content);
                content.clear();
            }
        }
        number(&mut content, Some(item::SCAN), &[1000, 0]);
        if chance.one_in(10) {
            let at = chance.below(content.len());
            content[at] = chance.next().to_le_bytes()[0];
        }
        put(&mut out, &content);
    }
    content.clear();
    number(&mut content, Some(item::END), &[scans]);
    put(&mut out, &content);
    out
}

/// Decodes a recording page by page, up to the first invalid byte. `None` if there are too many
/// changes ([`NAIVE_MAX`]) or a number is too large.
fn naive(bytes: &[u8]) -> Option<Vec<DecodedScan>> {
    let mut left = bytes.strip_prefix(&MAGIC)?;
    let (mut pages, mut before) = (BTreeMap::<(u64, u64), Bits>::new(), BTreeMap::new());
    let (mut reported, mut was_read, mut work) = (Vec::new(), BTreeSet::new(), 0);
    while let Split::Whole(content) = split(left) {
        left = &left[PREFIX + content.len()..];
        let (mut items, mut space) = (content, 0);
        while let Some((tag, rest)) = items.split_first() {
            items = rest;
            let mut take = || varint::take(&mut items).unwrap_or(u64::MAX);
            match *tag {
                item::HEADER => drop(Header::take(&mut items)?),
                item::SPACE => {
                    space = take();
                    was_read.insert(space);
                }
                item::GONE => {
                    let gone = take();
                    was_read.remove(&gone);
                    pages.retain(|(of, _), _| *of != gone);
                }
                item::RUNS => {
                    let (kind, count) = (take(), take());
                    let plane = usize::try_from(kind).ok()?;
                    let mut at = 0_u64;
                    for _ in 0..count {
                        let (first, more) = (at.checked_add(take())?, take());
                        work = more.saturating_add(1).saturating_add(work);
                        if work > NAIVE_MAX || kind > 2 {
                            return (kind > 2).then_some(reported);
                        }
                        at = first.checked_add(more)?.checked_add(1)?;
                        for page in first..at {
                            pages.entry((space, page)).or_default()[plane] ^= true;
                        }
                    }
                }
                item::SCAN => {
                    let _ = (take(), take());
                    let is_first = reported.is_empty();
                    reported.push(scan(&pages, &before, &was_read, is_first));
                    pages.retain(|_, bits| *bits != Bits::default());
                    before.clone_from(&pages);
                    was_read.clear();
                }
                _ => return Some(reported),
            }
        }
    }
    Some(reported)
}

/// Returns what a scan must be, from the bits of all pages now and at the scan before.
fn scan(
    pages: &BTreeMap<(u64, u64), Bits>,
    before: &BTreeMap<(u64, u64), Bits>,
    was_read: &BTreeSet<u64>,
    is_first: bool,
) -> DecodedScan {
    let number = |(space, page): &(u64, u64)| space << crate::PAGE_BITS | page;
    let accessed = pages.iter().filter(|((space, _), [present, _, accessed])| {
        was_read.contains(space) && (*accessed || is_first && *present)
    });
    let accessed = accessed.map(|(at, _)| number(at)).collect();
    let (mut unmapped, mut left, mut back) = (Vec::new(), 0, 0);
    let all: BTreeSet<_> = pages.keys().chain(before.keys()).collect();
    for at in all {
        let [was, was_out, _] = before.get(at).copied().unwrap_or_default();
        let [is, is_out, _] = pages.get(at).copied().unwrap_or_default();
        left += u64::from(was && is_out);
        back += u64::from(is && was_out);
        if (was || was_out) && !(is || is_out) {
            unmapped.push(number(at));
        }
    }
    (accessed, unmapped, left, back)
}

#[test]
fn fuzz_recordings_end_within_bounds_and_as_page_by_page() {
    ::fuzz::run("recordings", make, |bytes| {
        let (scans, _) = read(bytes);
        let Some(reported) = naive(bytes) else {
            return;
        };
        // If the decoder found damage, it returns fewer scans; each of these must still be correct.
        assert!(
            scans.len() <= reported.len(),
            "{} of {}",
            scans.len(),
            reported.len()
        );
        for (scan, (accessed, unmapped, left, back)) in scans.iter().zip(reported) {
            assert_eq!(pages_of(&scan.accessed), accessed);
            assert_eq!(pages_of(&scan.unmapped), unmapped);
            assert_eq!((scan.left, scan.back), (left, back));
        }
    });
}
