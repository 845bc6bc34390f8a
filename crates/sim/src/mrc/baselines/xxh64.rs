//! The hash XXH64 (Collet) of a 64-bit number, from the specification of xxHash, section "XXH64".
//!
//! Invariant: the result is the hash of the number's eight bytes, little-endian.

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

/// Returns the hash of `number` with a seed.
pub(super) const fn xxh64(number: u64, seed: u64) -> u64 {
    let lane = number.wrapping_mul(P2).rotate_left(31).wrapping_mul(P1);
    let hash = seed.wrapping_add(P5).wrapping_add(8) ^ lane;
    let hash = hash.rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
    let hash = (hash ^ hash >> 33).wrapping_mul(P2);
    let hash = (hash ^ hash >> 29).wrapping_mul(P3);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values come from xxHash itself: `XXH64(&number, 8, seed)` of version 0.7.4,
    /// which libCacheSim includes.
    #[test]
    fn hashes_equal_those_of_the_reference_implementation() {
        for (number, seed, hash) in KNOWN {
            assert_eq!(xxh64(number, seed), hash, "{number} {seed}");
        }
    }

    const KNOWN: [(u64, u64, u64); 12] = [
        (0x0, 0x0, 0x34c9_6acd_cadb_1bbb),
        (0x0, 0x1234_5678, 0x67bb_774d_39f5_d473),
        (0x0, 0x1234_4321, 0xc2a6_4453_b85a_5e79),
        (0x1, 0x0, 0x9f29_cb17_a2a4_9995),
        (0x1, 0x1234_5678, 0x071b_9484_a237_4097),
        (0x1, 0x1234_4321, 0x83e9_f36f_cb58_54bf),
        (0x123_4567_89ab_cdef, 0x0, 0xea3c_5208_1e98_43ec),
        (0x123_4567_89ab_cdef, 0x1234_5678, 0x04bd_840e_8f44_109e),
        (0x123_4567_89ab_cdef, 0x1234_4321, 0xb999_8ad8_2042_d74b),
        (0xffff_ffff_ffff_ffff, 0x0, 0x85d1_36ad_b773_c6c9),
        (0xffff_ffff_ffff_ffff, 0x1234_5678, 0x60b3_8a7d_6d1e_7ea9),
        (0xffff_ffff_ffff_ffff, 0x1234_4321, 0xcead_0a48_b29d_4d47),
    ];
}
