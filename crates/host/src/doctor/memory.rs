//! Memory and where it can go: pressure, swap, the limit of locked memory.
//!
//! Invariant: nothing is switched on; the remedy is what the user can type. Our own memory is locked
//! for the moment that it takes to see that it can be.

use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::process::{Resource, getrlimit};

use crate::system::Proc;
use crate::system::swap::SwapArea;

use super::Finding;

/// What was found.
pub(super) struct Memory {
    /// PSI is on.
    pressure: bool,
    swaps: Vec<SwapArea>,
    /// Soft RLIMIT_MEMLOCK; none is unlimited.
    lock_limit: Option<u64>,
    /// Locking ours.
    locked: Result<(), Errno>,
}

impl Memory {
    pub(super) fn gather(proc: Option<&Proc>) -> Memory {
        Memory {
            pressure: proc.is_some_and(|proc| proc.pressure().is_ok_and(|found| found.is_some())),
            swaps: proc.and_then(|proc| proc.swaps().ok()).unwrap_or_default(),
            lock_limit: getrlimit(Resource::Memlock).current,
            locked: lock(),
        }
    }

    /// What paging needs.
    pub(super) fn judge(&self) -> Vec<Finding> {
        vec![
            self.judge_swap(),
            self.judge_given_back(),
            self.judge_lock(),
        ]
    }

    pub(super) fn judge_pressure(&self) -> Finding {
        match self.pressure {
            true => Finding::ok("pressure", "told (PSI)"),
            false => Finding::limited(
                "pressure",
                "not told: the kernel has no PSI, or it is off",
                "boot with psi=1 (a kernel with CONFIG_PSI)",
            ),
        }
    }

    fn judge_swap(&self) -> Finding {
        let topic = "swap";
        if self.swaps.is_empty() {
            return Finding::missing(
                topic,
                "none: cold memory is found, and has nowhere to go",
                "as root: pagetide swap on (compressed memory), or on a disk: pagetide swap on --file PATH",
            );
        }
        let areas: Vec<String> = self.swaps.iter().map(tell).collect();
        let (size, used) = self.swaps.iter().fold((0, 0), |(size, used), area| {
            (size + area.size, used + area.used)
        });
        let detail = areas.join(", ");
        if used >= size / 10 * 9 {
            return Finding::limited(
                topic,
                detail + ": nearly full",
                "add another, as root: pagetide swap on",
            );
        }
        Finding::ok(topic, detail)
    }

    /// What the kernel loses where swap is on zram: seen on 6.1, 6.12 and 6.18 (docs/known-gaps.md).
    fn judge_given_back(&self) -> Finding {
        let topic = "memory given back";
        if !self.swaps.iter().any(|area| area.zram().is_some()) {
            return Finding::ok(topic, "swap is not on zram: nothing is known to be lost");
        }
        Finding::limited(
            topic,
            "swap is on zram: where a forked child gives back a page (MADV_FREE) that its parent still has, the \
             kernel may lose the parent's bytes, with pagetide and without",
            "only for programs that do so, as root: pagetide swap off, then swap on --file PATH",
        )
    }

    fn judge_lock(&self) -> Finding {
        let topic = "locked memory";
        let limit = match self.lock_limit {
            None => "unlimited".to_owned(),
            Some(bytes) => format!("limit {} KiB", bytes >> 10),
        };
        match self.locked {
            Ok(()) => Finding::ok(topic, format!("ours can be locked ({limit})")),
            Err(errno) => Finding::limited(
                topic,
                format!(
                    "ours cannot be locked ({limit}): {errno}; it may be swapped when memory is short, \
                     and looks come late"
                ),
                "run as root, or with CAP_IPC_LOCK, or: ulimit -l unlimited (LimitMEMLOCK= of a unit)",
            ),
        }
    }
}

/// Locks all that is ours as a watch does, and lets it go again.
fn lock() -> Result<(), Errno> {
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)?;
    munlockall()
}

/// One area in words.
fn tell(area: &SwapArea) -> String {
    let (path, kind) = (area.path.display(), area.kind());
    let mib = |bytes: u64| bytes >> 20;
    format!(
        "{path} ({kind}, {} of {} MiB used)",
        mib(area.used),
        mib(area.size)
    )
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn area(path: &str, device: bool, used: u64) -> SwapArea {
        SwapArea {
            path: path.into(),
            device,
            size: 100 << 20,
            used: used << 20,
            priority: 0,
        }
    }

    #[test]
    fn zram_loses_what_a_child_gives_back() {
        let zram = memory(vec![
            area("/dev/sda2", true, 1),
            area("/dev/zram0", true, 1),
        ]);
        assert_eq!(zram.judge_given_back().state, State::Limited);
        let file = memory(vec![area("/swap", false, 1)]);
        assert_eq!(file.judge_given_back().state, State::Ok);
    }

    fn memory(swaps: Vec<SwapArea>) -> Memory {
        Memory {
            pressure: true,
            swaps,
            lock_limit: Some(8 << 20),
            locked: Err(Errno::NOMEM),
        }
    }

    #[test]
    fn swap_is_told_by_kind_and_room() {
        let none = memory(Vec::new()).judge_swap();
        assert!(
            none.remedy
                .is_some_and(|remedy| remedy.contains("pagetide swap on"))
        );
        let zram = memory(vec![area("/dev/zram0", true, 10), area("/swap", false, 0)]).judge_swap();
        assert_eq!(zram.state, State::Ok);
        let want = "/dev/zram0 (zram, 10 of 100 MiB used), /swap (file, 0 of 100 MiB used)";
        assert_eq!(zram.detail, want);
        let full = memory(vec![area("/dev/sda2", true, 95)]).judge_swap();
        assert_eq!(full.state, State::Limited);
        assert!(full.detail.contains("partition"), "{full:?}");
    }

    #[test]
    fn locking_is_tried_and_the_limit_told() {
        let mut memory = memory(Vec::new());
        let finding = memory.judge_lock();
        assert_eq!(finding.state, State::Limited);
        assert!(finding.detail.contains("limit 8192 KiB"), "{finding:?}");
        memory.locked = Ok(());
        memory.lock_limit = None;
        assert!(memory.judge_lock().detail.contains("unlimited"));
    }

    #[test]
    fn pressure_is_a_boot_option() {
        let mut memory = memory(Vec::new());
        assert_eq!(memory.judge_pressure().state, State::Ok);
        memory.pressure = false;
        let remedy = memory.judge_pressure().remedy;
        assert!(remedy.is_some_and(|remedy| remedy.contains("psi=1")));
    }
}
