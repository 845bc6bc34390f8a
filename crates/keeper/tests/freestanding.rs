//! The blob's own memory functions, and that its arena holds what the decoders ask for.
#![cfg(all(feature = "decode", target_arch = "x86_64"))]
#![expect(
    unsafe_code,
    reason = "the functions under test take raw ranges, as C's do"
)]

#[path = "../src/freestanding.rs"]
mod freestanding;

use freestanding::{ARENA_BYTES, allocate, compare, copy, set};

/// Every length around each change of method, and long ones.
fn lengths() -> impl Iterator<Item = usize> {
    (0..300).chain([511, 512, 4095, 4096])
}

fn pattern() -> Vec<u8> {
    (0..16_384u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect()
}

#[test]
fn copies_are_those_of_copy_within_at_every_overlap() {
    for len in lengths() {
        for (from, to) in [
            (0, 8192),
            (64, 64),
            (64, 65),
            (65, 64),
            (64, 71),
            (71, 64),
            (64, 200),
            (200, 64),
        ] {
            let mut expected = pattern();
            expected.copy_within(from..from + len, to);
            let mut bytes = pattern();
            let start = bytes.as_mut_ptr();
            // SAFETY: both ranges lie within the 16 KiB of `bytes`.
            unsafe { copy(start.add(to), start.add(from), len) };
            assert!(bytes == expected, "{len} bytes from {from} to {to}");
        }
    }
}

#[test]
fn set_and_compare_keep_to_their_length() {
    for len in lengths() {
        let mut bytes = pattern();
        // SAFETY: the range lies within `bytes`.
        unsafe { set(bytes.as_mut_ptr().add(10), 0xee, len) };
        let untouched = pattern();
        assert!(bytes[10..10 + len].iter().all(|byte| *byte == 0xee));
        assert!(bytes[..10] == untouched[..10] && bytes[10 + len..] == untouched[10 + len..]);
    }
    let (a, mut b) = (pattern(), pattern());
    b[100] = b[100].wrapping_add(1);
    // SAFETY: both have 16 KiB.
    let order = |len| unsafe { compare(a.as_ptr(), b.as_ptr(), len) };
    assert_eq!(order(100), 0);
    assert_eq!(
        order(101).signum(),
        i32::from(a[100]).cmp(&i32::from(b[100])) as i32
    );
}

/// The arena is asked once, by `Scratch::new`, for one zstd context.
#[test]
fn the_arena_holds_a_decompressor_and_then_says_no() {
    let context = zstd_safe::DCtx::create().sizeof();
    assert!(
        context <= ARENA_BYTES,
        "zstd's context has grown to {context} bytes: raise ARENA_BYTES"
    );
    let first = allocate(context);
    assert!(!first.is_null() && first.addr().is_multiple_of(16));
    let second = allocate(1);
    assert!(second.addr() >= first.addr() + context && second.addr().is_multiple_of(16));
    assert!(allocate(ARENA_BYTES).is_null());
    assert!(allocate(usize::MAX).is_null());
}
