//! From frames to looks.
//!
//! Invariant: the bits are those that the encoder had at the end of the same look; what breaks a rule is [`Damaged`], and
//! nothing is made of it.

use std::collections::BTreeMap;

use crate::item;
use crate::order::shuffle;
use crate::pages::{CHUNK_PAGES, Pages, Planes, WORD_PAGES};
use crate::runs::{self, Run};
use crate::unit::Unit;
use crate::{Header, PAGE_BITS, SPACES_MAX, varint};

/// Chunks of all address spaces together, and of those that change in a look: 2 TiB, and some 300 MiB of memory each.
pub const CHUNKS_MAX: usize = 1 << 20;
/// Times are below this, milliseconds: some thousands of years.
const TIME_MAX: u64 = 1 << 47;

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged(pub &'static str);

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Damaged {}

/// What a frame was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The header; see [`Decoder::header`].
    Header,
    /// A part of a look.
    Part,
    /// The last of a look; see [`Decoder::look`].
    Look,
    /// Nothing follows.
    End,
}

/// One look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// When, milliseconds since the recording was begun.
    pub now_ms: u64,
    /// Pages that were accessed since the look before, in the order in which they are to be accessed. In the first look
    /// all that were there: those whose bit was clear first.
    pub accessed: Vec<Unit>,
    /// Pages that their program removed, or that ended with it.
    pub unmapped: Vec<Unit>,
    /// Pages that left memory since the look before.
    pub left: u64,
    /// Pages that came back since then.
    pub back: u64,
    /// Pages of which nobody knew whether they were accessed: among the accessed.
    pub unknown: u64,
}

#[derive(Debug, Default)]
struct Space {
    pages: Pages,
    /// In this look.
    was_read: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Decoder {
    header: Option<Header>,
    spaces: BTreeMap<u32, Space>,
    /// Chunks that changed in this look, as they were before.
    before: BTreeMap<(u32, u64), Planes>,
    chunks: usize,
    now_ms: u64,
    unknown: u64,
    looks: u64,
    has_ended: bool,
}

fn key(space: u32, page: u64) -> u64 {
    u64::from(space) << PAGE_BITS | page
}

impl Decoder {
    /// The header, once it was read.
    #[must_use]
    pub const fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Looks until now.
    #[must_use]
    pub const fn looks(&self) -> u64 {
        self.looks
    }

    /// Reads the content of one frame.
    ///
    /// # Errors
    /// It breaks a rule; nothing more can be read then.
    pub fn frame(&mut self, mut content: &[u8]) -> Result<Decoded, Damaged> {
        let bytes = &mut content;
        let (mut space, mut decoded) = (None, Decoded::Part);
        while let Some((&tag, rest)) = bytes.split_first() {
            *bytes = rest;
            let is_alone = decoded == Decoded::Part;
            if !is_alone || self.has_ended || self.header.is_none() != (tag == item::HEADER) {
                return Err(Damaged("something stands where nothing may follow"));
            }
            match tag {
                item::HEADER => {
                    let header = Header::take(bytes);
                    self.header = Some(header.ok_or(Damaged("the header makes no sense"))?);
                    decoded = Decoded::Header;
                }
                item::SPACE => space = Some(self.space(number(bytes)?)?),
                item::RUNS => {
                    let space = space.ok_or(Damaged("pages of no address space"))?;
                    self.runs(space, bytes)?;
                }
                item::GONE => {
                    space = None;
                    self.gone(number(bytes)?);
                }
                item::LOOK => {
                    self.end_look(number(bytes)?, number(bytes)?)?;
                    decoded = Decoded::Look;
                }
                item::END => {
                    if number(bytes)? != self.looks || !self.before.is_empty() {
                        return Err(Damaged("looks are missing before its end"));
                    }
                    self.has_ended = true;
                    decoded = Decoded::End;
                }
                _ => return Err(Damaged("there is no such item: is it of a newer pagetide?")),
            }
        }
        Ok(decoded)
    }

    fn space(&mut self, number: u64) -> Result<u32, Damaged> {
        let number = u32::try_from(number).ok();
        let number = number.filter(|number| *number < SPACES_MAX);
        let number = number.ok_or(Damaged("too many address spaces"))?;
        self.spaces.entry(number).or_default().was_read = true;
        Ok(number)
    }

    fn runs(&mut self, space: u32, bytes: &mut &[u8]) -> Result<(), Damaged> {
        let kind = usize::try_from(number(bytes)?).ok();
        let kind = kind.filter(|kind| *kind < Planes::KINDS);
        let kind = kind.ok_or(Damaged("no such kind of change"))?;
        let mut at = 0_u64;
        for _ in 0..number(bytes)? {
            let (gap, more) = (number(bytes)?, number(bytes)?);
            let first = at.checked_add(gap).filter(|first| *first < 1 << PAGE_BITS);
            let first = first.ok_or(Damaged("a page beyond all addresses"))?;
            let end = first
                .checked_add(more)
                .filter(|last| *last < 1 << PAGE_BITS);
            at = end.ok_or(Damaged("a page beyond all addresses"))? + 1;
            let pages = at - first;
            self.toggle(space, kind, Run { first, pages })?;
        }
        Ok(())
    }

