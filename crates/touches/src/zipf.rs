//! Ranks drawn by their popularity, and scattered over the numbers that they are drawn from.

use crate::rng::Rng;

/// Draws from 0..n with probability proportional to 1 / (rank + 1)^exponent, by rejection-inversion
/// (Hörmann and Derflinger 1996): constant time and memory for any exponent.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: u32,
    exponent: f64,
    low: f64,
    high: f64,
    shortcut: f64,
    /// Ranks are multiplied by this modulo n, so that popular pages are not neighbours.
    scatter: u64,
}

impl Zipf {
    /// Over `n` numbers, at least 1.
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

    /// The next number.
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

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// Of the weight, so that it is well defined at exponent 1 too.
    fn integral(&self, x: f64) -> f64 {
        let (log, rest) = (x.ln(), 1.0 - self.exponent);
        if (rest * log).abs() < 1e-8 {
            log * (1.0 + rest * log / 2.0)
        } else {
            (rest * log).exp_m1() / rest
        }
    }

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

/// A multiplier that maps 0..n to itself one to one.
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

/// Whole part of a number that is known to fit.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "callers pass what lies between 0 and n"
)]
const fn floor(x: f64) -> u32 {
    x as u32
}

fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frequencies against the definition, for exponents around and at 1.
    #[test]
    fn zipf_is_zipf() {
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
