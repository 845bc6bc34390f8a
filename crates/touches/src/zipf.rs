//! Random numbers with a Zipf distribution. The most frequent numbers are scattered over the whole
//! range.

use crate::rng::Rng;

/// A Zipf distribution. The probability of a rank in `0..n` is proportional to the power `(rank +
/// 1)^-exponent`. The ranks are then scattered over `0..n`. Method: rejection-inversion (Hörmann
/// and Derflinger 1996), which takes constant time for any exponent.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: u32,
    exponent: f64,
    /// Bounds of the random number that [`Zipf::inverse`] maps to a rank.
    low: f64,
    high: f64,
    /// If `rank - x` is at most this, the rank is accepted without a further check; `x` is the
    /// random value that was rounded to the rank.
    shortcut: f64,
    /// A rank is multiplied by this factor modulo `n` to get the returned number, so that frequent
    /// numbers are not neighbours.
    scatter: u64,
}

impl Zipf {
    /// Makes a distribution over the numbers `0..n`; an `n` of 0 counts as 1.
    #[must_use]
    pub fn new(n: u32, exponent: f64) -> Self {
        let n = n.max(1);
        let mut zipf = Self {
            n,
            exponent,
            low: 0.0,
            high: 0.0,
            shortcut: 0.0,
            scatter: scatter(n),
        };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(f64::from(n) + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Returns a random number of the distribution.
    #[inline]
    pub fn next(&self, rng: &mut Rng) -> u32 {
        loop {
            let u = self.high + rng.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let rank = (x + 0.5).floor().clamp(1.0, f64::from(self.n));
            let near = rank - x <= self.shortcut;
            if near || u >= self.integral(rank + 0.5) - self.weight(rank) {
                let rank = u64::from(floor(rank) - 1);
                return small(rank * self.scatter % u64::from(self.n));
            }
        }
    }

    /// Returns `x^-exponent`, the weight of rank `x`, where the first rank is 1.
    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// Returns the integral of `x^-exponent`, computed so that it is exact at exponent 1, too.
    fn integral(&self, x: f64) -> f64 {
        let (log, rest) = (x.ln(), 1.0 - self.exponent);
        if (rest * log).abs() < 1e-8 {
            log * (1.0 + rest * log / 2.0)
        } else {
            (rest * log).exp_m1() / rest
        }
    }

    /// The inverse function of [`Zipf::integral`].
    fn inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.exponent)).max(-1.0);
        let log = if t.abs() < 1e-8 {
            x * (1.0 - t / 2.0)
        } else {
            t.ln_1p() / (1.0 - self.exponent)
        };
        log.exp()
    }
}

/// Returns a factor without a common divisor with `n`. Multiplying by it modulo `n` maps `0..n` to
/// itself one to one.
fn scatter(n: u32) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let start = 2_654_435_761u64 % u64::from(n.max(2));
    let mut candidates = start.max(1)..;
    let coprime = candidates.find(|&m| gcd(m, u64::from(n)) == 1);
    coprime.unwrap_or(1)
}

/// Rounds a number down to an integer. The caller makes sure that it fits in 32 bits.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "callers pass what lies between 0 and n"
)]
const fn floor(x: f64) -> u32 {
    x as u32
}

/// Converts a number that fits in 32 bits.
fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the frequencies of the drawn numbers with the definition, for exponents below, at
    /// and above 1.
    #[test]
    fn frequencies_follow_the_zipf_distribution() {
        for exponent in [0.0, 0.5, 0.9, 1.0, 1.5, 3.0] {
            let (n, nr) = (50u32, 200_000);
            let (zipf, mut rng) = (Zipf::new(n, exponent), Rng::new(7));
            let mut counts = vec![0u32; n as usize];
            for _ in 0..nr {
                counts[zipf.next(&mut rng) as usize] += 1;
            }
            let weights: Vec<f64> = (1..=n).map(|k| f64::from(k).powf(-exponent)).collect();
            let sum: f64 = weights.iter().sum();
            for (rank, weight) in (0u64..).zip(&weights) {
                let page = small(rank * zipf.scatter % u64::from(n)) as usize;
                let expect = weight / sum * f64::from(nr);
                let off = (f64::from(counts[page]) - expect).abs();
                assert!(
                    off < 6.0 * expect.sqrt() + 3.0,
                    "{exponent} {rank}: {off} of {expect}"
                );
            }
        }
    }

    #[test]
    fn scattering_is_one_to_one() {
        for n in [1u32, 2, 10, 4096, 4097, 65_537] {
            let factor = scatter(n);
            let mut seen = vec![false; n as usize];
            for rank in 0..u64::from(n) {
                seen[small(rank * factor % u64::from(n)) as usize] = true;
            }
            assert!(seen.iter().all(|seen| *seen), "{n}");
        }
    }
}
