//! Swap for tests, in compressed memory (zram): areas of one test's own, or an area that is shared
//! by all tests that only need some swap.
//!
//! An area is removed after its test, or after the last of the tests that share it. The test must
//! end its programs before that. If the area is the machine's only swap, other programs use it,
//! too, and their pages are swapped in when it is removed. The area of a killed test is removed
//! before the next area is made.
//!
//! Invariant: an area with one of our labels whose device is not locked belongs to a test that has
//! ended. Tests that share an area hold a shared lock on its device; a test with its own area holds
//! an exclusive lock.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::swap_turn::{self, Turn};
use crate::temp::{Serial, serial};
use crate::wait;

/// Folder of the files that make and remove zram devices.
const CONTROL: &str = "/sys/class/zram-control";
/// Label in the header of an area of a test's own. (`pagetide swap on` uses another label.)
const LABEL: &str = "pagetide-e2e";
/// Label in the header of the shared area.
const SHARED_LABEL: &str = "pagetide-shared";
/// Size of the shared area, MiB: more than all tests that share it swap out at the same time.
const SHARED_MIB: u64 = 8 << 10;
/// Length of a label in the header, bytes; it is padded with zeros.
const LABEL_LEN: usize = 16;
/// Offset of the label in the header, bytes (mkswap(8): after boot bits, version, sizes and uuid).
const LABEL_AT: u64 = 1052;

/// A zram device with an active swap area; removed in `Drop`.
#[derive(Debug)]
pub struct Swap {
    /// Number of the device, as in `/dev/zram0`.
    number: String,
    /// The locked device, for as long as the test lives. Closed before the device is removed, which
    /// the kernel refuses while it is open.
    held: Option<File>,
    owner: Owner,
}

/// Which tests have the area.
#[derive(Debug)]
enum Owner {
    /// One test alone.
    OneTest(#[expect(dead_code, reason = "a lock until it is dropped")] Arc<Turn>),
    /// All tests that share it.
    Shared(#[expect(dead_code, reason = "a lock until it is dropped")] Turn),
    /// None: the test that had it was killed.
    Dead,
}

impl Swap {
    /// Makes an area of `mib` MiB for this test alone; no other test has swap meanwhile.
    ///
    /// # Panics
    /// If that fails: these tests need root and zram.
    #[must_use]
    pub fn new(mib: u64) -> Swap {
        Swap::compressed_by(mib, None)
    }

    /// Like [`Swap::new`], with this compressor; `None` is the kernel's default.
    ///
    /// # Panics
    /// If that fails, or if the kernel has no such compressor.
    #[must_use]
    pub fn compressed_by(mib: u64, compressor: Option<&str>) -> Swap {
        let owner = Owner::OneTest(swap_turn::exclusive());
        dead_tests(&[LABEL, SHARED_LABEL])
            .into_iter()
            .for_each(drop);
        // With the highest priority, so that most of what is swapped out goes here.
        Swap::make((mib, compressor), (LABEL, 32767), owner)
    }

    /// Returns the shared area, and makes it if there is none. For a test that needs some swap, but
    /// not an area that only its own pages are in.
    ///
    /// # Panics
    /// If that fails: these tests need root and zram.
    #[must_use]
    pub fn shared() -> Swap {
        let owner = Owner::Shared(swap_turn::shared());
        let _making = swap_turn::lock_shared_area();
        dead_tests(&[LABEL]).into_iter().for_each(drop);
        let swap = match shared_area() {
            Some((number, held)) => Swap {
                number,
                held: Some(held),
                owner,
            },
            None => Swap::make((SHARED_MIB, None), (SHARED_LABEL, 32766), owner),
        };
        let held = swap.held.as_ref().expect("it is locked");
        flock(held, FlockOperation::LockShared).expect("it is ours, or shared");
        swap
    }

    /// Makes an area with this label and priority.
    fn make(
        (mib, compressor): (u64, Option<&str>),
        (label, priority): (&str, u16),
        owner: Owner,
    ) -> Swap {
        let number = std::fs::read_to_string(Path::new(CONTROL).join("hot_add"))
            .expect("a zram device can be made");
        let mut swap = Swap {
            number: number.trim().to_owned(),
            held: None,
            owner: Owner::Dead,
        };
        if let Some(compressor) = compressor {
            let taken = std::fs::write(swap.file("comp_algorithm"), compressor);
            taken.unwrap_or_else(|error| panic!("zram has no {compressor}: {error}"));
        }
        let size = swap.file("disksize");
        std::fs::write(size, format!("{mib}M")).expect("the size can be set");
        // A device manager (udev) opens the device for a moment after it is made.
        swap.held = wait::poll(Duration::from_secs(20), || locked(&swap.device()));
        assert!(swap.held.is_some(), "{} is locked", swap.device());
        let priority = priority.to_string();
        for command in [&["mkswap", "-L", label][..], &["swapon", "-p", &priority]] {
            let done = Command::new(command[0])
                .args(&command[1..])
                .arg(swap.device())
                .output();
            let done = done.unwrap_or_else(|error| panic!("{command:?}: {error}"));
            let why = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{command:?}: {why}");
        }
        swap.owner = owner;
        swap
    }

    /// Limits the memory that the device may use to `mib` MiB, however many pages are swapped out
    /// to it.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn limit(&self, mib: u64) {
        std::fs::write(self.file("mem_limit"), format!("{mib}M")).expect("a limit can be set");
    }

    /// Makes an area of the test's own if the machine has no swap; `None` if it has.
    #[must_use]
    pub fn if_none(mib: u64) -> Option<Swap> {
        dead_tests(&[LABEL, SHARED_LABEL])
            .into_iter()
            .for_each(drop);
        (areas() == 0).then(|| Swap::new(mib))
    }

    /// Path of the file `name` of the device in sysfs.
    fn file(&self, name: &str) -> String {
        format!("/sys/block/zram{}/{name}", self.number)
    }

    /// Name of the compressor in use.
    ///
    /// # Panics
    /// If the kernel does not say.
    #[must_use]
    pub fn compressor(&self) -> String {
        let text = std::fs::read_to_string(self.file("comp_algorithm")).unwrap_or_default();
        let mut words = text.split_whitespace();
        let chosen = words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        chosen.expect("zram says which one is chosen").to_owned()
    }

    /// Number of bytes that were ever written to the device (sectors written in `stat`): all pages
    /// that were swapped out, also those swapped in since.
    ///
    /// # Panics
    /// If the kernel does not say.
    #[must_use]
    pub fn written(&self) -> u64 {
        let text = std::fs::read_to_string(self.file("stat")).unwrap_or_default();
        let sectors = text.split_whitespace().nth(6).map(str::parse::<u64>);
        sectors.expect("a disk counts writes").expect("a number") * 512
    }

    /// Memory that the device uses, bytes (`mem_used_total` in `mm_stat`).
    ///
    /// # Panics
    /// If the kernel does not say.
    #[must_use]
    pub fn memory_used(&self) -> u64 {
        let text = std::fs::read_to_string(self.file("mm_stat")).unwrap_or_default();
        let used = text.split_whitespace().nth(2).map(str::parse);
        used.expect("zram says what it uses").expect("a number")
    }

    /// Size of the pages that are swapped out to the area now, bytes (`/proc/swaps`).
    #[must_use]
    pub fn used(&self) -> u64 {
        let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(&self.device()));
        let used = line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
        used.map_or(0, |kib: u64| kib * 1024)
    }

