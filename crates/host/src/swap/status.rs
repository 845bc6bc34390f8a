//! All swap of the machine, and whose it is.
//!
//! Invariant: nothing is changed, and no right is needed; what may not be read is left out.

use std::path::PathBuf;

use serde::Serialize;

use super::Swap;
use super::area::{Now, state};
use super::error::SwapError;
use super::record::Record;
use super::zram::Zram;
use crate::system::swap::{SwapArea, SwapKind};

/// What there is.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Status {
    /// In the order in which the kernel lists them.
    pub areas: Vec<Area>,
    /// `vm.page-cluster`: pages that are read from swap together, as a power of two.
    pub page_cluster: Option<u32>,
    /// What pagetide made and nobody swaps to any more: `pagetide swap off` removes it.
    pub left: Vec<String>,
}

/// One area.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Area {
    /// The device or the file.
    #[serde(serialize_with = "super::places::lossy")]
    pub path: PathBuf,
    /// What it is made of.
    pub kind: SwapKind,
    /// Whether a pagetide made it: only then `swap off` takes it away.
    pub ours: bool,
    /// How much it holds.
    pub size_bytes: u64,
    /// How much of that is taken.
    pub used_bytes: u64,
    /// Higher ones are filled first.
    pub priority: i32,
    /// Of zram, what it makes of that.
    pub compressed: Option<Compressed>,
}

/// What zram makes of what is in it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Compressed {
    /// By what.
    pub algorithm: Option<String>,
    /// By what it compresses once more, if it was given anything for that.
    pub recompress: Option<String>,
    /// What was put in.
    pub original_bytes: u64,
    /// The same, compressed.
    pub compressed_bytes: u64,
    /// The memory that this takes, with all that is around it.
    pub memory_bytes: u64,
    /// Original to memory; none while nothing is in it.
    pub ratio: Option<f64>,
    /// The disk behind it, if there is one.
    pub backing: Option<Backing>,
}

/// The disk behind a zram.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Backing {
    /// Which.
    #[serde(serialize_with = "super::places::lossy")]
    pub path: PathBuf,
    /// What is there, and takes no memory.
    pub held_bytes: u64,
    /// What was written there since this zram was made.
    pub written_bytes: u64,
    /// What was read back from there.
    pub read_bytes: u64,
}

impl Status {
    /// Whether pages that are read together cost more than they save: zram needs no readahead, for its
    /// answer comes at once.
    #[must_use]
    pub fn wants_page_cluster_0(&self) -> bool {
        self.page_cluster.is_some_and(|pages| pages > 0)
            && self.areas.iter().any(|area| area.kind == SwapKind::Zram)
    }
}

impl Swap {
    /// Looks.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn status(&self) -> Result<Status, SwapError> {
        let (mut ours, mut left) = (Vec::new(), Vec::new());
        for record in self.all_records() {
            match state(&self.places, &record)? {
                Now::On(area) => ours.push(area.path),
                Now::Idle | Now::Empty => left.push(record.path.to_string_lossy().into_owned()),
                Now::Gone | Now::Nameless | Now::Foreign(_) => {}
            }
        }
        let swaps = self.places.proc()?.swaps()?;
        let areas = swaps.into_iter().map(|area| self.area(area, &ours));
        Ok(Status {
            areas: areas.collect(),
            page_cluster: self.places.page_cluster(),
            left,
        })
    }

    fn area(&self, area: SwapArea, ours: &[PathBuf]) -> Area {
        let zram = area
            .zram()
            .and_then(|_| Zram::named(&self.places, &area.path));
        Area {
            kind: area.kind(),
            ours: ours.contains(&area.path),
            size_bytes: area.size,
            used_bytes: area.used,
            priority: area.priority,
            compressed: zram.and_then(|zram| compressed(&zram)),
            path: area.path,
        }
    }

    /// Those of all owners: the records are the files of our directory that can be read as such.
    fn all_records(&self) -> Vec<Record> {
        let files = std::fs::read_dir(&self.places.run)
            .into_iter()
            .flatten()
            .flatten();
        let records = files.filter_map(|file| Record::parse(&std::fs::read(file.path()).ok()?));
        records.collect()
    }
}

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

fn backing(zram: &Zram<'_>) -> Option<Backing> {
    /// What `bd_stat` counts in, whatever pages are.
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