    fn toggle(&mut self, space: u32, kind: usize, run: Run) -> Result<(), Damaged> {
        let Decoder {
            spaces,
            before,
            chunks,
            ..
        } = self;
        let Some(of) = spaces.get_mut(&space) else {
            return Err(Damaged("pages of no address space"));
        };
        let mut is_fine = true;
        runs::masks(run, |number, words| {
            let held = of.pages.len();
            let planes = of.pages.chunk_mut(number);
            before.entry((space, number)).or_insert(*planes);
            runs::toggle(planes, kind, words);
            *chunks += of.pages.len() - held;
            // Chunks that came and went within a look count, too.
            is_fine = *chunks <= CHUNKS_MAX && before.len() <= CHUNKS_MAX;
            is_fine
        });
        match is_fine {
            true => Ok(()),
            false => Err(Damaged("more pages than any program has")),
        }
    }

    fn gone(&mut self, number: u64) {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        if let Some(space) = self.spaces.remove(&number) {
            self.chunks -= space.pages.len();
            for (chunk, planes) in space.pages.0 {
                self.before.entry((number, chunk)).or_insert(planes);
            }
        }
    }

    fn end_look(&mut self, since_ms: u64, unknown: u64) -> Result<(), Damaged> {
        let now_ms = self.now_ms.checked_add(since_ms);
        let now_ms = now_ms.filter(|now_ms| *now_ms < TIME_MAX);
        self.now_ms = now_ms.ok_or(Damaged("a time beyond all times"))?;
        self.unknown = unknown;
        self.looks += 1;
        let after = |(space, number): (u32, u64)| {
            let space = self.spaces.get(&space);
            space.map_or(Planes::default(), |space| space.pages.chunk(number))
        };
        match self.before.keys().all(|at| after(*at).is_sound()) {
            true => Ok(()),
            false => Err(Damaged("a page is in memory and out at once")),
        }
    }

    /// The look that ended last. To be asked once, before the next frame.
    pub fn look(&mut self) -> Look {
        let mut look = Look {
            now_ms: self.now_ms,
            unknown: self.unknown,
            ..Look::default()
        };
        let seed = self.header.as_ref().map_or(0, |header| header.seed);
        if self.looks == 1 {
            look.accessed = self.units(|planes, at| planes.present[at] & !planes.accessed[at]);
            shuffle(&mut look.accessed, seed, 0);
        }
        let mut accessed = self.units(|planes, at| planes.accessed[at]);
        shuffle(&mut accessed, seed, self.looks);
        look.accessed.append(&mut accessed);
        for ((space, number), before) in std::mem::take(&mut self.before) {
            let of = self.spaces.get_mut(&space);
            let after = of
                .as_ref()
                .map_or(Planes::default(), |of| of.pages.chunk(number));
            if let Some(of) = of
                && after.is_empty()
                && of.pages.0.remove(&number).is_some()
            {
                self.chunks -= 1;
            }
            for at in 0..before.present.len() {
                let (was, is) = (before.present[at], after.present[at]);
                look.left += u64::from((was & after.out[at]).count_ones());
                look.back += u64::from((is & before.out[at]).count_ones());
                let bits = (was | before.out[at]) & !(is | after.out[at]);
                if bits != 0 {
                    let first = key(space, number * CHUNK_PAGES) + at as u64 * WORD_PAGES;
                    look.unmapped.push(Unit { first, bits });
                }
            }
        }
        self.spaces
            .values_mut()
            .for_each(|space| space.was_read = false);
        look
    }

    /// Words of the spaces that were read in this look, of which some bits are wanted.
    fn units(&self, wanted: impl Fn(&Planes, usize) -> u64) -> Vec<Unit> {
        let mut units = Vec::new();
        for (space, of) in self.spaces.iter().filter(|(_, of)| of.was_read) {
            for (number, planes) in &of.pages.0 {
                for at in 0..planes.present.len() {
                    let bits = wanted(planes, at);
                    let first = key(*space, number * CHUNK_PAGES) + at as u64 * WORD_PAGES;
                    if bits != 0 {
                        units.push(Unit { first, bits });
                    }
                }
            }
        }
        units
    }
}

fn number(bytes: &mut &[u8]) -> Result<u64, Damaged> {
    varint::take(bytes).ok_or(Damaged("a number is cut off or too large"))
}
