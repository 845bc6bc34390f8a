//! What pagetide needs to page out: memory pressure reports (PSI), swap, and the limit of locked
//! memory.
//!
//! Invariant: nothing is switched on; the remedy is a command that the user can type. Our own
//! memory is locked and unlocked at once, to see whether the kernel allows it.

use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::process::{Resource, getrlimit};

use crate::system::Proc;
use crate::system::swap::SwapArea;

use super::Finding;

/// Pressure reports, swap and locking as found on this host.
pub(super) struct Memory {
    /// Whether the kernel reports memory pressure (PSI).
    pressure: bool,
    swaps: Vec<SwapArea>,
    /// Soft RLIMIT_MEMLOCK; `None` if unlimited.
    lock_limit: Option<u64>,
    /// Result of locking our own memory.
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

    /// Returns the findings on what paging out needs: swap, lazyfree pages, locked memory.
    pub(super) fn judge(&self) -> Vec<Finding> {
        vec![self.judge_swap(), self.judge_lazyfree(), self.judge_lock()]
    }

    pub(super) fn judge_pressure(&self) -> Finding {
        match self.pressure {
            true => Finding::ok("pressure", "told (PSI)"),
            false => Finding::limited(
                "pressure",
                "not known: the kernel has no PSI, or it is off",
                "boot with psi=1 (a kernel with CONFIG_PSI)",
            ),
        }
    }

    fn judge_swap(&self) -> Finding {
        let topic = "swap";
        if self.swaps.is_empty() {
            return Finding::missing(
                topic,
                "none: pagetide finds cold memory, but cannot swap it out",
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

    /// Warns of swap on zram: there the kernel may lose lazyfree (`MADV_FREE`) pages. Seen on Linux
    /// 6.1, 6.12 and 6.18 (docs/known-gaps.md).
    fn judge_lazyfree(&self) -> Finding {
        let topic = "memory given back";
        if !self.swaps.iter().any(|area| area.zram().is_some()) {
            return Finding::ok(topic, "swap is not on zram: no known bug loses memory");
        }
        Finding::limited(
            topic,
            "swap is on zram: if a forked child frees a page (MADV_FREE) that its parent still \
             has, the kernel may lose the parent's data, with or without pagetide",
            "only needed for programs that do so, as root: pagetide swap off, then pagetide swap on --file PATH",
        )
    }

    fn judge_lock(&self) -> Finding {
        let topic = "locked memory";
        let limit = match self.lock_limit {
            None => "unlimited".to_owned(),
            Some(bytes) => format!("limit {} KiB", bytes >> 10),
        };
        match self.locked {
            Ok(()) => Finding::ok(topic, format!("pagetide can lock its own memory ({limit})")),
            Err(errno) => Finding::limited(
                topic,
                format!(
                    "pagetide cannot lock its own memory ({limit}): {errno}; it may be swapped \
                     out when memory is short, which delays scans"
                ),
                "run as root, or with CAP_IPC_LOCK, or: ulimit -l unlimited (LimitMEMLOCK= of a unit)",
            ),
        }
    }
}

/// Locks all our memory, as a manager or a watch does at its start, and unlocks it.
fn lock() -> Result<(), Errno> {
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)?;
    munlockall()
}

/// Returns a text that describes one swap area.
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
    fn zram_may_lose_pages_that_a_child_frees() {
        let zram = memory(vec![
            area("/dev/sda2", true, 1),
            area("/dev/zram0", true, 1),
        ]);
        assert_eq!(zram.judge_lazyfree().state, State::Limited);
        let file = memory(vec![area("/swap", false, 1)]);
        assert_eq!(file.judge_lazyfree().state, State::Ok);
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
    fn swap_is_reported_with_kind_and_usage() {
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
    fn locking_is_tried_and_the_limit_reported() {
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
