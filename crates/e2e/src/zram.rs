//! Swap for tests, in compressed memory: a test's own, or one that all share who only need that there is some.
//!
//! It is gone after its test, or after the last of those who share it: the test must have ended what is in it before. Where it is the only
//! swap, others may use it meanwhile; what they have there comes back. One whose test was killed is gone before the next one is made.
//!
//! Invariant: an area with one of our labels whose device nobody has locked is a dead test's. Who shares one has locked it with others, who
//! has his own alone.

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

const CONTROL: &str = "/sys/class/zram-control";
/// In the header of each area. (What `pagetide swap on` makes is called otherwise.)
const LABEL: &str = "pagetide-e2e";
const SHARED_LABEL: &str = "pagetide-shared";
/// What all who share one have in it at the same time is less.
const SHARED_MIB: u64 = 8 << 10;
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
    turn: Has,
}

/// Who has it.
#[derive(Debug)]
enum Has {
    Own(#[expect(dead_code, reason = "held")] Arc<Turn>),
    Shared(#[expect(dead_code, reason = "held")] Turn),
    /// Whoever has died.
    Nobody,
}

impl Swap {
    /// One of so many MiB of a test's own: no other test has swap meanwhile.
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
        let turn = Has::Own(swap_turn::alone());
        dead_tests(&[LABEL, SHARED_LABEL])
            .into_iter()
            .for_each(drop);
        // Before any other swap, so that what is in it is ours, mostly.
        Swap::make((mib, compressor), (LABEL, 32767), turn)
    }

    /// One that others may have, too: for a test that needs some, and does not ask what is in it.
    ///
    /// # Panics
    /// As [`Swap::new`].
    #[must_use]
    pub fn shared() -> Swap {
        let turn = Has::Shared(swap_turn::shared());
        let _making = swap_turn::making();
        dead_tests(&[LABEL]).into_iter().for_each(drop);
        let swap = match there() {
            Some((number, held)) => Swap {
                number,
                held: Some(held),
                turn,
            },
            None => Swap::make((SHARED_MIB, None), (SHARED_LABEL, 32766), turn),
        };
        let held = swap.held.as_ref().expect("it is locked");
        flock(held, FlockOperation::LockShared).expect("it is ours, or shared");
        swap
    }

    fn make(
        (mib, compressor): (u64, Option<&str>),
        (label, priority): (&str, u16),
        turn: Has,
    ) -> Swap {
        let number = std::fs::read_to_string(Path::new(CONTROL).join("hot_add"))
            .expect("a zram device can be made");
        let mut swap = Swap {
            number: number.trim().to_owned(),
            held: None,
            turn: Has::Nobody,
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
        swap.turn = turn;
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
        dead_tests(&[LABEL, SHARED_LABEL])
            .into_iter()
            .for_each(drop);
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

/// The turn of a test ([`serial`]) that needs a swap: a machine may have none.
#[must_use]
pub fn serial_with_swap() -> (Swap, Serial) {
    let turn = serial();
    (Swap::shared(), turn)
}

/// The device, locked for this process alone, or nothing where another one has it.
fn held(device: &str) -> Option<File> {
    let file = File::open(device).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Areas with one of these labels that killed tests left on. The story: half of what a later run put out went to one, of the same
/// priority, and swap of 8 MiB never was full.
fn dead_tests(labels: &[&str]) -> Vec<Swap> {
    let dead = numbers().into_iter().filter_map(|number| {
        let held = held(&format!("/dev/zram{number}"))?;
        let is_ours = labels.iter().any(|label| has_label(&held, label));
        // Made only if it is ours: whoever drops one switches it off. (The story: any zram that somebody else swapped to was made into
        // one, and dropped.)
        is_ours.then(|| Swap {
            number,
            held: Some(held),
            turn: Has::Nobody,
        })
    });
    dead.collect()
}

/// The one that others share, locked with them, if there is one.
fn there() -> Option<(String, File)> {
    numbers().into_iter().find_map(|number| {
        let file = File::open(format!("/dev/zram{number}")).ok()?;
        flock(&file, FlockOperation::NonBlockingLockShared).ok()?;
        has_label(&file, SHARED_LABEL).then_some((number, file))
    })
}

/// The numbers of zram devices that are swapped to.
fn numbers() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let devices = text.lines().filter_map(|line| line.split(' ').next());
    let numbers = devices.filter_map(|device| device.strip_prefix("/dev/zram"));
    numbers.map(str::to_owned).collect()
}

fn has_label(device: &File, label: &str) -> bool {
    let mut bytes = [0; LABEL_LEN];
    let read = device.read_exact_at(&mut bytes, LABEL_AT);
    let (name, rest) = bytes.split_at(label.len());
    read.is_ok() && name == label.as_bytes() && rest.iter().all(|byte| *byte == 0)
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _making = match self.turn {
            Has::Shared(_) => Some(swap_turn::making()),
            Has::Own(_) | Has::Nobody => None,
        };
        if let (Some(_), Some(held)) = (&_making, &self.held) {
            // The last one has it for himself. A child that another thread has just forked has a copy of the file: what is not
            // given back here stays locked until that one calls execve(2).
            if flock(held, FlockOperation::NonBlockingLockExclusive).is_err() {
                let _ = flock(held, FlockOperation::NonBlockingUnlock);
                return;
            }
        }
        let off = Command::new("swapoff").arg(self.device()).output();
        self.held = None;
        // Another check may look at its label in this moment.
        let remove = || std::fs::write(Path::new(CONTROL).join("hot_remove"), &self.number).ok();
        if wait::poll(Duration::from_secs(2), remove).is_none() {
            eprintln!("cannot remove {}: {off:?}", self.device());
        }
    }
}
