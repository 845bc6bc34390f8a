//! Switches swap on.
//!
//! Invariant: the record is written before any process can use the area that it names. If an
//! operation fails, the area is removed again, and then the record.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::area::{Now, state};
use super::backing::put_behind;
use super::error::SwapError;
use super::file;
use super::header::{self, PAGES_MAX, Uuid};
use super::record::Record;
use super::users::Maker;
use super::zram::Zram;
use super::{FILE_PRIORITY, Swap, ZRAM_PRIORITY};
use crate::system::swap::{SwapKind, page_size};

/// Smallest size in bytes: a smaller area is useless, and its size probably a typing error.
const SIZE_MIN: u64 = 1 << 20;
/// Largest size of a zram, as a multiple of the host's memory. Data compresses two to four times.
/// Each page of a zram needs an entry in the kernel's table, which takes 1/256 of a page even while
/// no page is stored.
const ZRAM_MOST: u64 = 4;

/// The settings of an area that is to be made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// Size in bytes; `None` for half of the host's memory.
    pub size: Option<u64>,
    /// The kernel's name of the compression, such as `lz4`; `None` for the fastest that the
    /// kernel's zram has.
    pub algorithm: Option<String>,
    /// The second compression algorithm, for [`Swap::recompress`]; `None` for a zram that cannot
    /// recompress.
    pub recompress: Option<String>,
    /// A file to use instead of compressed memory.
    pub file: Option<PathBuf>,
    /// The disk behind compressed memory: a block device that is not in use.
    pub backing: Option<PathBuf>,
}

/// The area that was made, or that was on already.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Made {
    /// The device or the file.
    #[serde(serialize_with = "super::places::lossy")]
    pub path: PathBuf,
    /// The name of a named area.
    pub name: Option<String>,
    /// zram or a file.
    pub kind: SwapKind,
    /// Size of the area in bytes, including its header.
    pub size_bytes: u64,
    /// The compression algorithm of a zram; `None` for a file, or if the kernel does not report it.
    pub algorithm: Option<String>,
    /// The second algorithm, if one was requested.
    pub recompress: Option<String>,
    /// Swap priority of the area: the kernel fills areas of lower priority later.
    pub priority: u16,
    /// `vm.page-cluster`: the kernel reads `1 << page_cluster` pages from swap together. 0 is right
    /// for zram; the user decides.
    pub page_cluster: Option<u32>,
    /// The area that an earlier command had left behind, and that was removed first; as text.
    pub removed: Option<String>,
    /// The disk behind a zram, if there is one.
    pub backing: Option<String>,
    /// Whether the area was on already, so that nothing was made.
    pub already_on: bool,
    /// The settings in which an area that was on already is not as requested: names of options.
    pub differs: Vec<&'static str>,
    /// The user who switched the area on; `None` if an earlier version made it.
    pub by: Option<Maker>,
}

impl Swap {
    /// Makes an area and switches it on. Needs CAP_SYS_ADMIN. If this owner has an active area
    /// already, nothing is done, and no right is needed.
    ///
    /// # Errors
    /// The request makes no sense, a right or a feature is missing, or the kernel refused an
    /// operation.
    pub fn on(&self, request: &Request) -> Result<Made, SwapError> {
        let size = self.size(request)?;
        if let Ok(Some(made)) = self.already_on(request, size) {
            return Ok(made);
        }
        let _turn = self.begin("cannot switch swap on")?;
        // Another command may have switched it on while this one waited for its turn.
        if let Some(made) = self.already_on(request, size)? {
            return Ok(made);
        }
        let removed = self.take_up()?;
        let mut made = match &request.file {
            Some(path) => self.on_file(path, size)?,
            None => self.on_zram(request, size)?,
        };
        made.removed = removed;
        Ok(made)
    }

