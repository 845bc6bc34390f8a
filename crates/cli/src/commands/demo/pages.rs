//! Pages with verifiable content, so that a wrong, lost or stale byte is always detected.
//!
//! Invariant: a page's bytes depend only on its index and its version. A page begins with its index
//! and its version, then contains text made from both, and ends with a hash of all that. The text
//! compresses about three to one, as real memory does.

use daemon::options::PAGE_LEN;

const HEADER: usize = 16;
const TEXT_END: usize = PAGE_LEN - 8;

/// The words from which a page's text is made.
const WORDS: [&[u8]; 32] = [
    b"the tide comes in ",
    b"and goes out; ",
    b"what is cold ",
    b"sinks, ",
    b"what is hot ",
    b"stays afloat. ",
    b"user=",
    b"id=",
    b"status=200 ",
    b"status=404 ",
    b"GET /index.html ",
    b"POST /orders ",
    b"harbour ",
    b"lantern ",
    b"anchor ",
    b"moon ",
    b"sand ",
    b"{\"name\": \"",
    b"\", \"age\": ",
    b"}, ",
    b"true, ",
    b"null, ",
    b"0.25 ",
    b"17 ",
    b"2026-01-31T12:00:00Z ",
    b"error: none ",
    b"retry ",
    b"page ",
    b"generation ",
    b"folio ",
    b"\n",
    b"    ",
];

/// Returns the next of a sequence of well-mixed numbers (splitmix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fills `page` with the content for this index and version.
pub(super) fn fill(page: &mut [u8], index: u64, version: u64) {
    assert_eq!(page.len(), PAGE_LEN);
    page[..8].copy_from_slice(&index.to_le_bytes());
    page[8..HEADER].copy_from_slice(&version.to_le_bytes());
    let mut seed = index.rotate_left(32) ^ version;
    let mut at = HEADER;
    let mut bits = 0;
    let mut words_left = 0;
    while at < TEXT_END {
        if words_left == 0 {
            bits = next(&mut seed);
            words_left = 12;
        }
        let word = WORDS[usize::try_from(bits & 31).unwrap_or(0)];
        bits >>= 5;
        words_left -= 1;
        let n = word.len().min(TEXT_END - at);
        page[at..at + n].copy_from_slice(&word[..n]);
        at += n;
    }
    let hash = hash(&page[..TEXT_END]);
    page[TEXT_END..].copy_from_slice(&hash.to_le_bytes());
}

/// Returns the page's version, then its hash; `None` if the page is damaged or has another index.
pub(super) fn check(page: &[u8], index: u64) -> Option<(u64, u64)> {
    let word = |at: usize| Some(u64::from_le_bytes(page.get(at..at + 8)?.try_into().ok()?));
    let (found, version, stored) = (word(0)?, word(8)?, word(TEXT_END)?);
    (found == index && stored == hash(&page[..TEXT_END])).then_some((version, stored))
}

/// Hashes the bytes; the result depends on each byte and on its position.
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    debug_assert!(rest.is_empty());
    words.iter().fold(0x5eed, |hash: u64, word| {
        (hash ^ u64::from_le_bytes(*word))
            .wrapping_mul(0x9fb2_1c65_1e98_df25)
            .rotate_left(29)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_knows_itself() {
        let mut page = vec![0; PAGE_LEN];
        fill(&mut page, 7, 3);
        assert_eq!(check(&page, 7).map(|(version, _)| version), Some(3));
        assert_eq!(check(&page, 8), None, "another page's bytes");
        assert_eq!(check(&[0; PAGE_LEN], 0), None, "zeros are no page");
        let mut again = vec![0; PAGE_LEN];
        fill(&mut again, 7, 3);
        assert_eq!(page, again);
        assert!(page[HEADER..TEXT_END].is_ascii());
    }

    proptest! {
        #[test]
        fn no_flipped_bit_is_missed(index: u64, version: u64, at in 0..PAGE_LEN, bit in 0u8..8) {
            let mut page = vec![0; PAGE_LEN];
            fill(&mut page, index, version);
            page[at] ^= 1 << bit;
            prop_assert_eq!(check(&page, index), None);
        }
    }
}
