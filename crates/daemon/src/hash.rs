//! The hash FNV-1a, which is the same in every version of Rust, unlike the standard library's
//! hashes. Not for secrets.

/// Returns the 64-bit hash of the bytes.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
