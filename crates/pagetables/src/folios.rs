//! Reads the kernel's young mark of folios, which shows whether a foreign clearer has cleared
//! accessed bits of a folio.
//!
//! Invariant: page flags are read only if two calibrations with pages of this process found the
//! same array of page structures. A folio whose flags cannot be read counts as not marked. For a
//! tail page, the flags of its folio's first page are read.
//!
//! DAMON and the idle-page bitmap clear accessed bits, too. When they do, they mark the folio young
//! (`PG_young`, CONFIG_PAGE_IDLE_FLAG), so that the kernel's own reclaim still knows of the access.
//! `clear_refs` clears that mark. So, if an entry's bit is clear and its folio is marked, the page
//! may have been accessed since our last clearing. It was accessed for certain if the folio is only
//! this page, or only this huge page.

use std::io;

use crate::btf::Btf;
use crate::calls::{self, Shared};
use crate::entry::PAGE_SIZE;
use crate::reader::Reader;

/// Number of bytes to read of a page's structure (`struct page`): 8 bytes of flags, and 8 of the
/// pointer to the folio's first page.
const HEAD_BYTES: u64 = 16;
/// Bit of the pointer to the folio's first page: set in tail pages only.
const IS_TAIL: u64 = 1;
/// Maximum number of copy requests in one run of the BPF program.
const BATCH: usize = 600;

/// Offsets and sizes in the kernel's structures, in bytes; masks of page flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    file_mapping: u64,
    mapping_pages: u64,
    array_head: u64,
    page_bytes: u64,
    /// Mask of the flag that marks a folio as young.
    young: u64,
    /// Mask of the flag that the first page of a large folio has.
    large: u64,
}

impl Layout {
    /// Finds the offsets and bits in the kernel's type information; `None` if this kernel does not
    /// mark folios young.
    pub(crate) fn find(btf: &Btf<'_>) -> Option<Layout> {
        let flag = |name| Some(1 << btf.constant("pageflags", name).filter(|bit| *bit < 64)?);
        let head = btf.offset("page", "flags")? == 0 && btf.offset("page", "compound_head")? == 8;
        head.then_some(Layout {
            file_mapping: btf.offset("file", "f_mapping")?,
            mapping_pages: btf.offset("address_space", "i_pages")?,
            array_head: btf.offset("xarray", "xa_head")?,
            page_bytes: btf.size("page")?,
            young: flag("PG_young")?,
            large: flag("PG_head")?,
        })
    }
}

/// Where the kernel's array of page structures is, and the layout of its members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folios {
    layout: Layout,
    /// Kernel address of the structure of frame 0.
    first: u64,
}

/// What the young mark of a folio says about one of its pages whose accessed bit is clear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// The folio is not marked: no foreign clearer has cleared a bit of it.
    None,
    /// The page was accessed: the folio consists of this page alone.
    Accessed,
    /// Some page of the folio was accessed, perhaps this one.
    OneOf,
}

/// The first two words of a page structure. The first are the flags. In a tail page, the second is
/// the address of the structure of the folio's first page, with [`IS_TAIL`] added.
#[derive(Clone, Copy, Default)]
struct Head {
    flags: u64,
    compound: u64,
}

impl Folios {
    /// Finds the array of page structures; `None` if two tries have different results. Each try
    /// makes a file of one page: the kernel's structure of the file has the address of that page's
    /// structure.
    pub(crate) fn calibrate(reader: &mut Reader, layout: Layout) -> Option<Folios> {
        let first = Self::locate(reader, layout).ok().flatten()?;
        let again = Self::locate(reader, layout).ok().flatten()?;
        (first == again).then_some(Folios { layout, first })
    }

    /// Finds the address of the structure of frame 0 from a new file of one page; `None` if the
    /// page of that file is not found.
    fn locate(reader: &mut Reader, layout: Layout) -> io::Result<Option<u64>> {
        let file = calls::one_page()?;
        let mut page = Shared::map(&file, 512)?;
        page.words_mut()[0] = 1;
        let space = reader.attach(std::process::id())?;
        let Some(found) = reader
            .look_up(&space, page.address())?
            .filter(|found| found.span == PAGE_SIZE)
        else {
            return Ok(None);
        };
        let frame = found.entry.physical(reader.mask) >> 12;
        let structure = reader.file(&file)?;
        let mapping = reader.pointer(structure.wrapping_add(layout.file_mapping))?;
        let pages = mapping.wrapping_add(layout.mapping_pages + layout.array_head);
        // For a file of one page the array's head is that page's entry; a pointer to a node would
        // have a low bit set.
        let folio = reader.pointer(pages)?;
        let is_page = folio & 3 == 0 && folio.is_multiple_of(8);
        Ok(is_page.then(|| folio.wrapping_sub(frame * layout.page_bytes)))
    }

