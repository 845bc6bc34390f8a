//! How closely each block of 16 pages is watched.
//!
//! A touched page in limbo costs its program a fault. A block is first moved aside as a *group*:
//! one touch brings it back with its neighbours and says that some of them are in use. It is then
//! watched *page by page*: a touched page comes back alone. If most pages of a block prove young,
//! it is watched as a group again for twice as many passes as last time. So cold memory costs
//! nothing, hot memory a fault a group, and only blocks that are partly hot a fault a hot page.

/// Pages of a block.
pub(crate) const BLOCK_PAGES: usize = 16;
/// Blocks of a chunk.
pub(crate) const CHUNK_BLOCKS: usize = keeper::layout::CHUNK_PAGES / BLOCK_PAGES;
/// A block stays a group for at most 2^this passes before it is looked at closely again.
const LEVEL_MAX: u8 = 4;

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

/// All blocks of a target, by chunk.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    chunks: Vec<[Block; CHUNK_BLOCKS]>,
}

impl Blocks {
    /// Notes what the last pass showed of a block, `young` of its `present` pages having come
    /// back; says whether it is to be moved aside as a group now.
    pub(crate) fn next_is_group(
        &mut self,
        chunk: usize,
        block: usize,
        young: usize,
        present: usize,
    ) -> bool {
        if self.chunks.len() <= chunk {
            self.chunks
                .resize(chunk + 1, [Block::default(); CHUNK_BLOCKS]);
        }
        let b = &mut self.chunks[chunk][block % CHUNK_BLOCKS];
        if b.exact {
            if young * 2 >= present.max(1) {
                b.level = (b.level + 1).min(LEVEL_MAX);
                b.passes = 1 << b.level;
                b.exact = false;
            } else {
                b.level = 0;
            }
        } else if young > 0 {
            if b.passes > 0 {
                b.passes -= 1;
            } else {
                b.exact = true;
            }
        }
        !b.exact
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_block_is_looked_at_closely_less_and_less_often() {
        let mut blocks = Blocks::default();
        let mut exact = 0;
        for _ in 0..64 {
            exact += usize::from(!blocks.next_is_group(3, 5, 16, 16));
        }
        assert!((4..=8).contains(&exact), "{exact} close looks in 64 passes");
    }

    #[test]
    fn a_partly_hot_block_stays_under_close_watch_and_a_cold_one_never_is() {
        let mut blocks = Blocks::default();
        assert!(blocks.next_is_group(0, 0, 0, 16));
        assert!(!blocks.next_is_group(0, 0, 16, 16));
        assert!((0..10).all(|_| !blocks.next_is_group(0, 0, 2, 16)));
        assert!((0..10).all(|_| blocks.next_is_group(0, 1, 0, 16)));
    }
}
