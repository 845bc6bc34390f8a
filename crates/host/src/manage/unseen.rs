//! What has left at a wall by the kernel's hand and come back again, and the engine was told of by no look.
//!
//! Invariant: counters never fall; what is out of pages that the engine does not know is what left of them less what came
//! back.

/// See the module. Pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unseen {
    pub(super) left: u64,
    /// Or was given up while it was out, which nobody tells apart.
    pub(super) came_back: u64,
    /// Out at the last note.
    out: u64,
    /// Of all that left, also of what the engine knew: what the kernel took.
    pub(super) taken: u64,
}

impl Unseen {
    /// So many pages were in swap at a look, and of so many the engine knew it then. (The story: a program in half of its memory goes through all of
    /// it again and again, and the same pages stood among those that had left unseen and among those that looks had found out: `stat`
    /// had 254 MiB out, where the kernel had 128.)
    pub(super) fn note(&mut self, in_swap: u64, known: u64) {
        let out = in_swap.saturating_sub(known);
        self.left += out.saturating_sub(self.out);
        self.came_back += self.out.saturating_sub(out);
        self.out = out;
        debug_assert_eq!(self.left - self.came_back, self.out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_becomes_known_is_not_counted_twice() {
        let mut unseen = Unseen::default();
        unseen.note(100, 0);
        // All of it came back and left again, and a look found it out.
        unseen.note(100, 100);
        assert_eq!((unseen.left, unseen.came_back), (100, 100));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_left_less_what_came_back_is_out(looks in prop::collection::vec((0_u64..1000, 0_u64..1000), 1..50)) {
            let mut unseen = Unseen::default();
            for (in_swap, known) in looks {
                let before = unseen;
                unseen.note(in_swap, known);
                prop_assert!(unseen.left >= before.left && unseen.came_back >= before.came_back);
                prop_assert_eq!(unseen.left - unseen.came_back, in_swap.saturating_sub(known));
            }
        }
    }
}
