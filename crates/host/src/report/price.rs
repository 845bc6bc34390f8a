//! The price of a refault (the time that it takes), and where the price is from.
//!
//! Invariant: each price comes with a text that says where it is from, and whether it was measured
//! on this host.

use serde::{Deserialize, Serialize};

/// Time that a refault takes, from swap and from a file.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Price {
    /// Time of a refault from swap, microseconds.
    pub anon_us: f64,
    /// Time of a refault from a file, microseconds.
    pub file_us: f64,
    /// In words: the kind of swap that a page is read from, and whether `anon_us` was measured.
    pub anon_from: String,
    /// In words: what a file page is read from, and whether `file_us` was measured.
    pub file_from: String,
    /// Whether `anon_us` was measured on this host; otherwise it is a typical value.
    pub anon_measured: bool,
    /// Whether `file_us` was measured on this host; otherwise it is a typical value.
    pub file_measured: bool,
}

impl Price {
    /// Returns a text: `a refault costs 15 us from swap (zram, measured here), 100 us from a file
    /// (...)`.
    #[must_use]
    pub fn words(&self) -> String {
        format!(
            "a refault costs {:.0} us from swap ({}), {:.0} us from a file ({})",
            self.anon_us, self.anon_from, self.file_us, self.file_from
        )
    }
}
