//! Types for numbers with units: times, pages, bytes, limits and swappiness. The engine has no
//! clock: each time is an argument, counted from a moment that the embedder chooses, and never
//! earlier than the time before.

mod display;
pub mod text;

/// Number of bytes in a base page, as the length of a slice.
pub const PAGE_LEN: usize = 4096;
/// Number of bytes in a base page.
pub const PAGE_SIZE: u64 = PAGE_LEN as u64;
/// Minimum number of pages that a reclaim tries to reclaim, as in the kernel.
pub const SWAP_CLUSTER_MAX: u64 = 32;

/// Returns `number * of / whole`, rounded down, without overflow; a `whole` of 0 counts as 1.
pub(crate) fn scaled(number: u64, of: impl Into<u128>, whole: impl Into<u128>) -> u64 {
    let product = u128::from(number).saturating_mul(of.into());
    u64::try_from(product / whole.into().max(1)).unwrap_or(u64::MAX)
}

/// A point in time, or a duration, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// Returns the duration since `earlier`; zero if `earlier` is later than this.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Returns the point in time `span` after this one.
    #[must_use]
    pub const fn after(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// Rounds down to whole milliseconds; a duration that is too long becomes the largest possible
/// duration.
impl From<core::time::Duration> for Millis {
    fn from(time: core::time::Duration) -> Self {
        Self(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A number of base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pages(pub u64);

impl Pages {
    /// Returns the size of this many pages in bytes; `u64::MAX` on overflow.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0.saturating_mul(PAGE_SIZE))
    }

    /// Returns this number of pages minus `other`, but at least zero.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Returns the number of whole pages in this many bytes; rounded down, as the kernel rounds
    /// limits.
    #[must_use]
    pub const fn pages(self) -> Pages {
        Pages(self.0 / PAGE_SIZE)
    }
}

/// A limit of a memcg file: a size, or the word `max`. The lower limit is the lesser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// At most this many bytes, rounded down to pages.
    Bytes(Bytes),
    /// No limit.
    #[default]
    Max,
}

impl Limit {
    /// Creates a limit of this many pages.
    #[must_use]
    pub const fn of(pages: Pages) -> Self {
        Self::Bytes(pages.bytes())
    }

    /// Returns the limit in pages; `u64::MAX` for no limit.
    #[must_use]
    pub const fn pages(self) -> Pages {
        match self {
            Self::Max => Pages(u64::MAX),
            Self::Bytes(b) => b.pages(),
        }
    }

    /// Returns the limit in bytes; `None` for no limit.
    #[must_use]
    pub const fn bytes(self) -> Option<Bytes> {
        match self {
            Self::Max => None,
            Self::Bytes(b) => Some(b),
        }
    }

    /// Returns the text of a memcg file: a number of bytes, or `max`.
    #[must_use]
    pub fn file_text(self) -> alloc::string::String {
        use alloc::string::ToString;
        self.bytes()
            .map_or("max".to_string(), |bytes| bytes.0.to_string())
    }
}

/// The inverse of [`Limit::bytes`].
impl From<Option<Bytes>> for Limit {
    fn from(bytes: Option<Bytes>) -> Self {
        bytes.map_or(Self::Max, Self::Bytes)
    }
}

/// The preference of reclaim for anon over file pages: with 0 only file pages are evicted, with 200
/// mostly anon pages, with 201 only anon pages.
/// spec: lru-gen.md 1, reclaim-control.md 6.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Swappiness(u8);

impl Swappiness {
    /// Anon pages are never evicted.
    pub const FILE_ONLY: Self = Self(0);
    /// File pages are never evicted; written as `max` in memory.reclaim.
    pub const ANON_ONLY: Self = Self(201);
    /// The largest value that a user may set as a number.
    pub const MAX: u8 = 200;

    /// Creates a swappiness from a number; `None` above 201.
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value <= 201 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// Returns the swappiness as a number, 0 to 201.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Swappiness {
    fn default() -> Self {
        Self(60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_round_down_to_pages() {
        assert_eq!(Limit::Bytes(Bytes(8191)).pages(), Pages(1));
        assert_eq!(Limit::Max.pages(), Pages(u64::MAX));
        assert_eq!(Limit::of(Pages(2)), Limit::Bytes(Bytes(8192)));
        let either = [None, Some(Bytes(8191))];
        assert_eq!(either.map(|bytes| Limit::from(bytes).bytes()), either);
        assert!(Limit::of(Pages(1)) < Limit::of(Pages(2)) && Limit::of(Pages(2)) < Limit::Max);
        assert_eq!(
            [Limit::of(Pages(1)), Limit::Max].map(Limit::file_text),
            ["4096", "max"]
        );
        assert_eq!(Pages(u64::MAX).bytes(), Bytes(u64::MAX));
    }

    #[test]
    fn swappiness_knows_its_range() {
        assert_eq!(Swappiness::new(201), Some(Swappiness::ANON_ONLY));
        assert_eq!(Swappiness::new(202), None);
        assert_eq!(Swappiness::default().get(), 60);
    }

    #[test]
    fn time_spans_never_go_negative() {
        assert_eq!(Millis(3).since(Millis(5)), Millis(0));
        assert_eq!(Millis(5).since(Millis(3)).after(Millis(1)), Millis(3));
    }
}