    /// Path of the device.
    #[must_use]
    pub fn device(&self) -> String {
        format!("/dev/zram{}", self.number)
    }
}

/// Number of active swap areas of the machine, of any kind and owner.
#[must_use]
pub fn areas() -> usize {
    let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    // The first line has the names of the columns.
    text.lines().skip(1).count()
}

/// Waits for the right to run ([`serial`]) and for the shared swap area; for a test that needs
/// swap.
#[must_use]
pub fn serial_with_swap() -> (Swap, Serial) {
    let turn = serial();
    (Swap::shared(), turn)
}

/// Opens the device and locks it exclusively; `None` if another process has locked it.
fn locked(device: &str) -> Option<File> {
    let file = File::open(device).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Areas with one of these labels that killed tests did not remove.
///
/// Regression: half of the pages that a later test swapped out went to such an area, which had the
/// same priority. So the test's own swap of 8 MiB never was full.
fn dead_tests(labels: &[&str]) -> Vec<Swap> {
    let dead = numbers().into_iter().filter_map(|number| {
        let held = locked(&format!("/dev/zram{number}"))?;
        let is_ours = labels.iter().any(|label| has_label(&held, label));
        // A `Swap` is made only for our own areas, because dropping it switches the area off.
        // Regression: foreign zram areas became one, too, and were switched off.
        is_ours.then(|| Swap {
            number,
            held: Some(held),
            owner: Owner::Dead,
        })
    });
    dead.collect()
}

/// Number and device of the shared area, with a shared lock on the device; `None` if there is no
/// shared area.
fn shared_area() -> Option<(String, File)> {
    numbers().into_iter().find_map(|number| {
        let file = File::open(format!("/dev/zram{number}")).ok()?;
        flock(&file, FlockOperation::NonBlockingLockShared).ok()?;
        has_label(&file, SHARED_LABEL).then_some((number, file))
    })
}

/// Numbers of the zram devices with active swap.
fn numbers() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let devices = text.lines().filter_map(|line| line.split(' ').next());
    let numbers = devices.filter_map(|device| device.strip_prefix("/dev/zram"));
    numbers.map(str::to_owned).collect()
}

/// Whether the header of the swap area on the device has this label.
fn has_label(device: &File, label: &str) -> bool {
    let mut bytes = [0; LABEL_LEN];
    let read = device.read_exact_at(&mut bytes, LABEL_AT);
    let (name, rest) = bytes.split_at(label.len());
    read.is_ok() && name == label.as_bytes() && rest.iter().all(|byte| *byte == 0)
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _making = match self.owner {
            Owner::Shared(_) => Some(swap_turn::lock_shared_area()),
            Owner::OneTest(_) | Owner::Dead => None,
        };
        if let (Some(_), Some(held)) = (&_making, &self.held) {
            // The last test that shares the area gets the exclusive lock here. A child process that
            // another thread has just forked has a copy of the file, so without the explicit unlock
            // the lock would stay until that child calls execve(2).
            if flock(held, FlockOperation::NonBlockingLockExclusive).is_err() {
                let _ = flock(held, FlockOperation::NonBlockingUnlock);
                return;
            }
        }
        let off = Command::new("swapoff").arg(self.device()).output();
        self.held = None;
        // Another test may have the device open at this moment to read its label.
        let remove = || std::fs::write(Path::new(CONTROL).join("hot_remove"), &self.number).ok();
        if wait::poll(Duration::from_secs(2), remove).is_none() {
            eprintln!("cannot remove {}: {off:?}", self.device());
        }
    }
}
