//! An area that a record names, as it is now.
//!
//! Invariant: only [`Now::On`], [`Now::Idle`] and [`Now::Empty`] are ours, and only what is ours may be
//! touched. A record of an earlier start of the machine names no zram device, for none outlived it.

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

/// What became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Now {
    /// Swapped to.
    On(SwapArea),
    /// There, and nobody swaps to it.
    Idle,
    /// A device of ours that got no size: whoever added it was killed.
    Empty,
    /// Not there any more.
    Gone,
    /// The kernel swaps to a file that has no name any more: it stays until the machine starts again.
    Nameless,
    /// Something else is in its place.
    Foreign(String),
}

/// What is there now; nothing is changed.
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
                return Ok(foreign("a new device has its name by now"));
            }
            if zram.is_empty() {
                // Nothing is in it that anybody could miss; without its number it may be anybody's.
                return Ok(match record.diskseq {
                    Some(_) => Now::Empty,
                    None => foreign("it is empty, and may be anybody's"),
                });
            }
            // Killed between size and header. (The story: with its number and no header it was taken for another's,
            // and was left for good.)
            if on.is_none() && record.diskseq.is_some() && zram.is_blank(record.size) {
                return Ok(Now::Idle);
            }
            agree(record, zram.open(false), on)
        }
        _ if same_boot && is_nameless(places, record)? => Ok(Now::Nameless),
        _ => agree(record, file::open(&record.path), on),
    }
}

fn foreign(why: &str) -> Now {
    Now::Foreign(why.to_owned())
}

/// Compares the header with the record.
fn agree(
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
            // Shorter than a page, a directory, a link.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::IsADirectory => {
                Ok(foreign("there is no swap header in it"))
            }
            _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                Ok(foreign("it is a link"))
            }
            // Whoever only asks for the state may not look into it; who switches may.
            io::ErrorKind::PermissionDenied => Ok(now()),
            _ => {
                let what = format!("cannot read {}", record.path.display());
                Err(SwapError::io(what, &error))
            }
        },
    }
}

pub(super) fn first_page(file: &File) -> io::Result<Vec<u8>> {
    let mut page = vec![0; usize::try_from(page_size()).unwrap_or(4096)];
    file.read_exact_at(&mut page, 0)?;
    Ok(page)
}

/// Whether the kernel lists a removed file of this name. (A file that is really called so has its header.)
fn is_nameless(places: &Places, record: &Record) -> Result<bool, SwapError> {
    let mut name = record.path.clone().into_os_string();
    name.push(" (deleted)");
    let listed = places.proc()?.swaps()?;
    let listed = listed.iter().any(|area| area.path == Path::new(&name));
    Ok(listed && !Path::new(&name).exists())
}
