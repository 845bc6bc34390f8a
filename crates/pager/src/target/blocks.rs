//! How closely each block of 16 pages is watched.
//!
//! A touched page in limbo costs its program a fault. A block is first moved aside as a *group*:
//! one touch brings it back with its neighbours and says that some of them are in use. It is then
//! watched *page by page*: a touched page comes back alone. If most pages of a block prove young,
//! it is watched as a group again for twice as many passes as last time. So cold memory costs
//! nothing, hot memory a fault a group, and only blocks that are partly hot a fault a hot page.
//!
//! To find out that a block is hot through and through costs a fault for each of its pages, and
//! where one is, its neighbours mostly are. So of a chunk one block is looked at first, another each
//! time, and all of them only after one proved partly hot. And where one proved hot, and all groups of
//! the chunk came back, the chunk is one group for some passes.

use keeper::layout::watch;

/// Pages of a block.
pub(crate) const BLOCK_PAGES: usize = 16;
/// Blocks of a chunk.
pub(crate) const CHUNK_BLOCKS: usize = keeper::layout::CHUNK_PAGES / BLOCK_PAGES;
/// A block stays a group for at most 2^this passes before it is looked at closely again.
const LEVEL_MAX: u8 = 4;
/// For so many passes a hot chunk is one group, before its groups are watched again.
const WIDE_PASSES: u8 = 8;
/// From one sample to the next, in blocks: no divisor of their number, so that all have their turn.
const STRIDE: usize = 11;

/// What is known about one block.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Block {
    /// Watched page by page in the pass that is over.
    exact: bool,
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
    /// Blocks that came back in this pass.
    came: usize,
    /// While it is not 0, the whole chunk is one group.
    wide: u8,
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
        if self.wide > 0 {
            self.wide -= 1;
        } else if !self.open && self.all.level > 0 && self.came + 1 >= CHUNK_BLOCKS {
            self.wide = WIDE_PASSES;
        }
        self.came = 0;
        self.pass = pass;
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
        }
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

/// All blocks of a target, by chunk.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    chunks: Vec<Chunk>,
}

impl Blocks {
    /// Notes what the last pass showed of a block, `young` of its `present` pages having come
    /// back; says how it is watched now, in pass number `pass` ([`watch`]).
    pub(crate) fn next_watch(
        &mut self,
        pass: u64,
        (chunk, block): (usize, usize),
        young: usize,
        present: usize,
    ) -> u64 {
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, Chunk::default());
        }
        let c = &mut self.chunks[chunk];
        c.begin(pass);
        c.came += usize::from(young > 0);
        let mut b = c.blocks[block % CHUNK_BLOCKS];
        if b.exact {
            let hot = young * 2 >= present.max(1);
            c.judge(hot);
            if hot {
                b.rest();
                b.exact = false;
            } else {
                b.level = 0;
            }
        } else if young > 0 {
            if b.passes > 0 {
                b.passes -= 1;
            } else {
                b.exact = c.may_look(block);
            }
        }
        c.blocks[block % CHUNK_BLOCKS] = b;
        match b.exact {
            true => watch::PAGES,
            false if c.wide > 0 && !c.open => watch::CHUNKS,
            false => watch::GROUPS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes over one chunk whose blocks have so many hot pages each, all touched between two
    /// passes: the close looks of each pass.
    fn looks(hot: &[usize; CHUNK_BLOCKS], passes: u64) -> Vec<usize> {
        let mut blocks = Blocks::default();
        let mut how = [watch::GROUPS; CHUNK_BLOCKS];
        let mut looks = Vec::new();
        for pass in 1..=passes {
            for (i, &hot) in hot.iter().enumerate() {
                let any = hot > 0 || how[i] == watch::CHUNKS;
                let came_back = match how[i] {
                    _ if pass == 1 || !any => 0,
                    watch::PAGES => hot,
                    _ => BLOCK_PAGES,
                };
                how[i] = blocks.next_watch(pass, (3, i), came_back, BLOCK_PAGES);
            }
            looks.push(how.iter().filter(|how| **how == watch::PAGES).count());
        }
        looks
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

    #[test]
    fn where_blocks_are_partly_hot_all_are_under_close_watch_from_the_third_pass_on() {
        let looks = looks(&[2; CHUNK_BLOCKS], 20);
        assert!(looks[2..].iter().all(|n| *n == CHUNK_BLOCKS), "{looks:?}");
    }

    #[test]
    fn cold_blocks_are_never_looked_at() {
        let mut hot = [0; CHUNK_BLOCKS];
        assert!(looks(&hot, 20).iter().all(|n| *n == 0));
        hot[7] = 3;
        assert!(looks(&hot, 20).iter().all(|n| *n <= 1));
        assert_eq!(looks(&hot, 20)[19], 1);
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
