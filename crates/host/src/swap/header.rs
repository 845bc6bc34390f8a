//! The first page of a swap area: what mkswap(8) writes and swapon(2) reads (version 1).
//!
//! Invariant: an area is ours only if its header has our label and the uuid of a record. Numbers
//! are in the machine's byte order, as the kernel reads them.

use std::fmt;
use std::str::FromStr;

/// Signature of a swap area; the kernel expects it at the end of the first page.
const MAGIC: [u8; 10] = *b"SWAPSPACE2";
/// Offsets in the page, bytes: the format's version, the number of the last page, uuid and label.
/// The first 1024 bytes are reserved for boot blocks.
const VERSION_AT: usize = 1024;
const LAST_PAGE_AT: usize = 1028;
const UUID_AT: usize = 1036;
const LABEL_AT: usize = 1052;
/// The label that `blkid` and `lsblk -f` show for an area of ours.
const LABEL: [u8; 16] = *b"pagetide\0\0\0\0\0\0\0\0";
/// Largest number of pages of an area: its last page has a 32-bit number.
pub(super) const PAGES_MAX: u64 = 1 << 32;

/// Sixteen bytes that identify an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Uuid([u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) {
                "-"
            } else {
                ""
            };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// Parses the format of `/proc/sys/kernel/random/uuid`.
impl FromStr for Uuid {
    type Err = ();

    fn from_str(text: &str) -> Result<Uuid, ()> {
        let dashes = text.bytes().enumerate().filter(|(_, b)| *b == b'-');
        if text.len() != 36 || !dashes.map(|(at, _)| at).eq([8, 13, 18, 23]) {
            return Err(());
        }
        let digits: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            // `from_str_radix` would accept a sign.
            if !pair.iter().all(u8::is_ascii_hexdigit) {
                return Err(());
            }
            let pair = std::str::from_utf8(pair).map_err(drop)?;
            *byte = u8::from_str_radix(pair, 16).map_err(drop)?;
        }
        Ok(Uuid(bytes))
    }
}

/// Returns the first page of an area of `pages` pages, including this one. `None` if `pages` is
/// less than 2 or more than [`PAGES_MAX`]: the kernel requires a page after the header.
pub(super) fn first_page(page_size: usize, pages: u64, uuid: Uuid) -> Option<Vec<u8>> {
    if !(2..=PAGES_MAX).contains(&pages) {
        return None;
    }
    let last = u32::try_from(pages - 1).ok()?;
    let mut page = vec![0; page_size];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(VERSION_AT, &1u32.to_ne_bytes());
    put(LAST_PAGE_AT, &last.to_ne_bytes());
    put(UUID_AT, &uuid.0);
    put(LABEL_AT, &LABEL);
    put(page_size - MAGIC.len(), &MAGIC);
    Some(page)
}

/// Returns the uuid of an area that pagetide made, from its first page; `None` for anything else.
pub(super) fn our_uuid(page: &[u8]) -> Option<Uuid> {
    let get = |at: usize, len: usize| page.get(at..at + len);
    let ours = page.ends_with(&MAGIC)
        && get(VERSION_AT, 4)? == 1u32.to_ne_bytes()
        && get(LABEL_AT, LABEL.len())? == LABEL;
    let uuid = get(UUID_AT, 16)?.try_into().ok()?;
    ours.then_some(Uuid(uuid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UUID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    #[test]
    fn a_page_as_mkswap_writes_it() {
        let uuid = UUID.parse().unwrap();
        let page = first_page(4096, 256, uuid).unwrap();
        assert_eq!(page.len(), 4096);
        assert_eq!(page[1024..1032], [1, 0, 0, 0, 255, 0, 0, 0]);
        assert_eq!(page[1036..1040], [0x0f, 0x8f, 0xad, 0x5b]);
        assert_eq!(&page[4086..], b"SWAPSPACE2");
        assert_eq!(our_uuid(&page), Some(uuid));
        assert_eq!(our_uuid(&page[..4095]), None);
        let mut foreign = page;
        foreign[LABEL_AT..LABEL_AT + 8].copy_from_slice(b"somebody");
        assert_eq!(our_uuid(&foreign), None);
    }

    #[test]
    fn an_area_has_two_pages_or_more_and_fits_32_bits() {
        let uuid = UUID.parse().unwrap();
        for pages in [0, 1, PAGES_MAX + 1, u64::MAX] {
            assert_eq!(first_page(4096, pages, uuid), None, "{pages}");
        }
        assert!(first_page(65536, 2, uuid).is_some());
        assert!(first_page(4096, PAGES_MAX, uuid).is_some());
    }

    #[test]
    fn invalid_uuids_are_refused() {
        for text in [
            "",
            "0f8fad5b",
            &UUID.replace('0', "+"),
            &UUID.replace('-', "0"),
            &format!("{UUID}0"),
        ] {
            assert_eq!(text.parse::<Uuid>(), Err(()), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read(bytes in any::<[u8; 16]>(), pages in 2..=PAGES_MAX) {
            let uuid = Uuid(bytes);
            prop_assert_eq!(uuid.to_string().parse(), Ok(uuid));
            prop_assert_eq!(our_uuid(&first_page(4096, pages, uuid).unwrap()), Some(uuid));
        }

        #[test]
        fn anything_goes(bytes in any::<Vec<u8>>(), text in "[-0-9a-f]{0,40}") {
            let _ = (our_uuid(&bytes), text.parse::<Uuid>());
        }
    }
}
