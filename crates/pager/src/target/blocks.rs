//! How closely each block of 16 pages is watched.
//!
//! A touched page in limbo costs its program a fault. A block is first moved aside as a *group*:
//! one touch brings it back with its neighbours and says that some of them are in use. It is then
//! watched *page by page*: a touched page comes back alone. If most pages of a block prove young,
//! it is watched as a group again for twice as many passes as last time. So cold memory costs
//! nothing, hot memory a fault a group, and only blocks that are partly hot a fault a hot page.
//!
//! To find out that a block is hot through and through costs a fault for each of its pages, and
//! where one is, its neighbours mostly are. So of a chunk a few pages of one block are looked at first,
//! of another each time, and all of them only after one proved partly hot. And where one proved hot,
//! and all groups of the chunk had come back, the chunk is one group for some passes.

use keeper::layout::watch;

/// Pages of a block.
pub(crate) const BLOCK_PAGES: usize = 16;
/// Blocks of a chunk.
pub(crate) const CHUNK_BLOCKS: usize = keeper::layout::CHUNK_PAGES / BLOCK_PAGES;
/// Pages that are watched of a block that is looked at as the sample of its chunk.
const SAMPLE_PAGES: usize = 4;
/// Of these so many must prove young for the block to be hot. Of memory a fifth of which is in use one
/// sample in 37 does, where half of the pages would be one in six.
const SAMPLE_HOT: usize = 3;
/// A block stays a group for at most 2^this passes before it is looked at closely again.
const LEVEL_MAX: u8 = 4;
/// For so many passes a hot chunk is one group, before its groups are watched again.
const WIDE_PASSES: u8 = 8;
/// A chunk is new for so many passes.
pub(crate) const LEARN_PASSES: u8 = 3;
/// From one sample to the next, in blocks: no divisor of their number, so that all have their turn.
const STRIDE: usize = 11;

/// Which pages of a block are watched by themselves.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
enum Look {
    /// None: it is a group.
    #[default]
    Away,
    /// The first few.
    Sample,
    /// All.
    Closely,
}

impl Look {
    fn pages(self) -> usize {
        match self {
            Look::Away => 0,
            Look::Sample => SAMPLE_PAGES,
            Look::Closely => BLOCK_PAGES,
        }
    }
}

/// What is known about one block.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Block {
    /// How it was watched in the pass that is over.
    look: Look,
    /// How often in a row it proved hot.
    level: u8,
    /// Passes left as a group.
    passes: u8,
}

impl Block {
    /// It was found hot: for how long it is left alone.
    fn rest(&mut self) {
        self.level = (self.level + 1).min(LEVEL_MAX);
        self.passes = 1 << self.level;
    }
}

/// What is known about one chunk.
#[derive(Clone, Copy, Default, Debug)]
struct Chunk {
    blocks: [Block; CHUNK_BLOCKS],
    /// Some block was found partly hot: all that are touched may be looked at.
    open: bool,
    /// Close looks in a row that found a block hot while it was open.
    hot: usize,
    /// As of a block, while it is not open.
    all: Block,
    /// The pass that is going on.
    pass: u64,
    /// The pass in which a sample was chosen last: it is judged in the next.
    sampled: u64,
    /// One may be chosen in this pass.
    choose: bool,
    /// But none before this one.
    from: usize,
    /// Blocks that came back, as far as this pass has seen.
    came: usize,
    /// For so many passes, this one included, the whole chunk may be one group.
    wide: u8,
    /// It was one, or might have been, in the pass before.
    was_wide: bool,
    /// Passes in which it was moved aside.
    watched: u8,
    /// It was spared in the pass before.
    spared: bool,
}

impl Chunk {
    fn begin(&mut self, pass: u64) {
        if self.pass == pass {
            return;
        }
        if self.choose {
            // None was far enough behind.
            self.from = 0;
        }
        self.was_wide = self.wide > 0;
        self.wide = self.wide.saturating_sub(1);
        self.came = 0;
        self.pass = pass;
        self.watched = self.watched.saturating_add(1);
        self.choose = self.all.passes == 0 && self.sampled + 1 < pass;
        self.all.passes = self.all.passes.saturating_sub(1);
    }

