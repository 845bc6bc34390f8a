//! One zram device: compressed memory that looks like a disk.
//!
//! Invariant: a [`Zram`] is a device that we added, one that a record names, or one that the user
//! named. The kernel refuses to remove a device that a process has open. A device is identified by
//! its disk number (`diskseq`), because the kernel reuses names.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access, major, minor};
use rustix::io::Errno;

use super::error::SwapError;
use super::places::{Places, line, put, put_in_time};
use super::stat::{Algorithms, BdStat, MmStat};

/// How long to retry the removal of a device: udev and similar programs open each new disk for a
/// moment.
const PATIENCE: Duration = Duration::from_secs(5);
/// Hint of the errors for a kernel without zram.
const FILE: &str = "swap in a file works without it: pagetide swap on --file PATH";
/// Algorithms that the zram of some kernel has: any other name is a typing error.
const KNOWN: [&str; 7] = ["lz4", "lz4hc", "lzo", "lzo-rle", "zstd", "deflate", "842"];

/// The device `/dev/zramN`, where N is `number`.
#[derive(Clone, Debug)]
pub(super) struct Zram<'a> {
    places: &'a Places,
    number: u32,
}

impl<'a> Zram<'a> {
    /// Adds a new device, which has no size yet.
    pub(super) fn add(places: &'a Places) -> Result<Zram<'a>, SwapError> {
        let control = control(places)?;
        let what = "cannot add a zram device";
        // Reading `hot_add` adds a device even if we may write nothing. Then we could not remove
        // it, so the right is checked first.
        access(control.join("hot_remove"), Access::WRITE_OK)
            .map_err(|errno| SwapError::io(what, &errno.into()))?;
        let number = line(&control.join("hot_add")).map_err(|error| SwapError::io(what, &error))?;
        let odd = || {
            SwapError::failed(
                what,
                format!("the kernel returned `{number}`"),
                "see `dmesg`",
            )
        };
        let number = number.parse().map_err(|_| odd())?;
        Ok(Zram { places, number })
    }

    /// Returns the device that a path such as `/dev/zram1` names, even if it does not exist; `None`
    /// for any other path.
    pub(super) fn named(places: &'a Places, path: &Path) -> Option<Zram<'a>> {
        let number = path.strip_prefix(&places.dev).ok()?.to_str()?;
        let number = number.strip_prefix("zram")?.parse().ok()?;
        Some(Zram { places, number })
    }

    /// Returns the path of the device node.
    pub(super) fn path(&self) -> PathBuf {
        self.places.dev.join(format!("zram{}", self.number))
    }

    /// Returns the path of a file of the device in `/sys`.
    fn attribute(&self, name: &str) -> PathBuf {
        let device = format!("block/zram{}", self.number);
        self.places.sys.join(device).join(name)
    }

    /// Reads a file of the device in `/sys` that holds one number.
    fn figure(&self, name: &str) -> Option<u64> {
        line(&self.attribute(name)).ok()?.parse().ok()
    }

    pub(super) fn exists(&self) -> bool {
        self.attribute("disksize").exists()
    }

    /// Returns the disk number; `None` before Linux 5.15.
    pub(super) fn diskseq(&self) -> Option<u64> {
        self.figure("diskseq")
    }

    /// Whether the device has no size yet, so that it can hold no data.
    pub(super) fn is_empty(&self) -> bool {
        self.figure("disksize") == Some(0)
    }

    /// Whether the device has the size `size` (bytes), and nothing was ever written to it.
    pub(super) fn is_blank(&self, size: u64) -> bool {
        let blank = self.mm_stat().is_some_and(|stat| stat.original == 0);
        blank && self.figure("disksize") == Some(size)
    }

    /// Returns the algorithms that the kernel offers for the device; none if they cannot be read.
    pub(super) fn algorithms(&self) -> Algorithms {
        let text = std::fs::read(self.attribute("comp_algorithm"));
        Algorithms::parse(&text.unwrap_or_default())
    }

    /// Returns the second algorithm; `None` if the device has none.
    pub(super) fn second_algorithm(&self) -> Option<String> {
        let text = std::fs::read(self.attribute("recomp_algorithm"));
        Algorithms::parse(&text.unwrap_or_default()).chosen
    }

    /// Marks pages as idle that were not accessed for `older_than`, in whole seconds; for 0 s all
    /// pages.
    pub(super) fn mark_idle(&self, older_than: Duration) -> io::Result<()> {
        let text = match older_than.as_millis().div_ceil(1000) {
            0 => "all".to_owned(),
            seconds => seconds.to_string(),
        };
        put(&self.attribute("idle"), &text)
    }

    /// Recompresses pages that are marked as idle with the second algorithm; tries at most `pages`.
    /// Repeats the call until `end` while the kernel refuses because of a writeback.
    pub(super) fn recompress_idle(&self, pages: u64, end: Instant) -> io::Result<()> {
        let text = format!("type=idle max_pages={pages}");
        put_in_time(&self.attribute("recompress"), &text, Errno::AGAIN, end)
    }

    /// Returns how often the device was read and written since it was made.
    pub(super) fn accesses(&self) -> Option<u64> {
        let text = std::fs::read_to_string(self.attribute("stat")).ok()?;
        let mut figures = text.split_ascii_whitespace().map(str::parse::<u64>);
        let (reads, writes) = (figures.next()?.ok()?, figures.nth(3)?.ok()?);
        reads.checked_add(writes)
    }

    /// Returns the sizes of the stored pages; `None` if they cannot be read.
    pub(super) fn mm_stat(&self) -> Option<MmStat> {
        MmStat::parse(&std::fs::read(self.attribute("mm_stat")).ok()?)
    }

    /// Whether the kernel's zram supports writeback.
    pub(super) fn may_write_back(&self) -> bool {
        self.attribute("writeback").exists()
    }

    /// Returns the path of the kernel's file to which writeback requests are written.
    pub(super) fn write_back_attribute(&self) -> PathBuf {
        self.attribute("writeback")
    }

    /// Returns the disk to which the device writes pages back; `None` if it has none.
    pub(super) fn backing(&self) -> Option<PathBuf> {
        let path = line(&self.attribute("backing_dev")).ok()?;
        (path != "none").then(|| path.into())
    }

    /// Sets the disk for writeback. The device must have no size yet.
    pub(super) fn set_backing(&self, device: &Path) -> io::Result<()> {
        put(&self.attribute("backing_dev"), &device.to_string_lossy())
    }

    /// Returns the traffic with the disk behind the device; `None` if it cannot be read.
    pub(super) fn bd_stat(&self) -> Option<BdStat> {
        BdStat::parse(&std::fs::read(self.attribute("bd_stat")).ok()?)
    }

    /// Sets the algorithm, then the second algorithm for recompression, then the size in bytes.
    /// Without a requested algorithm the best one is set; without a second one, recompression is
    /// not possible. Returns the first algorithm, `None` if it is the kernel's choice and unknown.
    pub(super) fn set(
        &self,
        (requested, second): (Option<&str>, Option<&str>),
        size: u64,
    ) -> Result<Option<String>, SwapError> {
        let offered = self.algorithms();
        let named = [("--compress", requested), ("--recompress", second)];
        for (option, name) in named {
            if let Some(name) = name.filter(|name| !offered.has(name)) {
                return Err(not_offered((option, name), &offered));
            }
        }
        let algorithm = requested.or(offered.best()).map(str::to_owned);
        if let Some(name) = &algorithm {
            self.put("comp_algorithm", name)?;
        }
        if let Some(second) = second {
            if !self.attribute("recomp_algorithm").exists() {
                return Err(cannot_recompress());
            }
            self.put("recomp_algorithm", &format!("algo={second} priority=1"))?;
        }
        self.put("disksize", &size.to_string())?;
        Ok(algorithm)
    }

    /// Writes `value` to a file of the device in `/sys`.
    fn put(&self, name: &str, value: &str) -> Result<(), SwapError> {
        let path = self.attribute(name);
        put(&path, value).map_err(|error| match error.kind() {
            // A device that has a size accepts no other: another program was quicker to set one.
            io::ErrorKind::ResourceBusy => SwapError::Taken { path: self.path() },
            io::ErrorKind::OutOfMemory => SwapError::failed(
                format!("cannot make {} of {value} bytes", self.path().display()),
                "there is not enough memory for its table",
                "ask for less: pagetide swap on --size 25%",
            ),
            _ => SwapError::io(
                format!("cannot write {value} to {}", path.display()),
                &error,
            ),
        })
    }

    /// Opens the device node to read the header, or to write it too. Fails if the node is another
    /// device's.
    pub(super) fn open(&self, write: bool) -> io::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .write(write)
            .open(self.path())?;
        let device = file.metadata()?.rdev();
        let found = format!("{}:{}", major(device), minor(device));
        match line(&self.attribute("dev")) {
            Ok(want) if want != found => Err(io::Error::other(format!(
                "it is device {found}, but /sys says {want}"
            ))),
            _ => Ok(file),
        }
    }

    /// Removes the device with its content; retries for [`PATIENCE`] if a process has it open. It
    /// is no error if the device is gone. (We do not reset it first: `hot_remove` does that, and a
    /// reset of our own would offer the empty device to other programs.)
    pub(super) fn remove(&self) -> io::Result<()> {
        let remove = self.places.sys.join("class/zram-control/hot_remove");
        let (number, end) = (self.number.to_string(), Instant::now() + PATIENCE);
        match put_in_time(&remove, &number, Errno::BUSY, end) {
            Err(error) if error.kind() != io::ErrorKind::ResourceBusy && !self.exists() => Ok(()),
            done => done,
        }
    }
}

/// The error if the kernel's zram does not have the algorithm that an option of the command names.
fn not_offered((option, requested): (&str, &str), offered: &Algorithms) -> SwapError {
    let has = offered.offered.join(", ");
    if KNOWN.contains(&requested) {
        return SwapError::missing(
            format!("cannot compress with {requested}"),
            format!("the zram of this kernel has {has}"),
            match option {
                "--compress" => "leave --compress out to get the best of these",
                _ => "leave --recompress out, or name one of these",
            },
        );
    }
    SwapError::bad(
        format!("there is no algorithm `{requested}`"),
        format!("the zram of this kernel has {has}"),
    )
}

/// The error if the kernel's zram supports no second algorithm.
fn cannot_recompress() -> SwapError {
    SwapError::missing(
        "cannot give compressed swap a second algorithm",
        "zram of this kernel supports only one (it was built without CONFIG_ZRAM_MULTI_COMP)",
        "leave --recompress out; --backing writes pages that stay swapped out for long to a disk",
    )
}

/// Returns the directory where devices are added; loads the kernel module if needed.
fn control(places: &Places) -> Result<PathBuf, SwapError> {
    let control = places.sys.join("class/zram-control");
    if !control.is_dir() {
        load_module(places)?;
    }
    match control.is_dir() {
        true => Ok(control),
        false => Err(no_zram("zram was loaded but offers no devices")),
    }
}

/// The error if the kernel has no zram; `why` says what was tried.
fn no_zram(why: impl Into<String>) -> SwapError {
    SwapError::missing("cannot make compressed swap", why, FILE)
}

/// Loads the module with modprobe, as the kernel itself would, but so that it adds no device of its
/// own.
fn load_module(places: &Places) -> Result<(), SwapError> {
    let program = line(&places.proc.join("sys/kernel/modprobe"))
        .map_err(|_| no_zram("this kernel has no zram, and loads no modules"))?;
    let loaded = Command::new(&program)
        .args(["zram", "num_devices=0"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            no_zram(format!(
                "this kernel has no zram yet, and {program}: {error}"
            ))
        })?;
    if loaded.status.success() {
        return Ok(());
    }
    let reported = String::from_utf8_lossy(&loaded.stderr);
    let reported = reported
        .lines()
        .next()
        .unwrap_or("it did not say why")
        .to_owned();
    Err(no_zram(format!(
        "this kernel has no zram, and {program} failed: {reported}"
    )))
}
