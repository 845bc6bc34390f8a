//! A swap of a test's own, in compressed memory.
//!
//! It is gone after its test: the test must have ended what is in it before. Where it is the only
//! swap, others may use it meanwhile; what they have there comes back.

use std::path::Path;
use std::process::Command;

use crate::temp::{Serial, serial};

const CONTROL: &str = "/sys/class/zram-control";

/// A device with an active swap, removed in `Drop`.
#[derive(Debug)]
pub struct Swap {
    number: String,
}

impl Swap {
    /// One of so many MiB.
    ///
    /// # Panics
    /// If there cannot be one: these tests need root and zram.
    #[must_use]
    pub fn new(mib: u64) -> Swap {
        let number = std::fs::read_to_string(Path::new(CONTROL).join("hot_add"))
            .expect("a zram device can be made");
        let swap = Swap {
            number: number.trim().to_owned(),
        };
        let size = format!("/sys/block/zram{}/disksize", swap.number);
        std::fs::write(size, format!("{mib}M")).expect("the size can be set");
        // Before any other swap, so that what is in it is ours, mostly.
        for command in [&["mkswap"][..], &["swapon", "-p", "32767"]] {
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
        let file = format!("/sys/block/zram{}/mem_limit", self.number);
        std::fs::write(file, format!("{mib}M")).expect("a limit can be set");
    }

    /// One of our own where there is no swap at all.
    #[must_use]
    pub fn if_none(mib: u64) -> Option<Swap> {
        (areas() == 0).then(|| Swap::new(mib))
    }

    /// What was ever written to it, in bytes (`stat`'s sectors written): pages that left, be they back or not.
    ///
    /// # Panics
    /// If the kernel does not say.
    #[must_use]
    pub fn written(&self) -> u64 {
        let file = format!("/sys/block/zram{}/stat", self.number);
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let sectors = text.split_whitespace().nth(6).map(str::parse::<u64>);
        sectors.expect("a disk counts writes").expect("a number") * 512
    }

    /// Memory that it takes, in bytes (`mm_stat`'s mem_used_total).
    ///
    /// # Panics
    /// If the kernel does not say.
    #[must_use]
    pub fn memory_used(&self) -> u64 {
        let file = format!("/sys/block/zram{}/mm_stat", self.number);
        let text = std::fs::read_to_string(file).unwrap_or_default();
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

impl Drop for Swap {
    fn drop(&mut self) {
        let off = Command::new("swapoff").arg(self.device()).output();
        let removed = std::fs::write(Path::new(CONTROL).join("hot_remove"), &self.number);
        if removed.is_err() {
            eprintln!("cannot remove {}: {off:?}", self.device());
        }
    }
}