    /// A block that was looked at proved hot, or not.
    fn judge(&mut self, hot: bool) {
        if !hot {
            (self.open, self.hot) = (true, 0);
            self.all = Block::default();
        } else if self.open {
            self.hot += 1;
            self.open = self.hot < CHUNK_BLOCKS;
        } else if self.all.passes == 0 {
            self.all.rest();
            self.wide = WIDE_PASSES;
        }
    }

    /// Whether the chunk is one group now: all of it came back, and it is known to be hot, or its
    /// sample tells with the next pass.
    fn as_one(&mut self) -> bool {
        if self.open || self.came + 1 < CHUNK_BLOCKS {
            return false;
        }
        if self.wide == 0 && !self.was_wide && self.all.level > 0 {
            self.wide = WIDE_PASSES;
        }
        self.wide > 0 || self.sampled == self.pass
    }

    /// Whether a block that came back as a group may be looked at now.
    fn may_look(&mut self, block: usize) -> bool {
        if self.open {
            return true;
        }
        if !self.choose || block < self.from {
            return false;
        }
        self.choose = false;
        self.sampled = self.pass;
        self.from = (block + STRIDE) % CHUNK_BLOCKS;
        true
    }
}

/// What the last pass showed of a block.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Seen {
    /// Pages of it that are mapped now.
    pub(crate) mapped: usize,
    /// Pages that came back.
    pub(crate) young: usize,
    /// Of the pages that were watched by themselves ([`Blocks::exact`]).
    pub(crate) exact_young: usize,
    /// And those that did not.
    pub(crate) exact_aside: usize,
}

impl Seen {
    /// Whether a look of that kind proves the block hot: of a sample so many pages must have come
    /// back; of the whole block three of four that are there, for what is not in use stays as long as
    /// the block is a group.
    fn hot(self, look: Look) -> bool {
        match look {
            Look::Sample => self.exact_young >= SAMPLE_HOT,
            Look::Away | Look::Closely => self.exact_young >= self.exact_aside * 3,
        }
    }
}

/// All blocks of a target, by chunk.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    chunks: Vec<Chunk>,
}

impl Blocks {
    /// How many of the first pages of a block are watched by themselves; the rest is as a group.
    pub(crate) fn exact(&self, (chunk, block): (usize, usize)) -> usize {
        let of = |c: &Chunk| c.blocks[block % CHUNK_BLOCKS].look.pages();
        self.chunks.get(chunk).map_or(0, of)
    }

    /// Whether a close look found a block hot, the last time there was one, or its chunk.
    pub(crate) fn rests(&self, (chunk, block): (usize, usize)) -> bool {
        let hot = |c: &Chunk| c.wide > 0 || c.blocks[block % CHUNK_BLOCKS].level > 0;
        self.chunks.get(chunk).is_some_and(hot)
    }

    /// Whether a chunk is still to be learned in pass number `pass`: three passes tell whether it
    /// is in use, whether a sample of it is, and which pages are.
    pub(crate) fn is_new(&self, chunk: usize, pass: u64) -> bool {
        let before = |c: &Chunk| c.watched - u8::from(c.pass == pass);
        self.chunks
            .get(chunk)
            .is_none_or(|c| before(c) < LEARN_PASSES)
    }

    /// Whether a chunk may be left where it is in a pass, because all of it came back in the one before:
    /// every other time. It counts as touched meanwhile.
    pub(crate) fn spare(&mut self, chunk: usize) -> bool {
        let Some(c) = self.chunks.get_mut(chunk) else {
            return false;
        };
        let asked = c.sampled == c.pass;
        c.spared = !c.spared && !asked && c.wide > 0 && c.as_one();
        c.spared
    }

