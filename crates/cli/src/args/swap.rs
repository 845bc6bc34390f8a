//! Arguments of `swap`.

use std::path::PathBuf;

use daemon::options::{Bytes, Millis, Size, UnitError, millis};
use host::swap::Request;

use super::examples;

/// What to do with swap.
#[derive(clap::Subcommand, Debug, Clone)]
pub(crate) enum Swap {
    /// Show all swap of the machine, and which of it pagetide made
    ///
    /// Needs no rights and changes nothing. For zram and zswap: what they hold, and the memory that
    /// this takes.
    #[command(after_help = examples::SWAP_STATUS)]
    Status {
        /// As a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Make compressed swap in memory (zram), or in a file, and switch it on
    ///
    /// Needs root. It is filled before other swap, and lasts until `swap off` or until the machine
    /// stops. No sysctl is changed. If it is on already, nothing is done, and the command shows
    /// what there is.
    #[command(after_help = examples::SWAP_ON)]
    On(On),
    /// Swap in all that is in the swap that `swap on` made, and remove that swap
    ///
    /// Needs root. Other swap is never touched. Nothing is done if the pages do not fit in memory.
    /// Nor while a manager runs, if another user switched it on, or while it may hold pages of
    /// other users' processes: --force does it all the same.
    #[command(after_help = examples::SWAP_OFF)]
    Off(Off),
    /// Compress again what has been swapped out for long, by the algorithm of `swap on
    /// --recompress`
    ///
    /// Needs root. For the swap that `swap on` made; the kernel reports how long a page has been in
    /// it. Takes as long as compressing it takes.
    #[command(after_help = examples::SWAP_RECOMPRESS)]
    Recompress {
        /// What has been in it for so long; 0s is all
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = millis)]
        #[arg(allow_negative_numbers = true)]
        older_than: Millis,
        /// As a JSON object
        #[arg(long)]
        json: bool,
    },
}

/// What kind of swap, and how much.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct On {
    /// How much it holds: a size, or a share of the host's memory
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "50%",
        value_parser = size,
        allow_negative_numbers = true
    )]
    pub(crate) size: Size,
    /// What zram compresses with [default: the fastest that the kernel has, lz4 first]
    #[arg(long, value_name = "zstd|lz4|...")]
    pub(crate) compress: Option<String>,
    /// What zram compresses again with, on `swap recompress`: a better and slower algorithm
    #[arg(long, value_name = "zstd|...")]
    pub(crate) recompress: Option<String>,
    /// Make a file of this name instead, on a disk
    #[arg(long, value_name = "PATH", conflicts_with_all = ["compress", "recompress"])]
    pub(crate) file: Option<PathBuf>,
    /// Put this unused disk or partition behind it: what is swapped out for long can be written
    /// there (`--write-back-older-than`)
    #[arg(long, value_name = "DEVICE", conflicts_with = "file")]
    pub(crate) backing: Option<PathBuf>,
    /// Make an area of this name beside the shared one: only `swap off --name` with the same name
    /// removes it
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,
    /// As a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which swap to switch off.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct Off {
    /// Also while managers or other users need it, or if another user switched it on
    #[arg(long)]
    pub(crate) force: bool,
    /// The area that `swap on --name` made [default: the shared one]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,
    /// As a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl On {
    /// Returns the request for swap, for a host with `memory` bytes.
    pub(crate) fn request(&self, memory: u64) -> Request {
        Request {
            size: self.size.bytes_of(Bytes(memory)).map(|bytes| bytes.0),
            algorithm: self.compress.clone(),
            recompress: self.recompress.clone(),
            file: self.file.clone(),
            backing: self.backing.clone(),
        }
    }
}

/// Parses the name of an area.
fn name(text: &str) -> Result<String, UnitError> {
    match host::swap::Swap::named(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(UnitError {
            why: format!("`{text}` is no name of swap"),
            hint: "write at most 32 of a to z, 0 to 9 and -, such as tutorial",
        }),
    }
}

/// Parses a size as all other options do, with hints of its own.
fn size(text: &str) -> Result<Size, UnitError> {
    let hint = "write a size such as 2G, or a share of memory such as 50%";
    match text.parse::<Size>() {
        Ok(Size::Max) => Err(UnitError {
            why: "swap without an end cannot be made".to_owned(),
            hint,
        }),
        Ok(size) if size.bytes_of(Bytes(u64::MAX)) == Some(Bytes(0)) => Err(UnitError {
            why: format!("`{text}` is no swap at all"),
            hint,
        }),
        Ok(size) => Ok(size),
        Err(error) => Err(UnitError { hint, ..error }),
    }
}
