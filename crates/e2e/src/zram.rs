//! A swap of a test's own, in compressed memory.
//!
//! It is gone after its test: the test must have ended what is in it before. Where it is the only
//! swap, others may use it meanwhile; what they have there comes back. One whose test was killed is gone before the next one is made.
//!
//! Invariant: an area with our label whose device nobody has locked is a dead test's.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::temp::{Serial, serial};
use crate::wait;

const CONTROL: &str = "/sys/class/zram-control";
/// In the header of each area. (What `pagetide swap on` makes is called otherwise.)
const LABEL: &str = "pagetide-e2e";
/// How long a label is, with zeroes behind it.
const LABEL_LEN: usize = 16;
/// Where a header has it (mkswap(8): after the boot bits, version, sizes and uuid).
const LABEL_AT: u64 = 1052;

/// A device with an active swap, removed in `Drop`.
#[derive(Debug)]
pub struct Swap {
    number: String,
    /// Locked for as long as the test lives; closed before the device is removed, which the kernel refuses while it is open.
    held: Option<File>,
}

impl Swap {
    /// One of so many MiB.
    ///
    /// # Panics
    /// If there cannot be one: these tests need root and zram.
    #[must_use]
    pub fn new(mib: u64) -> Swap {
        Swap::compressed_by(mib, None)
    }

    /// The same, by this compressor.
    ///
    /// # Panics
    /// As [`Swap::new`], and if the kernel has no such compressor.
    #[must_use]
    pub fn compressed_by(mib: u64, compressor: Option<&str>) -> Swap {
        dead_tests().into_iter().for_each(drop);
        let number = std::fs::read_to_string(Path::new(CONTROL).join("hot_add"))
            .expect("a zram device can be made");
        let mut swap = Swap {
            number: number.trim().to_owned(),
            held: None,
        };
        if let Some(compressor) = compressor {
            let taken = std::fs::write(swap.file("comp_algorithm"), compressor);
            taken.unwrap_or_else(|error| panic!("zram has no {compressor}: {error}"));
        }
        let size = swap.file("disksize");
        std::fs::write(size, format!("{mib}M")).expect("the size can be set");
        // Whoever manages devices has it for a moment after it was made.
        swap.held = wait::poll(Duration::from_secs(20), || held(&swap.device()));
        assert!(swap.held.is_some(), "{} is locked", swap.device());
        // Before any other swap, so that what is in it is ours, mostly.
        for command in [&["mkswap", "-L", LABEL][..], &["swapon", "-p", "32767"]] {
            let done = Command::new(command[0])
                .args(&command[1..])
                .arg(swap.device())
                .output();
            let done = done.unwrap_or_else(|error| panic!("{command:?}: {error}"));
            let why = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{command:?}: {why}");
        }
        swap
    }

    /// It may use so much memory and no more, whatever places it has.
    ///
    /// # Panics
    /// If the kernel does not take it.
    pub fn limit(&self, mib: u64) {
        std::fs::write(self.file("mem_limit"), format!("{mib}M")).expect("a limit can be set");
    }

    /// One of our own where there is no swap at all.
    #[must_use]
    pub fn if_none(mib: u64) -> Option<Swap> {
        dead_tests().into_iter().for_each(drop);
        (areas() == 0).then(|| Swap::new(mib))
    }

    /// A file of its in sysfs.
    fn file(&self, name: &str) -> String {
        format!("/sys/block/zram{}/{name}", self.number)
    }

    /// What it compresses with.
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

    /// What was ever written to it, in bytes (`stat`'s sectors written): pages that left, be they back or not.
    ///
    /// # Panics
    /// If the kernel does not say.
    #[must_use]
    pub fn written(&self) -> u64 {
        let text = std::fs::read_to_string(self.file("stat")).unwrap_or_default();
        let sectors = text.split_whitespace().nth(6).map(str::parse::<u64>);
        sectors.expect("a disk counts writes").expect("a number") * 512
    }

    /// Memory that it takes, in bytes (`mm_stat`'s mem_used_total).
    ///
    /// # Panics
    /// If the kernel does not say.
    #[must_use]
    pub fn memory_used(&self) -> u64 {
        let text = std::fs::read_to_string(self.file("mm_stat")).unwrap_or_default();
        let used = text.split_whitespace().nth(2).map(str::parse);
        used.expect("zram says what it uses").expect("a number")
    }

    /// What lies in it, in bytes.
    #[must_use]
    pub fn used(&self) -> u64 {
        let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(&self.device()));
        let used = line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
        used.map_or(0, |kib: u64| kib * 1024)
    }

    /// Its file.
    #[must_use]
    pub fn device(&self) -> String {
        format!("/dev/zram{}", self.number)
    }
}

/// How many swap areas are on, whoever's.
#[must_use]
pub fn areas() -> usize {
    let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    // Below a line of names.
    text.lines().skip(1).count()
}

/// The turn of a test ([`serial`]) that needs a swap of so many MiB: a machine may have none.
#[must_use]
pub fn serial_with_swap(mib: u64) -> (Swap, Serial) {
    let turn = serial();
    (Swap::new(mib), turn)
}

/// The device, locked for this process alone, or nothing where another one has it.
fn held(device: &str) -> Option<File> {
    let file = File::open(device).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Areas that killed tests left on. The story: half of what a later run put out went to one, of the same priority, and swap of
/// 8 MiB never was full.
fn dead_tests() -> Vec<Swap> {
    let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let devices = text.lines().filter_map(|line| line.split(' ').next());
    let dead = devices.filter_map(|device| {
        let number = device.strip_prefix("/dev/zram")?.to_owned();
        let mut label = [0; LABEL_LEN];
        let held = held(device)?;
        held.read_exact_at(&mut label, LABEL_AT).ok()?;
        let held = Some(held);
        let (name, rest) = label.split_at(LABEL.len());
        let is_ours = name == LABEL.as_bytes() && rest.iter().all(|byte| *byte == 0);
        is_ours.then_some(Swap { number, held })
    });
    dead.collect()
}

impl Drop for Swap {
    fn drop(&mut self) {
        let off = Command::new("swapoff").arg(self.device()).output();
        self.held = None;
        // Another check may look at its label in this moment.
        let remove = || std::fs::write(Path::new(CONTROL).join("hot_remove"), &self.number).ok();
        if wait::poll(Duration::from_secs(2), remove).is_none() {
            eprintln!("cannot remove {}: {off:?}", self.device());
        }
    }
}
