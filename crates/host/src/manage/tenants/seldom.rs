//! What is done many times a second, and told every ten seconds.
//!
//! Invariant: nothing is told twice, and what is not told yet is told with the next.

use std::time::{Duration, Instant};

/// Between two lines.
const APART: Duration = Duration::from_secs(10);

/// Pages that were taken for one reason, and when that was told last.
#[derive(Debug, Default)]
pub(super) struct Seldom {
    pages: u64,
    told: Option<Instant>,
}

impl Seldom {
    /// So many more; how many are to be told now, if any are. (The story: of one tenant that needed more than its memory.max 162 lines came in a second.)
    pub(super) fn add(&mut self, pages: u64) -> Option<u64> {
        self.pages += pages;
        let is_due = self.told.is_none_or(|told| told.elapsed() >= APART);
        if !is_due || self.pages == 0 {
            return None;
        }
        self.told = Some(Instant::now());
        Some(std::mem::take(&mut self.pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_often_is_told_seldom_and_all_of_it() {
        let mut seldom = Seldom::default();
        assert_eq!(
            [0, 3, 4, 5].map(|pages| seldom.add(pages)),
            [None, Some(3), None, None]
        );
        seldom.told = Instant::now().checked_sub(APART);
        assert_eq!([0, 0].map(|pages| seldom.add(pages)), [Some(9), None]);
    }
}
