//! The page-age histogram: numbers of pages by the time since their last use.
//! spec: workingset-report.md 1, 2.1, 4.
//!
//! Invariants: finite edges strictly increase, and the last bin has no edge (I2); in both modes the
//! sum of a type's bins is the number of its pages (I1).

use crate::folio::FolioType;
use crate::lru_gen::LruGen;
use crate::units::{Millis, Pages};
use alloc::vec::Vec;

/// Maximum number of bins of a report, including the last bin.
pub const MAX_NR_BINS: usize = 32;

/// Why a list of edges was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinsError {
    /// The edge at this index is not larger than the previous edge.
    NotIncreasing(usize),
    /// More than 31 finite edges.
    TooMany,
}

/// The finite upper edges of a report's bins; the last bin has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bins(Vec<Millis>);

impl Bins {
    /// Creates bins with the given edges; without edges a report has one bin.
    ///
    /// # Errors
    /// [`BinsError`]; the caller keeps the old configuration.
    pub fn new(edges: &[Millis]) -> Result<Self, BinsError> {
        if edges.len() >= MAX_NR_BINS {
            return Err(BinsError::TooMany);
        }
        if let Some(at) = edges.windows(2).position(|w| w[0] >= w[1]) {
            return Err(BinsError::NotIncreasing(at + 1));
        }
        Ok(Self(edges.to_vec()))
    }

    /// Returns the edges, in increasing order.
    #[must_use]
    pub fn edges(&self) -> &[Millis] {
        &self.0
    }
}

/// How the pages of a generation that spans a bin edge are divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregation {
    /// In proportion to time, computed in 128 bits.
    #[default]
    Exact,
    /// As the kernel's patch series does: it divides before it multiplies, so a small generation is
    /// counted in the older bin as a whole.
    Compat,
}

/// A bin: pages idle for longer than the edge of the previous bin, and at most as long as the edge
/// of this bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeBin {
    /// The upper edge of the bin; `None` for the last bin.
    pub edge: Option<Millis>,
    /// Number of pages: `[anon, file]`.
    pub pages: [Pages; 2],
}

/// A page-age histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageAge {
    bins: Vec<AgeBin>,
}

impl PageAge {
    /// Creates a histogram without pages.
    #[must_use]
    pub fn new(bins: &Bins) -> Self {
        let edges = bins.0.iter().map(|&e| Some(e)).chain([None]);
        Self {
            bins: edges
                .map(|edge| AgeBin {
                    edge,
                    pages: [Pages(0); 2],
                })
                .collect(),
        }
    }

    /// The bins, youngest first.
    #[must_use]
    pub fn bins(&self) -> &[AgeBin] {
        &self.bins
    }

    /// Returns the number of all pages of `ty`.
    #[must_use]
    pub fn total(&self, ty: FolioType) -> Pages {
        Pages(self.bins.iter().map(|bin| bin.pages[ty.index()].0).sum())
    }

    /// Adds pages of unknown age to the first (youngest) bin, because they may be in use.
    pub(crate) fn add_young(&mut self, ty: FolioType, pages: Pages) {
        self.bins[0].pages[ty.index()].0 += pages.0;
    }

    #[cfg(test)]
    pub(crate) fn add_to(&mut self, bin: usize, ty: FolioType, pages: Pages) {
        self.bins[bin].pages[ty.index()].0 += pages.0;
    }

    /// Adds the pages of one lruvec, whose ages follow from their generations.
    pub fn add(&mut self, lru: &LruGen, now: Millis, mode: Aggregation) {
        for ty in FolioType::ALL {
            let mut bin = 0;
            for seq in (lru.min_seq(ty)..=lru.max_seq()).rev() {
                let start = if seq == lru.max_seq() {
                    now
                } else {
                    lru.birth(seq + 1)
                };
                let span = Span {
                    start,
                    birth: lru.birth(seq),
                    pages: lru.size(seq, ty),
                };
                bin = self.add_span(span, (ty, bin), now, mode);
            }
        }
    }

    /// Divides the pages of one generation among the bins from `bin` on. Returns the bin where the
    /// next older generation starts.
    fn add_span(
        &mut self,
        mut span: Span,
        (ty, mut bin): (FolioType, usize),
        now: Millis,
        mode: Aggregation,
    ) -> usize {
        while let Some(edge) = self.bins[bin].edge {
            let len = span.start.since(span.birth);
            if span.birth.after(edge) >= now || len == Millis(0) {
                break;
            }
            let in_bin = span.start.after(edge).since(now);
            let part = span.part(in_bin, len, mode);
            self.bins[bin].pages[ty.index()].0 += part;
            span.pages -= part;
            span.start = now.since(edge);
            bin += 1;
        }
        self.bins[bin].pages[ty.index()].0 += span.pages;
        bin
    }
}