    /// Notes what the last pass showed of a block, in pass number `pass` that moves it aside again.
    pub(crate) fn note(&mut self, pass: u64, (chunk, block): (usize, usize), seen: Seen) {
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, Chunk::default());
        }
        let c = &mut self.chunks[chunk];
        c.begin(pass);
        c.came += usize::from(seen.young > 0);
        let mut b = c.blocks[block % CHUNK_BLOCKS];
        // Where nothing that was watched by itself is left, there is nothing to judge.
        if b.look != Look::Away && seen.exact_young + seen.exact_aside > 0 {
            let hot = seen.hot(b.look);
            c.judge(hot);
            if hot {
                b.rest();
                // This pass counts.
                b.passes += 1;
                b.look = Look::Away;
            } else {
                b.level = 0;
                b.look = Look::Closely;
            }
            c.blocks[block % CHUNK_BLOCKS] = b;
        }
    }

    /// Decides how a block is watched, when all of its chunk was noted: page by page as far as
    /// [`Blocks::exact`] says from now on, and the rest as is returned ([`watch`]).
    pub(crate) fn next_watch(&mut self, (chunk, block): (usize, usize), seen: Seen) -> u64 {
        let Some(c) = self.chunks.get_mut(chunk) else {
            return watch::GROUPS;
        };
        let mut b = c.blocks[block % CHUNK_BLOCKS];
        if b.look == Look::Away && seen.young > 0 {
            if b.passes > 0 {
                b.passes -= 1;
            } else if c.may_look(block) {
                let sample = !c.open && seen.mapped == BLOCK_PAGES;
                b.look = if sample { Look::Sample } else { Look::Closely };
            }
        }
        c.blocks[block % CHUNK_BLOCKS] = b;
        if c.as_one() {
            watch::CHUNKS
        } else {
            watch::GROUPS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What a pass over one chunk costs: its faults, and the blocks that are looked at in the next.
    #[derive(Clone, Copy, Debug)]
    struct Pass {
        looked_at: usize,
        faults: usize,
    }

    /// Passes over one chunk whose blocks have so many hot pages each, the last ones of the block,
    /// all touched between two passes.
    fn passes(hot: &[usize; CHUNK_BLOCKS], passes: u64) -> Vec<Pass> {
        const WINDOW: usize = 4;
        let mut blocks = Blocks::default();
        let mut how = [watch::GROUPS; CHUNK_BLOCKS];
        let mut found = Vec::new();
        for pass in 1..=passes {
            let looks: Vec<usize> = (0..CHUNK_BLOCKS).map(|i| blocks.exact((3, i))).collect();
            let grouped_hot = |i: usize| hot[i].min(BLOCK_PAGES - looks[i]);
            let mut faults = 0;
            let mut groups = BTreeSet::new();
            let mut all = Vec::new();
            for (i, &hot) in hot.iter().enumerate() {
                // A wide group comes back whole, another as far as its window reaches.
                let near = |j: &usize| how[i] == watch::CHUNKS || j / WINDOW == i / WINDOW;
                let like = |j: &usize| how[*j] == how[i] && looks[*j] < BLOCK_PAGES;
                let back = (0..CHUNK_BLOCKS)
                    .filter(near)
                    .filter(like)
                    .any(|j| grouped_hot(j) > 0);
                let exact_young = hot.saturating_sub(BLOCK_PAGES - looks[i]);
                let grouped = if back { BLOCK_PAGES - looks[i] } else { 0 };
                let young = if pass == 1 { 0 } else { exact_young + grouped };
                let seen = Seen {
                    mapped: if pass == 1 { BLOCK_PAGES } else { young },
                    young,
                    exact_young,
                    exact_aside: looks[i] - exact_young,
                };
                faults += exact_young;
                if grouped > 0 {
                    let window = if how[i] == watch::CHUNKS {
                        0
                    } else {
                        i / WINDOW
                    };
                    groups.insert((how[i], window));
                }
                blocks.note(pass, (3, i), seen);
                all.push(seen);
            }
            for (i, seen) in all.into_iter().enumerate() {
                how[i] = blocks.next_watch((3, i), seen);
            }
            let looked_at = (0..CHUNK_BLOCKS).filter(|i| blocks.exact((3, *i)) > 0);
            found.push(Pass {
                looked_at: looked_at.count(),
                faults: faults + groups.len(),
            });
        }
        found
    }

    fn looks(hot: &[usize; CHUNK_BLOCKS], n: u64) -> Vec<usize> {
        passes(hot, n).iter().map(|pass| pass.looked_at).collect()
    }

    /// Each block of a hot chunk was looked at for itself: a fault for each page of all hot memory
    /// in every second, fourth, eighth pass, 12.9% of a core for 1 GiB every 10 s.
    #[test]
    fn a_hot_chunk_costs_one_close_look_less_and_less_often() {
        let looks = looks(&[16; CHUNK_BLOCKS], 64);
        assert!(looks.iter().all(|n| *n <= 1), "{looks:?}");
        let all: usize = looks.iter().sum();
        assert!((4..=10).contains(&all), "{looks:?}");
    }

    /// With all 16 pages of the sample watched, and the groups watched once more before the chunk is
    /// one, the first minute took 3.6% of a core.
    #[test]
    fn a_hot_chunk_is_known_after_few_faults() {
        let faults = passes(&[16; CHUNK_BLOCKS], 100);
        let faults: Vec<usize> = faults.iter().map(|pass| pass.faults).collect();
        assert_eq!(faults[1..6], [8, 5, 1, 1, 1], "{faults:?}");
        assert!(faults.iter().sum::<usize>() < 300, "{faults:?}");
    }

    #[test]
    fn where_blocks_are_partly_hot_all_are_under_close_watch_from_the_third_pass_on() {
        let looks = looks(&[2; CHUNK_BLOCKS], 20);
        assert!(looks[2..].iter().all(|n| *n == CHUNK_BLOCKS), "{looks:?}");
    }

    #[test]
    fn a_hot_chunk_is_spared_every_other_time() {
        let mut blocks = Blocks::default();
        let seen = Seen {
            mapped: BLOCK_PAGES,
            young: BLOCK_PAGES,
            exact_young: SAMPLE_PAGES,
            exact_aside: 0,
        };
        let mut spared = Vec::new();
        for pass in 1..=12 {
            spared.push(blocks.spare(3));
            if spared.ends_with(&[true]) {
                continue;
            }
            (0..CHUNK_BLOCKS).for_each(|i| blocks.note(pass, (3, i), seen));
            for i in 0..CHUNK_BLOCKS {
                blocks.next_watch((3, i), seen);
            }
        }
        assert!(spared.iter().filter(|s| **s).count() >= 4, "{spared:?}");
        assert!(
            !spared.windows(2).any(|two| two == [true, true]),
            "{spared:?}"
        );
        assert!(!spared[..3].contains(&true), "{spared:?}");
    }

    #[test]
    fn a_chunk_of_which_a_part_stayed_away_is_not_spared() {
        let mut blocks = Blocks::default();
        for pass in 1..=20 {
            for i in 0..CHUNK_BLOCKS {
                let young = if i < CHUNK_BLOCKS - 2 { BLOCK_PAGES } else { 0 };
                let seen = Seen {
                    mapped: young,
                    young,
                    exact_young: young.min(SAMPLE_PAGES),
                    exact_aside: 0,
                };
                blocks.note(pass, (3, i), seen);
                blocks.next_watch((3, i), seen);
            }
            assert!(!blocks.spare(3), "pass {pass}");
        }
    }

    #[test]
    fn cold_blocks_are_never_looked_at() {
        let mut hot = [0; CHUNK_BLOCKS];
        assert!(looks(&hot, 20).iter().all(|n| *n == 0));
        hot[7] = 3;
        // The blocks that come back with it.
        assert!(looks(&hot, 20).iter().all(|n| *n <= 4));
        assert_eq!(passes(&hot, 20)[19].faults, 3);
    }

    #[test]
    fn a_partly_hot_block_among_hot_ones_is_found() {
        for at in 0..CHUNK_BLOCKS {
            let mut hot = [16; CHUNK_BLOCKS];
            hot[at] = 1;
            let looks = looks(&hot, 800);
            assert!(looks.iter().any(|n| *n > 1), "block {at}");
        }
    }
}
