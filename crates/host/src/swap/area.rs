//! The present state of an area that a record names.
//!
//! Invariant: only [`Now::On`], [`Now::Idle`] and [`Now::Empty`] are ours, and we change only what
//! is ours. A zram in a record from before the last boot does not exist any more, as no zram
//! survives a boot.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::io::Errno;

use super::Places;
use super::error::SwapError;
use super::file;
use super::header::our_uuid;
use super::record::Record;
use super::zram::Zram;
use crate::system::swap::{SwapArea, SwapKind, page_size};

/// The present state of an area that a record names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Now {
    /// The area is active: the kernel swaps to it.
    On(SwapArea),
    /// The area exists and is not active.
    Idle,
    /// A device of ours without a size: the command that added it was killed.
    Empty,
    /// The area does not exist any more.
    Gone,
    /// The kernel swaps to a file whose name was removed: the area stays active until the next
    /// boot.
    Nameless,
    /// Something else has the recorded path now; the text says how that was found.
    Foreign(String),
}

/// Returns the present state of the recorded area; changes nothing.
pub(super) fn state(places: &Places, record: &Record) -> Result<Now, SwapError> {
    let swaps = places.proc()?.swaps()?;
    let same_boot = places.boot()? == record.boot;
    let on = swaps.into_iter().find(|area| area.path == record.path);
    match record.kind {
        SwapKind::Zram => {
            let Some(zram) =
                Zram::named(places, &record.path).filter(|zram| same_boot && zram.exists())
            else {
                return Ok(Now::Gone);
            };
            if record.diskseq.is_some() && zram.diskseq() != record.diskseq {
                return Ok(foreign("a new device now has its name"));
            }
            if zram.is_empty() {
                // The device is empty, so no data can be lost; but without a disk number in the
                // record the device may be another program's.
                return Ok(match record.diskseq {
                    Some(_) => Now::Empty,
                    None => foreign("it is empty, and may belong to another program"),
                });
            }
            // The device is blank and has our disk number: the command was killed between setting
            // the size and writing the header.
            if on.is_none() && record.diskseq.is_some() && zram.is_blank(record.size) {
                return Ok(Now::Idle);
            }
            state_by_header(record, zram.open(false), on)
        }
        _ if same_boot && is_nameless(places, record)? => Ok(Now::Nameless),
        _ => state_by_header(record, file::open(&record.path), on),
    }
}

/// Returns the state of an area that is not ours; `why` says how that was found.
fn foreign(why: &str) -> Now {
    Now::Foreign(why.to_owned())
}

/// Returns the state of an area by its header, which must have the record's uuid. `on` is the
/// area's line in `/proc/swaps`, if it is active.
fn state_by_header(
    record: &Record,
    opened: io::Result<File>,
    on: Option<SwapArea>,
) -> Result<Now, SwapError> {
    let now = || on.map_or(Now::Idle, Now::On);
    let header = opened.and_then(|file| first_page(&file));
    match header {
        Ok(page) if our_uuid(&page) == Some(record.uuid) => Ok(now()),
        Ok(_) => Ok(foreign("its header is not the one that pagetide wrote")),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Ok(Now::Gone),
            // A file shorter than a page, or a directory.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::IsADirectory => {
                Ok(foreign("there is no swap header in it"))
            }
            _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                Ok(foreign("it is a link"))
            }
            // A user may read the status without a right to read the area; root can read it.
            io::ErrorKind::PermissionDenied => Ok(now()),
            _ => {
                let what = format!("cannot read {}", record.path.display());
                Err(SwapError::io(what, &error))
            }
        },
    }
}

/// Reads the first page of an area, which holds its header.
pub(super) fn first_page(file: &File) -> io::Result<Vec<u8>> {
    let mut page = vec![0; usize::try_from(page_size()).unwrap_or(4096)];
    file.read_exact_at(&mut page, 0)?;
    Ok(page)
}

/// Whether `/proc/swaps` lists the record's file as deleted: its path with ` (deleted)` at the end.
/// If a file of that longer name exists, the line is taken for that file's.
fn is_nameless(places: &Places, record: &Record) -> Result<bool, SwapError> {
    let mut name = record.path.clone().into_os_string();
    name.push(" (deleted)");
    let listed = places.proc()?.swaps()?;
    let listed = listed.iter().any(|area| area.path == Path::new(&name));
    Ok(listed && !Path::new(&name).exists())
}