/// Pages of a generation, whose last uses are assumed to be spread evenly over the time from
/// `birth` to `start`.
#[derive(Clone, Copy)]
struct Span {
    start: Millis,
    birth: Millis,
    pages: u64,
}

impl Span {
    fn part(self, in_bin: Millis, len: Millis, mode: Aggregation) -> u64 {
        let part = match mode {
            Aggregation::Compat => self.pages / len.0 * in_bin.0,
            Aggregation::Exact => {
                let part = u128::from(self.pages) * u128::from(in_bin.0) / u128::from(len.0);
                u64::try_from(part).unwrap_or(u64::MAX)
            }
        };
        part.min(self.pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(edges: &[u64]) -> Bins {
        let edges: Vec<Millis> = edges.iter().map(|&e| Millis(e)).collect();
        Bins::new(&edges).expect("valid edges")
    }

    /// Returns the number of anon pages in each bin at 100 s, for generations 3 to 0 with these
    /// births and sizes.
    fn anon(births: [u64; 4], sizes: [u64; 4], edges: &[u64], mode: Aggregation) -> Vec<u64> {
        let now = Millis(100_000);
        let mut report = PageAge::new(&bins(edges));
        let (mut start, mut bin) = (now, 0);
        for (birth, pages) in births.map(Millis).into_iter().zip(sizes) {
            let span = Span {
                start,
                birth,
                pages,
            };
            bin = report.add_span(span, (FolioType::Anon, bin), now, mode);
            start = birth;
        }
        assert_eq!(report.total(FolioType::Anon).0, sizes.iter().sum::<u64>());
        report.bins().iter().map(|bin| bin.pages[0].0).collect()
    }

    /// Times at which the generations were opened, in milliseconds, the youngest first. Reports are
    /// made at 100,000 ms.
    const GENERATION_BIRTHS: [u64; 4] = [99_000, 89_000, 69_000, 49_000];
    const EDGES: [u64; 2] = [10_000, 20_000];

    /// Pages of a generation that spans a bin edge are divided in proportion to time.
    /// spec: workingset-report.md 11, test 1.
    #[test]
    fn pages_are_spread_over_their_generations_span() {
        let compat = anon(
            GENERATION_BIRTHS,
            [100, 100_000, 200_000, 500],
            &EDGES,
            Aggregation::Compat,
        );
        assert_eq!(compat, [90_100, 100_000, 110_500]);
        let exact = anon(
            GENERATION_BIRTHS,
            [100, 100_000, 200_000, 500],
            &EDGES,
            Aggregation::Exact,
        );
        assert_eq!(exact, compat);
    }

    /// In Compat mode a small generation is counted in the older bin as a whole.
    /// spec: workingset-report.md 11, test 2.
    #[test]
    fn small_generations_fall_into_the_older_bin_in_compat_mode() {
        let sizes = [100, 1000, 200_000, 500];
        let compat = anon(GENERATION_BIRTHS, sizes, &EDGES, Aggregation::Compat);
        assert_eq!(compat, [100, 91_000, 110_500]);
        let exact = anon(GENERATION_BIRTHS, sizes, &EDGES, Aggregation::Exact);
        assert_eq!(exact, [1000, 90_100, 110_500]);
    }

    /// Pages of generations that were all opened now are all in the youngest bin.
    /// spec: workingset-report.md 11, test 3.
    #[test]
    fn all_born_now_is_all_young() {
        for mode in [Aggregation::Exact, Aggregation::Compat] {
            let pages_by_bin = anon([100_000; 4], [1, 2, 3, 4], &EDGES, mode);
            assert_eq!(pages_by_bin, [10, 0, 0]);
        }
    }

    /// A report without edges has a single bin.
    /// spec: workingset-report.md 11, test 4.
    #[test]
    fn without_edges_one_bin_has_all_pages() {
        assert_eq!(
            anon(GENERATION_BIRTHS, [1, 2, 3, 4], &[], Aggregation::Exact),
            [10]
        );
    }

    #[test]
    fn edges_are_checked() {
        assert_eq!(
            Bins::new(&[Millis(10), Millis(10)]),
            Err(BinsError::NotIncreasing(1))
        );
        let many: Vec<Millis> = (1..=32).map(Millis).collect();
        assert!(Bins::new(&many[..31]).is_ok());
        assert_eq!(Bins::new(&many), Err(BinsError::TooMany));
    }
}
