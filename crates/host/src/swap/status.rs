//! All swap areas of the machine, and which of them are pagetide's.
//!
//! Invariant: nothing is changed, and no right is needed; what this process may not read is
//! skipped.

use std::path::PathBuf;

use serde::Serialize;

use super::area::{Now, state};
use super::error::SwapError;
use super::held::Zswap;
use super::record::Record;
use super::users::Maker;
use super::zram::Zram;
use super::{Swap, name_of};
use crate::system::swap::{SwapArea, SwapKind};

/// All swap areas of the machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Status {
    /// The areas, in the kernel's order.
    pub areas: Vec<Area>,
    /// `vm.page-cluster`: the kernel reads `1 << page_cluster` pages from swap together.
    pub page_cluster: Option<u32>,
    /// Inactive areas that pagetide made: `pagetide swap off` removes them.
    pub left: Vec<String>,
    /// The names of the areas in `left`, in their order; `None` for an area without a name.
    pub left_names: Vec<Option<String>>,
    /// zswap, if this kernel has it: it takes swapped-out pages before the areas get them.
    pub zswap: Option<Zswap>,
    /// Why this list is not the kernel's; `None` if it is.
    pub invented: Option<String>,
}

/// One swap area.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Area {
    /// The device or the file.
    #[serde(serialize_with = "super::places::lossy")]
    pub path: PathBuf,
    /// zram, a disk or a file.
    pub kind: SwapKind,
    /// Whether pagetide made the area: only then `swap off` removes it.
    pub ours: bool,
    /// The name by which `swap on --name` made the area; `None` for an area without a name.
    pub name: Option<String>,
    /// The user who switched the area on; `None` if that is not recorded.
    pub by: Option<Maker>,
    /// Size of the area in bytes.
    pub size_bytes: u64,
    /// Bytes of the area that hold swapped-out pages.
    pub used_bytes: u64,
    /// Swap priority: the kernel fills areas of higher priority first.
    pub priority: i32,
    /// The compression; `None` if the area is no zram.
    pub compressed: Option<Compressed>,
}

/// The compression of a zram.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Compressed {
    /// The algorithm, if the kernel reports it.
    pub algorithm: Option<String>,
    /// The second algorithm, for recompression, if the zram has one.
    pub recompress: Option<String>,
    /// Uncompressed size of the stored pages.
    pub original_bytes: u64,
    /// Compressed size of the stored pages.
    pub compressed_bytes: u64,
    /// The memory used for the stored pages, with the allocator's overhead.
    pub memory_bytes: u64,
    /// `original_bytes / memory_bytes`; `None` while the zram is empty.
    pub ratio: Option<f64>,
    /// The disk to which the zram writes pages back, if there is one.
    pub backing: Option<Backing>,
}

/// The disk behind a zram.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Backing {
    /// The block device.
    #[serde(serialize_with = "super::places::lossy")]
    pub path: PathBuf,
    /// Bytes that are on the disk now, and so use no memory.
    pub held_bytes: u64,
    /// Bytes written to the disk since this zram was made.
    pub written_bytes: u64,
    /// Bytes read from the disk since this zram was made.
    pub read_bytes: u64,
}

impl Status {
    /// Whether `vm.page-cluster` should be 0 but is not: there is a zram, which needs no readahead
    /// because it returns a page at once.
    #[must_use]
    pub fn wants_page_cluster_0(&self) -> bool {
        self.page_cluster.is_some_and(|pages| pages > 0)
            && self.areas.iter().any(|area| area.kind == SwapKind::Zram)
    }
}

impl Swap {
    /// Reads the status.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn status(&self) -> Result<Status, SwapError> {
        let (mut ours, mut left) = (Vec::new(), Vec::new());
        let mut left_names = Vec::new();
        for (name, record) in self.all_records() {
            match state(&self.places, &record)? {
                Now::On(area) => ours.push((area.path, name, record.maker)),
                Now::Idle | Now::Empty => {
                    left.push(record.path.to_string_lossy().into_owned());
                    left_names.push(name);
                }
                Now::Gone | Now::Nameless | Now::Foreign(_) => {}
            }
        }
        let proc = self.places.proc()?;
        let areas = proc.swaps()?.into_iter();
        Ok(Status {
            areas: areas.map(|area| self.area(area, &ours)).collect(),
            page_cluster: self.places.page_cluster(),
            left,
            left_names,
            zswap: self.zswap(),
            invented: proc.invented(),
        })
    }

    /// Returns the status of one area; `ours` has those that pagetide made.
    fn area(&self, area: SwapArea, ours: &[(PathBuf, Option<String>, Option<Maker>)]) -> Area {
        let found = ours.iter().find(|(path, ..)| *path == area.path);
        let zram = area
            .zram()
            .and_then(|_| Zram::named(&self.places, &area.path));
        Area {
            kind: area.kind(),
            ours: found.is_some(),
            name: found.and_then(|(_, name, _)| name.clone()),
            by: found.and_then(|(.., by)| *by),
            size_bytes: area.size,
            used_bytes: area.used,
            priority: area.priority,
            compressed: zram.and_then(|zram| compressed(&zram)),
            path: area.path,
        }
    }

    /// Returns the records of all owners, with the names of named areas: every file in our
    /// directory that can be parsed as a record.
    fn all_records(&self) -> Vec<(Option<String>, Record)> {
        let files = std::fs::read_dir(&self.places.run)
            .into_iter()
            .flatten()
            .flatten();
        let records = files.filter_map(|file| {
            let record = Record::parse(&std::fs::read(file.path()).ok()?)?;
            let owner = file.file_name().into_string().unwrap_or_default();
            Some((name_of(&owner).map(str::to_owned), record))
        });
        records.collect()
    }
}

/// Returns the compression of a zram; `None` if the kernel does not report it.
fn compressed(zram: &Zram<'_>) -> Option<Compressed> {
    let stat = zram.mm_stat()?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "a ratio that is rounded to a tenth"
    )]
    let ratio = |whole: u64, part: u64| whole as f64 / part as f64;
    Some(Compressed {
        algorithm: zram.algorithms().chosen,
        recompress: zram.second_algorithm(),
        original_bytes: stat.original,
        compressed_bytes: stat.compressed,
        memory_bytes: stat.memory,
        backing: backing(zram),
        ratio: (stat.original > 0 && stat.memory > 0).then(|| ratio(stat.original, stat.memory)),
    })
}

/// Returns the disk behind a zram; `None` if there is none.
fn backing(zram: &Zram<'_>) -> Option<Backing> {
    /// The unit of `bd_stat`: bytes, for any page size of the machine.
    const UNIT: u64 = 4096;
    let path = zram.backing()?;
    let stat = zram.bd_stat()?;
    Some(Backing {
        path,
        held_bytes: stat.held * UNIT,
        written_bytes: stat.written * UNIT,
        read_bytes: stat.read * UNIT,
    })
}
