//! The sequence of a tenant's touches.
//!
//! Invariant: the touches depend only on the tenant's fields, its index and the seed. Every page is
//! written before it is read, because a page that was never written has no frame of its own.

use crate::case::{Case, Part, Pattern, Tenant};
use crate::rng::Rng;
use crate::zipf::Zipf;

/// One access to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Number of the page; the tenant's first page is 0.
    pub page: u32,
    /// Whether the access is a write; otherwise it is a read.
    pub write: bool,
}

/// An iterator over all touches of a tenant, in order.
#[derive(Clone, Debug)]
pub struct Stream {
    tenant: Tenant,
    zipf: Zipf,
    rng: Rng,
    /// Number of touches so far, including the first writes.
    done: u64,
    /// The next page in ascending order, for the patterns that have such an order.
    next: u32,
    checksum: u64,
}

impl Stream {
    /// Returns the touches of the tenant with index `tenant` in `case`, with this seed.
    ///
    /// # Panics
    /// If the case has no such tenant.
    #[must_use]
    pub fn new(case: &Case, tenant: usize, seed: u64) -> Self {
        let rng = Rng::stream(seed, tenant as u64);
        let tenant = case.tenants[tenant];
        let exponent = match tenant.pattern {
            Pattern::Zipf(exponent) => exponent,
            _ => 0.0,
        };
        Self {
            tenant,
            zipf: Zipf::new(tenant.pages, exponent),
            rng,
            done: 0,
            next: 0,
            checksum: 0,
        }
    }

    /// Returns the total number of a tenant's touches, including the first writes.
    #[must_use]
    pub const fn total(tenant: &Tenant) -> u64 {
        tenant.pages as u64 + tenant.touches
    }

    /// Returns a checksum of all touches so far, in their order. Two different sequences have the
    /// same checksum only by chance (1 in 2^64).
    #[must_use]
    pub const fn checksum(&self) -> u64 {
        self.checksum
    }

    /// Returns the page of touch number `done` (counted after the first writes) in these parts. If
    /// all parts are over, returns the last page of the last part.
    fn of_parts(parts: &[Part], mut done: u64) -> u32 {
        let mut page = 0;
        for part in parts {
            let at = u32::try_from(done).unwrap_or(u32::MAX);
            if at < part.pages {
                return part.first + at;
            }
            page = part.first + part.pages.saturating_sub(1);
            done -= u64::from(part.pages);
        }
        page
    }

    /// Chooses the page of the next touch.
    fn page(&mut self) -> u32 {
        let pages = self.tenant.pages;
        match self.tenant.pattern {
            Pattern::Uniform => self.rng.below(pages),
            Pattern::Zipf(_) => self.zipf.next(&mut self.rng),
            Pattern::Loop => self.next_in_loop(0),
            Pattern::ScanHot { hot } if self.rng.below(2) == 0 => self.rng.below(hot),
            Pattern::ScanHot { hot } => self.next_in_loop(hot),
            Pattern::Parts(parts) => Self::of_parts(parts, self.done - u64::from(pages)),
            Pattern::MovingHot { hot, every } => {
                let phase = (self.done - u64::from(pages)) / every;
                let from = phase * u64::from(hot) % u64::from(pages);
                if self.rng.below(10) < 9 {
                    let page = from + u64::from(self.rng.below(hot));
                    u32::try_from(page % u64::from(pages)).unwrap_or(0)
                } else {
                    self.rng.below(pages)
                }
            }
        }
    }

    /// Returns the next page in an endless loop over the pages from `first` to the last.
    fn next_in_loop(&mut self, first: u32) -> u32 {
        let page = self.next.max(first);
        self.next = if page + 1 == self.tenant.pages {
            first
        } else {
            page + 1
        };
        page
    }
}

impl Iterator for Stream {
    type Item = Touch;

    fn next(&mut self) -> Option<Touch> {
        if self.done == Self::total(&self.tenant) {
            return None;
        }
        let first = u32::try_from(self.done).ok();
        let first = first.filter(|page| *page < self.tenant.pages);
        let touch = match first {
            Some(page) => Touch { page, write: true },
            None => Touch {
                page: self.page(),
                write: self.rng.below(4) == 0,
            },
        };
        self.done += 1;
        let word = u64::from(touch.page) << 1 | u64::from(touch.write);
        self.checksum = (self.checksum ^ word)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23);
        Some(touch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ALL, find};

    #[test]
    fn every_page_is_written_first_and_numbers_stay_below() {
        for case in ALL {
            for (n, tenant) in case.tenants.iter().enumerate() {
                let touches: Vec<Touch> = Stream::new(case, n, 1).collect();
                assert_eq!(touches.len() as u64, Stream::total(tenant));
                let (first, rest) = touches.split_at(tenant.pages as usize);
                assert!(
                    (0..)
                        .zip(first)
                        .all(|(page, touch)| *touch == Touch { page, write: true })
                );
                assert!(rest.iter().all(|touch| touch.page < tenant.pages));
                let reads = rest.iter().filter(|touch| !touch.write).count();
                assert!(reads > 0 || rest.is_empty(), "{}", case.name);
            }
        }
    }

    #[test]
    fn the_same_seed_produces_the_same_touches() {
        let case = find("two-tenants").expect("a case");
        let sum = |tenant, seed| {
            let mut stream = Stream::new(case, tenant, seed);
            stream.by_ref().for_each(drop);
            stream.checksum()
        };
        assert_eq!(sum(0, 1), sum(0, 1));
        assert!(sum(0, 1) != sum(0, 2) && sum(0, 1) != sum(1, 1));
    }

    #[test]
    fn patterns_choose_the_expected_pages() {
        let of = |name, skip: usize| {
            let case = find(name).expect("a case");
            let pages = case.tenants[0].pages as usize;
            Stream::new(case, 0, 3)
                .skip(pages + skip)
                .map(|touch| touch.page)
        };
        let round: Vec<u32> = of("loop", 0).take(12_290).collect();
        assert_eq!((round[0], round[12_287], round[12_288]), (0, 12_287, 0));
        let scanned: Vec<u32> = of("scan-hot", 0)
            .filter(|page| *page >= 3072)
            .take(3)
            .collect();
        assert_eq!(scanned, [3072, 3073, 3074]);
        let parts: Vec<u32> = of("two-limits", 2046).take(3).collect();
        assert_eq!(parts, [6142, 6143, 0]);
        assert_eq!(of("two-limits", 7167).next(), Some(9087));
        let hot = of("moving-hot", 65_536).take(1000);
        let within = hot.filter(|page| (4096..8192).contains(page)).count();
        assert!((880..=970).contains(&within), "{within}");
    }
}