    /// Kernel address of the structure of a frame.
    fn address(&self, frame: u64) -> u64 {
        self.first.wrapping_add(frame * self.layout.page_bytes)
    }

    /// Number of the frame whose structure has this kernel address.
    fn frame(&self, address: u64) -> u64 {
        address.wrapping_sub(self.first) / self.layout.page_bytes
    }
}

impl Folios {
    /// Returns the mark of each frame's folio, in the order of `frames`. `is_whole`: each frame is
    /// the first of a huge page that is a folio of its own.
    ///
    /// # Errors
    /// The BPF program cannot be run.
    pub(crate) fn marks(
        &self,
        reader: &mut Reader,
        frames: &[u64],
        is_whole: bool,
    ) -> io::Result<Vec<Mark>> {
        let whole = |(mark, _)| match mark {
            Mark::OneOf if is_whole => Mark::Accessed,
            mark => mark,
        };
        Ok(self
            .folio_marks(reader, frames)?
            .into_iter()
            .map(whole)
            .collect())
    }

    /// Returns for each frame: the mark of its folio, and whether the folio has more than one page.
    pub(crate) fn folio_marks(
        &self,
        reader: &mut Reader,
        frames: &[u64],
    ) -> io::Result<Vec<(Mark, bool)>> {
        let own = self.heads(reader, frames)?;
        let first = |head: &Head| {
            let is_tail = head.compound & IS_TAIL != 0;
            is_tail.then(|| self.frame(head.compound - IS_TAIL))
        };
        let mut firsts: Vec<u64> = own.iter().filter_map(first).collect();
        firsts.sort_unstable();
        firsts.dedup();
        let of_firsts = self.heads(reader, &firsts)?;
        let mark = |head: &Head| {
            let index = first(head).map(|frame| firsts.binary_search(&frame).unwrap_or(0));
            let flags = index.map_or(head.flags, |index| of_firsts[index].flags);
            let is_large = index.is_some() || flags & self.layout.large != 0;
            let mark = match (flags & self.layout.young != 0, is_large) {
                (false, _) => Mark::None,
                (true, false) => Mark::Accessed,
                (true, true) => Mark::OneOf,
            };
            (mark, is_large)
        };
        Ok(own.iter().map(mark).collect())
    }

    /// Reads the first two words of the page structures of `frames`, in order; zeros for a
    /// structure that cannot be read. Structures of consecutive frames are read in one request.
    fn heads(&self, reader: &mut Reader, frames: &[u64]) -> io::Result<Vec<Head>> {
        let bytes = self.layout.page_bytes;
        let most = usize::try_from(PAGE_SIZE / bytes).unwrap_or(1).max(1);
        let mut heads = Vec::with_capacity(frames.len());
        let mut runs: Vec<&[u64]> = Vec::new();
        let mut rest = frames;
        while !rest.is_empty() {
            let neighbours = rest
                .windows(2)
                .take(most - 1)
                .take_while(|two| two[1] == two[0] + 1)
                .count();
            let (run, later) = rest.split_at((neighbours + 1).min(most));
            runs.push(run);
            rest = later;
        }
        for batch in runs.chunks(BATCH) {
            for run in batch {
                let bytes = (run.len() as u64 - 1) * bytes + HEAD_BYTES;
                reader.copier.request(self.address(run[0]), bytes);
            }
            reader.copier.run()?;
            for (number, run) in batch.iter().enumerate() {
                let words = reader.copier.result(number);
                let each = usize::try_from(bytes / 8).unwrap_or(8);
                heads.extend((0..run.len()).map(|page| match words {
                    None => Head::default(),
                    Some(words) => Head {
                        flags: words[page * each],
                        compound: words[page * each + 1],
                    },
                }));
            }
        }
        Ok(heads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folio_flags_of_this_kernel_can_be_read() {
        let mut reader = Reader::open().expect("root, BPF and BTF");
        let bytes = crate::reader::type_information().expect("BTF");
        let layout = Layout::find(&Btf::parse(&bytes).expect("BTF")).expect("PG_young");
        let folios = Folios::calibrate(&mut reader, layout).expect("found");
        let buffer = std::hint::black_box(vec![1u8; 64 << 12]);
        let space = reader.attach(std::process::id()).expect("us");
        let at = buffer.as_ptr().addr() as u64 + 4096;
        let found = reader.look_up(&space, at).expect("read").expect("present");
        let frame = found.entry.physical(reader.mask) >> 12;
        let heads = folios
            .heads(&mut reader, &[frame, frame + 1, u64::MAX >> 24])
            .expect("read");
        // A mapped page has some flags set (in use, up to date).
        assert_ne!(heads[0].flags, 0);
        assert_eq!(heads[2].flags, 0, "no such frame");
        assert_eq!(folios.marks(&mut reader, &[], false).expect("nothing"), []);
    }
}
