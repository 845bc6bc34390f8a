//! Pages that proved hot, and are left alone for a while by the passes that a limit asks for.
//!
//! Such a pass comes whenever what was cold is used up, and to look at a hot page costs its program a
//! fault each time. So a page that came back before the next pass is not looked at in that one, the
//! next time not in three, then seven; one that stays aside for long starts over. Meanwhile it counts as
//! touched.
//!
//! Invariant: a page that came back from the store is looked at in the next pass, whatever it was before.

use super::page_out::PageId;
use super::walk::PAGE;
use keeper::layout::watch;

/// A page is left alone for at most 2^this passes, less one.
const LEVEL_MAX: u8 = 3;
/// The level of a page that has just come back from the store.
const NEW: u8 = u8::MAX;

/// What is known of each page, and the number of the pass.
#[derive(Debug, Default)]
pub(crate) struct Steady {
    pages: Vec<Page>,
    pass: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// How often in a row it proved hot, or [`NEW`].
    level: u8,
    /// The pass that moved it aside.
    looked: u8,
}

impl Page {
    fn spared(&mut self, pass: u8, proven: bool) -> bool {
        let since = pass.wrapping_sub(self.looked);
        if !proven || self.level == NEW {
            self.level = 0;
        } else if since == 1 {
            self.level = (self.level + 1).min(LEVEL_MAX);
        } else if since > 1 << self.level {
            // It was aside for longer, or another kind of pass has looked at it.
            self.level = 0;
        }
        let spared = since > 0 && since < 1 << self.level;
        if !spared {
            self.looked = pass;
        }
        spared
    }
}

impl Steady {
    /// Another pass begins.
    pub(super) fn next_pass(&mut self) {
        self.pass = self.pass.wrapping_add(1);
    }

    /// A page came back from the store.
    pub(crate) fn forget(&mut self, id: PageId) {
        if let Some(page) = self.pages.get_mut(id as usize) {
            page.level = NEW;
        }
    }

    /// Whether this pass leaves a page alone; `proven` if it was touched since it was moved aside.
    fn spares(&mut self, id: PageId, proven: bool) -> bool {
        let at = id as usize;
        if at >= self.pages.len() {
            let room = (at + 1).next_multiple_of(512);
            self.pages.resize(room, Page::default());
        }
        self.pages[at].spared(self.pass, proven)
    }

    /// Takes the pages that are left alone out of the runs from the `from`th on, all of one chunk;
    /// `id_of` gives the page at an address, `proven` whether it was touched. In a group one page speaks
    /// for all: that proves something only where `all_hot` says that all were found hot one by one.
    pub(super) fn thin(
        &mut self,
        runs: &mut Vec<(u64, u64)>,
        from: usize,
        id_of: impl Fn(u64) -> PageId,
        proven: impl Fn(PageId) -> bool,
        all_hot: impl Fn(u64) -> bool,
    ) {
        for (start, end) in runs.split_off(from) {
            let how = start % PAGE;
            let (mut begin, mut at) = (start - how, start - how);
            while at < end {
                let id = id_of(at);
                let alone = how == watch::PAGES;
                if (alone || all_hot(at)) && self.spares(id, proven(id)) {
                    if begin < at {
                        runs.push((begin | how, at));
                    }
                    begin = at + PAGE;
                }
                at += PAGE;
            }
            if begin < end {
                runs.push((begin | how, end));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The passes of `all` in which a page is looked at that comes back before the next pass, but stays
    /// aside in those of `aside`: it is not mapped then, and no pass meets it.
    fn looks(all: usize, aside: &[usize]) -> Vec<usize> {
        let mut steady = Steady::default();
        let mut out = Vec::new();
        for pass in 0..all {
            steady.next_pass();
            if !aside.contains(&pass) && !steady.spares(7, pass > 0) {
                out.push(pass);
            }
        }
        out
    }

    #[test]
    fn a_hot_page_is_looked_at_ever_more_seldom() {
        assert_eq!(looks(30, &[]), [0, 2, 6, 14, 22]);
    }

    #[test]
    fn one_that_stays_aside_for_a_pass_rests_no_longer_and_for_many_starts_over() {
        assert_eq!(looks(20, &[7]), [0, 2, 6, 10, 18]);
        assert_eq!(looks(20, &[7, 8, 9, 10]), [0, 2, 6, 11, 13, 17]);
    }

    #[test]
    fn what_comes_from_the_store_is_looked_at_at_once() {
        let mut steady = Steady::default();
        for _ in 0..12 {
            steady.next_pass();
            steady.spares(7, true);
        }
        steady.forget(7);
        steady.next_pass();
        assert!(!steady.spares(7, true));
        steady.next_pass();
        assert!(steady.spares(7, true));
    }

    #[test]
    fn runs_are_cut_where_pages_are_left_alone() {
        let mut steady = Steady::default();
        let id_of = |at: u64| u32::try_from(at / PAGE).unwrap();
        let whole = (16 * PAGE, 24 * PAGE);
        let group = ((32 * PAGE) | watch::GROUPS, 48 * PAGE);
        let mut runs = vec![(0, PAGE), whole, group];
        steady.next_pass();
        steady.thin(&mut runs, 1, id_of, |_| false, |_| true);
        assert_eq!(runs, [(0, PAGE), whole, group]);
        steady.next_pass();
        let hot = |id| [16, 19, 20].contains(&id) || id >= 32;
        let all_hot = |at| at >= 40 * PAGE;
        steady.thin(&mut runs, 1, id_of, hot, all_hot);
        let left = [(17 * PAGE, 19 * PAGE), (21 * PAGE, 24 * PAGE)];
        let group = ((32 * PAGE) | watch::GROUPS, 40 * PAGE);
        assert_eq!(runs, [&[(0, PAGE)], &left[..], &[group]].concat());
    }
}
