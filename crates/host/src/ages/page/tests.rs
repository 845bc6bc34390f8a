//! Tests: page-table entries of each kind are recorded, then the age table and the sums are
//! checked.

use super::*;
use crate::ages::space::Space;

/// Bits of a page-table entry that hold the frame's physical address.
const MASK: u64 = (1 << 46) - 4096;
/// Bits of a page-table entry: present, writable, accessed, dirty.
const WRITTEN: u64 = 0x63;
/// Bits of a page-table entry: present, accessed.
const READ: u64 = 0x21;

/// A mapping of four huge pages.
fn mapping(kind: Kind, is_shared: bool) -> Mapping {
    Mapping {
        end: 4 << 21,
        is_shared,
        kind,
        ..Mapping::default()
    }
}

/// Records pieces of one mapping in one scan. Returns: the sums of the walk; the resident pages by
/// kind (anonymous, file, shared memory); the number of pages of unknown age.
fn reported(mapping: Mapping, pieces: &[Piece<'_>]) -> (WalkSums, [u64; 3], u64) {
    let mut age_table = AgeTable::new(0);
    let owner = age_table.add_owner().expect("the first");
    let nodes = Nodes::parse(b"");
    let before = Space::new(owner).before();
    age_table.begin_scan(1000);
    let mappings = [mapping];
    let mut teller = PieceRecorder::new((&mut age_table, &nodes), before, &mappings, MASK);
    for piece in pieces {
        teller.record(0, *piece);
    }
    let found = teller.found;
    age_table.end_scan();
    let kinds = [MemoryKind::Anon, MemoryKind::File, MemoryKind::Shmem];
    let resident = kinds.map(|kind| age_table.resident(owner, kind.class(0)));
    let unknown = kinds
        .iter()
        .map(|kind| age_table.unknown(owner, kind.class(0)))
        .sum();
    (found, resident, unknown)
}

/// Returns the page-table entry of a frame, with these bits.
fn page(frame: u64, flags: u64) -> Entry {
    Entry(frame << 12 | flags)
}

#[test]
fn a_private_mapping_of_a_file_has_pages_of_two_kinds() {
    let entries = [page(1, READ), page(2, WRITTEN), page(3, READ | 0x40)];
    let pages = Piece::Pages {
        start: 0,
        entries: &entries,
    };
    let (found, resident, _) = reported(mapping(Kind::File, false), &[pages]);
    assert_eq!(resident, [2, 1, 0], "what was written is the program's own");
    assert_eq!(
        (found.present, found.entries, found.accessed),
        (3, [0, 3], [0, 3])
    );
    let (_, resident, _) = reported(mapping(Kind::File, true), &[pages]);
    assert_eq!(
        resident,
        [0, 3, 0],
        "a shared one has pages of the file alone"
    );
    let (_, resident, _) = reported(mapping(Kind::Shmem, true), &[pages]);
    assert_eq!(resident, [0, 0, 3]);
}

#[test]
fn pages_that_are_not_resident_are_not_counted_as_resident() {
    let swapped = Entry(5 << 9);
    let migrating = Entry(30 << 59 | 5 << 9);
    let zero_page = page(9, READ | 1 << 9);
    let entries = [Entry(0), swapped, migrating, zero_page, page(7, READ)];
    let pages = Piece::Pages {
        start: 0,
        entries: &entries,
    };
    let (found, resident, _) = reported(mapping(Kind::Anon, false), &[pages]);
    assert_eq!(resident, [1, 0, 0]);
    assert_eq!((found.swapped, found.other, found.present), (1, 1, 1));
    let hole = Piece::Whole(Whole {
        start: 0,
        bytes: 1 << 21,
        span: 1 << 21,
        entry: swapped,
    });
    let unsure = Piece::Unsure {
        start: 1 << 21,
        bytes: 1 << 21,
    };
    let (found, resident, _) = reported(mapping(Kind::Anon, false), &[hole, unsure]);
    assert_eq!((found.swapped, found.unsure, resident[0]), (512, 512, 0));
}

#[test]
fn a_huge_page_is_one_entry_and_512_pages_and_one_of_the_pool_is_apart() {
    let entry = page(512, WRITTEN | 0x80);
    let huge = Piece::Whole(Whole {
        start: 1 << 21,
        bytes: 1 << 21,
        span: 1 << 21,
        entry,
    });
    let (found, resident, _) = reported(mapping(Kind::Anon, false), &[huge]);
    assert_eq!(
        (found.present, found.entries[0], resident[0]),
        (512, 1, 512)
    );
    let (found, resident, _) = reported(mapping(Kind::Hugetlb, false), &[huge]);
    assert_eq!((found.hugetlb, found.present, resident), (512, 0, [0; 3]));
    // The mapping ends in the middle of a huge page.
    let part = Piece::Whole(Whole {
        start: 1 << 21,
        bytes: 1 << 20,
        span: 1 << 21,
        entry,
    });
    let (found, resident, _) = reported(mapping(Kind::Anon, false), &[part]);
    assert_eq!((found.present, resident[0]), (256, 256));
}

#[test]
fn an_age_is_unknown_if_a_foreign_clearer_may_have_cleared_the_bit() {
    // Bit 52 in a copied entry: the crate `pagetables` sets it if a large folio is marked young.
    let entries = [page(1, 1 | 1 << 52), page(2, 1)];
    let pages = Piece::Pages {
        start: 0,
        entries: &entries,
    };
    let (found, resident, unknown) = reported(mapping(Kind::File, true), &[pages]);
    assert_eq!((found.vague, resident[1], unknown), (1, 2, 1));
}
