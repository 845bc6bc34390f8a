//! Random numbers from a seed: the only source of randomness in the simulator.
//!
//! Invariant: the same seed always produces the same numbers, on every machine. Each random process
//! has its own stream ([`Rng::stream`]), so one more process does not change the numbers of the
//! others.

/// A random number generator: a counter whose values are mixed by the function of splitmix64. Every
/// seed is good, also zero.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

/// Increment of the counter for each number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// Makes a stream of numbers from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Makes stream number `n` of those with this seed.
    #[must_use]
    pub const fn stream(seed: u64, n: u64) -> Self {
        let mut mixed = Self::new(seed);
        let a = mixed.next_u64();
        let mut other = Self::new(n ^ a);
        Self::new(other.next_u64())
    }

    /// Returns 64 random bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let z = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns two random numbers in `0..n`, one from each half of a 64-bit number. They are nearly
    /// uniform: a number is at most about `1 + n / 2^32` times as likely as another.
    #[inline]
    pub const fn two_below(&mut self, n: u32) -> [u32; 2] {
        let bits = self.next_u64();
        [scale(bits >> 32, n), scale(bits & 0xffff_ffff, n)]
    }

    /// Returns a number in `0..n`; `n` must not be 0.
    #[inline]
    pub const fn below(&mut self, n: u32) -> u32 {
        scale(self.next_u64() >> 32, n)
    }

    /// Returns a number from 0 to below 1, with 53 random bits.
    #[inline]
    pub const fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Scales 32 random bits to `0..n`: returns the upper half of the product.
const fn scale(bits: u64, n: u32) -> u32 {
    ((bits * n as u64) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_seed_are_those_of_splitmix64() {
        // The published test vector of splitmix64 for seed 1234567.
        let mut rng = Rng::new(1_234_567);
        let first = [rng.next_u64(), rng.next_u64()];
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }

    #[test]
    fn streams_differ_and_numbers_stay_below() {
        let mut streams = [Rng::stream(1, 0), Rng::stream(1, 1), Rng::stream(2, 0)];
        let firsts = streams.each_mut().map(Rng::next_u64);
        assert!(firsts[0] != firsts[1] && firsts[0] != firsts[2] && firsts[1] != firsts[2]);
        let mut counts = [0u32; 7];
        for _ in 0..7000 {
            for n in streams[0].two_below(7) {
                counts[n as usize] += 1;
            }
        }
        assert!(
            counts.iter().all(|c| (1800..2200).contains(c)),
            "{counts:?}"
        );
        let unit = streams[1].unit();
        assert!((0.0..1.0).contains(&unit));
    }
}
