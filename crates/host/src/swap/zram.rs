//! One zram device: compressed memory that looks like a disk.
//!
//! Invariant: a [`Zram`] is a device that we added, or one that a record names; none is removed while
//! somebody has it open, for the kernel refuses that. Which it is, is told by its disk number
//! (`diskseq`), for names are given out again.

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

/// udev and its kin open each new disk for a moment.
const PATIENCE: Duration = Duration::from_secs(5);
const FILE: &str = "swap in a file works without it: pagetide swap on --file PATH";
/// Names that some kernel's zram knows: what is not among them is a slip of the pen.
const KNOWN: [&str; 7] = ["lz4", "lz4hc", "lzo", "lzo-rle", "zstd", "deflate", "842"];

/// A device by its number.
#[derive(Clone, Debug)]
pub(super) struct Zram<'a> {
    places: &'a Places,
    number: u32,
}

impl<'a> Zram<'a> {
    /// A new device, of no size yet.
    pub(super) fn add(places: &'a Places) -> Result<Zram<'a>, SwapError> {
        let control = control(places)?;
        let what = "cannot add a zram device";
        // Reading `hot_add` adds one, even where nothing may be written: it could not be removed again.
        access(control.join("hot_remove"), Access::WRITE_OK)
            .map_err(|errno| SwapError::io(what, &errno.into()))?;
        let number = line(&control.join("hot_add")).map_err(|error| SwapError::io(what, &error))?;
        let odd = || {
            SwapError::failed(
                what,
                format!("the kernel answered `{number}`"),
                "see `dmesg`",
            )
        };
        let number = number.parse().map_err(|_| odd())?;
        Ok(Zram { places, number })
    }

    /// The device that a path such as `/dev/zram1` names.
    pub(super) fn named(places: &'a Places, path: &Path) -> Option<Zram<'a>> {
        let number = path.strip_prefix(&places.dev).ok()?.to_str()?;
        let number = number.strip_prefix("zram")?.parse().ok()?;
        Some(Zram { places, number })
    }

    /// Its node.
    pub(super) fn path(&self) -> PathBuf {
        self.places.dev.join(format!("zram{}", self.number))
    }

    fn attribute(&self, name: &str) -> PathBuf {
        let device = format!("block/zram{}", self.number);
        self.places.sys.join(device).join(name)
    }

    fn figure(&self, name: &str) -> Option<u64> {
        line(&self.attribute(name)).ok()?.parse().ok()
    }

    pub(super) fn exists(&self) -> bool {
        self.attribute("disksize").exists()
    }

    pub(super) fn diskseq(&self) -> Option<u64> {
        self.figure("diskseq")
    }

    /// Whether it has no size yet, so that nothing can be in it.
    pub(super) fn is_empty(&self) -> bool {
        self.figure("disksize") == Some(0)
    }

    /// Whether it has this size, and nothing was ever written to it.
    pub(super) fn is_blank(&self, size: u64) -> bool {
        let blank = self.mm_stat().is_some_and(|stat| stat.original == 0);
        blank && self.figure("disksize") == Some(size)
    }

    pub(super) fn algorithms(&self) -> Algorithms {
        let text = std::fs::read(self.attribute("comp_algorithm"));
        Algorithms::parse(&text.unwrap_or_default())
    }

    /// By what it can compress once more, if it was given anything.
    pub(super) fn second_algorithm(&self) -> Option<String> {
        let text = std::fs::read(self.attribute("recomp_algorithm"));
        Algorithms::parse(&text.unwrap_or_default()).chosen
    }

    /// Marks what has lain in it for so long, in whole seconds; of 0 s all that is in it.
    pub(super) fn mark_idle(&self, older_than: Duration) -> io::Result<()> {
        let text = match older_than.as_millis().div_ceil(1000) {
            0 => "all".to_owned(),
            seconds => seconds.to_string(),
        };
        put(&self.attribute("idle"), &text)
    }

    /// Compresses what is marked by the second algorithm; no more than so many pages are tried. While it writes back it is busy: that is waited for until `end`.
    pub(super) fn recompress_idle(&self, pages: u64, end: Instant) -> io::Result<()> {
        let text = format!("type=idle max_pages={pages}");
        put_in_time(&self.attribute("recompress"), &text, Errno::AGAIN, end)
    }

    /// How often it was read and written since it was made.
    pub(super) fn accesses(&self) -> Option<u64> {
        let text = std::fs::read_to_string(self.attribute("stat")).ok()?;
        let mut figures = text.split_ascii_whitespace().map(str::parse::<u64>);
        let (reads, writes) = (figures.next()?.ok()?, figures.nth(3)?.ok()?);
        reads.checked_add(writes)
    }

    pub(super) fn mm_stat(&self) -> Option<MmStat> {
        MmStat::parse(&std::fs::read(self.attribute("mm_stat")).ok()?)
    }

    /// Whether the kernel's zram writes anything back at all.
    pub(super) fn may_write_back(&self) -> bool {
        self.attribute("writeback").exists()
    }

    /// Where it is asked to.
    pub(super) fn write_back_attribute(&self) -> PathBuf {
        self.attribute("writeback")
    }

    /// The disk behind it, if there is one.
    pub(super) fn backing(&self) -> Option<PathBuf> {
        let path = line(&self.attribute("backing_dev")).ok()?;
        (path != "none").then(|| path.into())
    }

    /// Gives a device of no size yet a disk to write back to.
    pub(super) fn set_backing(&self, device: &Path) -> io::Result<()> {
        put(&self.attribute("backing_dev"), &device.to_string_lossy())
    }

    pub(super) fn bd_stat(&self) -> Option<BdStat> {
        BdStat::parse(&std::fs::read(self.attribute("bd_stat")).ok()?)
    }

    /// Gives it an algorithm, the one asked for or the best, one for what is compressed once more if one is asked for, and a size. The first of
    /// them.
    pub(super) fn set(
        &self,
        (asked, second): (Option<&str>, Option<&str>),
        size: u64,
    ) -> Result<Option<String>, SwapError> {
        let offered = self.algorithms();
        let named = [("--compress", asked), ("--recompress", second)];
        for (option, name) in named {
            if let Some(name) = name.filter(|name| !offered.has(name)) {
                return Err(not_offered((option, name), &offered));
            }
        }
        let algorithm = asked.or(offered.best()).map(str::to_owned);
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

    fn put(&self, name: &str, value: &str) -> Result<(), SwapError> {
        let path = self.attribute(name);
        put(&path, value).map_err(|error| match error.kind() {
            // A device of a size takes no other, and we are the first only if nobody was quicker.
            io::ErrorKind::ResourceBusy => SwapError::Taken { path: self.path() },
            io::ErrorKind::OutOfMemory => SwapError::failed(
                format!("cannot make {} of {value} bytes", self.path().display()),
                "there is no memory for its table",
                "ask for less: pagetide swap on --size 25%",
            ),
            _ => SwapError::io(
                format!("cannot write {value} to {}", path.display()),
                &error,
            ),
        })
    }

    /// Opens its node, to write the header or to look at it, and sees that the node is this device's.
    pub(super) fn open(&self, write: bool) -> io::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .write(write)
            .open(self.path())?;
        let device = file.metadata()?.rdev();
        let found = format!("{}:{}", major(device), minor(device));
        match line(&self.attribute("dev")) {
            Ok(want) if want != found => Err(io::Error::other(format!(
                "it is device {found}, and /sys says {want}"
            ))),
            _ => Ok(file),
        }
    }

    /// Removes it with all that is in it; whoever has it open keeps us waiting for a while. One that is
    /// gone is no error. (`hot_remove` resets as well: an own reset before it would offer the empty device
    /// to whoever looks for one.)
    pub(super) fn remove(&self) -> io::Result<()> {
        let remove = self.places.sys.join("class/zram-control/hot_remove");
        let (number, end) = (self.number.to_string(), Instant::now() + PATIENCE);
        match put_in_time(&remove, &number, Errno::BUSY, end) {
            Err(error) if error.kind() != io::ErrorKind::ResourceBusy && !self.exists() => Ok(()),
            done => done,
        }
    }
}

fn not_offered((option, asked): (&str, &str), offered: &Algorithms) -> SwapError {
    let has = offered.offered.join(", ");
    if KNOWN.contains(&asked) {
        return SwapError::missing(
            format!("cannot compress with {asked}"),
            format!("the zram of this kernel has {has}"),
            match option {
                "--compress" => "leave --compress out to get the best of these",
                _ => "leave --recompress out, or name one of these",
            },
        );
    }
    SwapError::bad(
        format!("there is no algorithm `{asked}`"),
        format!("the zram of this kernel has {has}"),
    )
}

/// This kernel's zram has nothing like it.
fn cannot_recompress() -> SwapError {
    SwapError::missing(
        "cannot give compressed swap a second algorithm",
        "the zram of this kernel has one alone (it was built without CONFIG_ZRAM_MULTI_COMP)",
        "leave --recompress out; --backing has what is out for long go on to a disk",
    )
}

/// Where devices are added; the module is loaded if that brings it.
fn control(places: &Places) -> Result<PathBuf, SwapError> {
    let control = places.sys.join("class/zram-control");
    if !control.is_dir() {
        load_module(places)?;
    }
    match control.is_dir() {
        true => Ok(control),
        false => Err(no_zram("zram was loaded and offers no devices")),
    }
}

fn no_zram(why: impl Into<String>) -> SwapError {
    SwapError::missing("cannot make compressed swap", why, FILE)
}

/// Asks for the module as the kernel itself would, and for no device of its own with it.
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
    let told = String::from_utf8_lossy(&loaded.stderr);
    let told = told
        .lines()
        .next()
        .unwrap_or("it did not say why")
        .to_owned();
    Err(no_zram(format!(
        "this kernel has no zram, and {program} failed: {told}"
    )))
}