    /// Checks the request; returns the size of its area in bytes, a multiple of the page size.
    fn size(&self, request: &Request) -> Result<u64, SwapError> {
        let memory = self.places.proc()?.memory()?.total;
        let most = match request.file {
            Some(_) => PAGES_MAX.saturating_mul(page_size()),
            None => memory.saturating_mul(ZRAM_MOST),
        };
        let requested = request.size.unwrap_or(memory / 2);
        let bad = |why: &str, hint: String| {
            Err(SwapError::bad(format!("{requested} bytes are {why}"), hint))
        };
        let of_zram = [&request.algorithm, &request.recompress];
        let is_of_zram = of_zram.iter().any(|one| one.is_some()) || request.backing.is_some();
        if request.file.is_some() && is_of_zram {
            let hint = "leave --file out, or --compress, --recompress and --backing";
            return Err(SwapError::bad("a file is not compressed", hint));
        }
        if requested < SIZE_MIN {
            return bad(
                "too few",
                "ask for 1M or more, such as --size 50%".to_owned(),
            );
        }
        if requested > most {
            let most = most >> 20;
            let hint = match request.file {
                Some(_) => format!("{most}M is the most that a swap header can hold"),
                None => format!(
                    "{most}M, {ZRAM_MOST} times the memory of this host, is the most that makes sense for zram"
                ),
            };
            return bad("too many", hint);
        }
        Ok(requested - requested % page_size())
    }

    /// Returns the owner's active area, and what of it is not as requested; `None` if there is
    /// none.
    fn already_on(&self, request: &Request, size: u64) -> Result<Option<Made>, SwapError> {
        let Some(record) = self.record()? else {
            return Ok(None);
        };
        let Now::On(area) = state(&self.places, &record)? else {
            return Ok(None);
        };
        let zram = Zram::named(&self.places, &record.path);
        let zram = zram.filter(|_| record.kind == SwapKind::Zram);
        let zram = zram.as_ref();
        let algorithm = zram.and_then(|zram| zram.algorithms().chosen);
        let recompress = zram.and_then(Zram::second_algorithm);
        let backing = zram.and_then(Zram::backing);
        let file = (record.kind == SwapKind::File).then_some(&*record.path);
        let is_other =
            |wanted: &Option<String>, there: &Option<String>| wanted.is_some() && wanted != there;
        let pairs = [
            ("--size", size != record.size),
            ("--compress", is_other(&request.algorithm, &algorithm)),
            ("--recompress", is_other(&request.recompress, &recompress)),
            ("--file", is_another_file(request.file.as_deref(), file)),
            (
                "--backing",
                request.backing.is_some() && request.backing != backing,
            ),
        ];
        let differs = pairs.into_iter().filter(|(_, differs)| *differs);
        Ok(Some(Made {
            recompress,
            priority: u16::try_from(area.priority).unwrap_or(0),
            backing: backing.map(|path| path.display().to_string()),
            already_on: true,
            differs: differs.map(|(name, _)| name).collect(),
            ..self.made(&record, algorithm)
        }))
    }

    /// Removes the area that an earlier command of this owner left behind, if it is ours and
    /// inactive. Returns a text that names it; `None` if nothing was removed.
    fn take_up(&self) -> Result<Option<String>, SwapError> {
        let Some(record) = self.record()? else {
            return Ok(None);
        };
        let path = record.path.display();
        let reported = match state(&self.places, &record)? {
            Now::On(_) | Now::Nameless => return Err(SwapError::AlreadyOn { path: record.path }),
            Now::Idle | Now::Empty => {
                self.remove(&record)?;
                Some(format!("{path}, left by an earlier command"))
            }
            Now::Gone | Now::Foreign(_) => None,
        };
        self.forget()?;
        Ok(reported)
    }

