//! Pages that the kernel skipped as shared, remembered for a while.
//!
//! Invariant: what is said here is no older than [`WHILE`]; of an id that was given to another page meanwhile it is wrong
//! for as long.
//!
//! All that a pre-fork server or PostgreSQL has in memory may be shared: to ask for it, and why it stayed, took a fifth of our
//! time, at each reclaim anew.

use std::time::{Duration, Instant};

use engine::FolioId;

/// A page whose other processes have ended stays for so long at most.
const WHILE: Duration = Duration::from_secs(10);
/// Pages of a word, two bits each: it was skipped; it has no file.
const PAGES: u32 = u64::BITS / 2;

/// Two bits a page.
#[derive(Debug)]
pub(super) struct Skipped {
    words: Vec<u64>,
    since: Instant,
}

impl Default for Skipped {
    fn default() -> Self {
        Skipped {
            words: Vec::new(),
            since: Instant::now(),
        }
    }
}

impl Skipped {
    /// Forgets everything, if it is time for that.
    pub(super) fn refresh(&mut self, now: Instant) {
        if now.saturating_duration_since(self.since) > WHILE {
            self.words.clear();
            self.since = now;
        }
    }

    /// The kernel has skipped this page, which is anonymous memory or not.
    pub(super) fn note(&mut self, id: FolioId, is_anon: bool) {
        let at = (id.0 / PAGES) as usize;
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= (1 | u64::from(is_anon) << 1) << (id.0 % PAGES * 2);
    }

    /// Whether the page was skipped, and then whether it is anonymous memory.
    pub(super) fn known(&self, id: FolioId) -> Option<bool> {
        let word = self.words.get((id.0 / PAGES) as usize)?;
        let bits = word >> (id.0 % PAGES * 2);
        (bits & 1 != 0).then_some(bits & 2 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_is_remembered_for_a_while() {
        let mut skipped = Skipped::default();
        let begin = skipped.since;
        for (id, is_anon) in [(0, true), (31, false), (32, true), (1000, false)] {
            skipped.note(FolioId(id), is_anon);
        }
        skipped.refresh(begin + WHILE);
        let known: Vec<_> = [0, 1, 31, 32, 33, 1000, 9999]
            .map(|id| skipped.known(FolioId(id)))
            .into();
        let expected = [
            Some(true),
            None,
            Some(false),
            Some(true),
            None,
            Some(false),
            None,
        ];
        assert_eq!(known, expected);
        skipped.refresh(begin + WHILE * 2);
        assert_eq!(skipped.known(FolioId(0)), None);
    }
}