    /// Makes a zram of `size` bytes and switches it on; removes it again if anything fails.
    fn on_zram(&self, request: &Request, size: u64) -> Result<Made, SwapError> {
        let uuid = self.places.new_uuid()?;
        let zram = Zram::add(&self.places)?;
        let record = Record {
            kind: SwapKind::Zram,
            path: zram.path(),
            size,
            uuid,
            boot: self.places.boot()?,
            diskseq: zram.diskseq(),
            maker: Some(Maker::now(self.kernel.user())),
        };
        let mut is_set = false;
        let mut steps = || {
            self.save(&record)?;
            if let Some(backing) = &request.backing {
                put_behind(&zram, backing)?;
            }
            let algorithms = (request.algorithm.as_deref(), request.recompress.as_deref());
            let algorithm = zram.set(algorithms, size)?;
            is_set = true;
            let refused =
                |error| SwapError::io(format!("cannot set up {}", record.path.display()), &error);
            let device = zram.open(true).map_err(refused)?;
            write_header(&device, size, uuid).map_err(refused)?;
            self.kernel
                .on(&device, &record.path, ZRAM_PRIORITY)
                .map_err(|error| {
                    SwapError::io(format!("cannot swap to {}", record.path.display()), &error)
                })?;
            Ok(algorithm)
        };
        let done = steps();
        match done {
            Ok(algorithm) => Ok(Made {
                backing: zram.backing().map(|path| path.display().to_string()),
                recompress: zram.second_algorithm(),
                ..self.made(&record, algorithm)
            }),
            // The device has a size that we did not set: another program searched for an unused
            // device and took ours.
            Err(why) if !is_set && !zram.is_empty() => {
                let _ = self.forget();
                Err(why)
            }
            Err(why) => match zram.remove() {
                Ok(()) => {
                    let _ = self.forget();
                    Err(why)
                }
                Err(error) => Err(why.and_left(&record.path.display().to_string(), &error)),
            },
        }
    }

    /// Makes a swap file of `size` bytes and switches it on; removes it again if anything fails.
    fn on_file(&self, path: &Path, size: u64) -> Result<Made, SwapError> {
        let record = Record {
            kind: SwapKind::File,
            path: file::checked_path(path, size)?,
            size,
            uuid: self.places.new_uuid()?,
            boot: self.places.boot()?,
            diskseq: None,
            maker: Some(Maker::now(self.kernel.user())),
        };
        let path = &record.path;
        self.save(&record)?;
        let file = match file::create(path) {
            Ok(file) => file,
            Err(why) => {
                let _ = self.forget();
                return Err(why);
            }
        };
        let steps = || {
            file::prepare(&file, path)?;
            // This comes first: by the header the next command recognizes the file as ours.
            write_header(&file, size, record.uuid).map_err(|error| {
                SwapError::io(format!("cannot write {}", path.display()), &error)
            })?;
            file::allocate(&file, path, size)?;
            let on = file
                .sync_all()
                .and_then(|()| self.kernel.on(&file, path, FILE_PRIORITY));
            on.map_err(|error| file::refused(path, &error))
        };
        let Err(why) = steps() else {
            return Ok(self.made(&record, None));
        };
        match file::remove(&file, path) {
            Ok(()) => {
                let _ = self.forget();
                Err(why)
            }
            Err(error) => Err(why.and_left(&path.display().to_string(), &error)),
        }
    }

    /// Returns the description of the new area. Fields about recompression and the disk behind a
    /// zram are `None`.
    fn made(&self, record: &Record, algorithm: Option<String>) -> Made {
        Made {
            path: record.path.clone(),
            name: self.name(),
            kind: record.kind,
            size_bytes: record.size,
            algorithm,
            recompress: None,
            priority: match record.kind {
                SwapKind::Zram => ZRAM_PRIORITY,
                _ => FILE_PRIORITY,
            },
            page_cluster: self.places.page_cluster(),
            removed: None,
            backing: None,
            already_on: false,
            differs: Vec::new(),
            by: record.maker,
        }
    }
}

/// Whether a requested file is not the file of the area, or only one of the two is a file.
fn is_another_file(wanted: Option<&Path>, there: Option<&Path>) -> bool {
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    wanted.map(whole) != there.map(whole)
}

/// Writes the header of an area of `size` bytes to its first page.
fn write_header(area: &File, size: u64, uuid: Uuid) -> io::Result<()> {
    let page = usize::try_from(page_size()).map_err(io::Error::other)?;
    let header = header::first_page(page, size / page_size(), uuid);
    let header = header.ok_or_else(|| io::Error::other("a swap header cannot hold this size"))?;
    area.write_all_at(&header, 0)?;
    area.sync_all()
}
