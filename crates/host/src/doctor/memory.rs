//! What pagetide needs to page out: memory pressure reports (PSI), swap, zswap in front of it, and
//! the limit of locked memory.
//!
//! Invariant: nothing is switched on; the remedy is a command that the user can type. If `/proc`
//! shows another program's list of swap, nothing is claimed of its kind. Our own memory is locked
//! and unlocked at once, to see whether the kernel allows it.

use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::process::{Resource, getrlimit};

use crate::swap::{Swap, Zswap};
use crate::system::Proc;
use crate::system::swap::SwapArea;

use super::Finding;

/// Pressure reports, swap and locking as found on this host.
pub(super) struct Memory {
    /// Whether the kernel reports memory pressure (PSI).
    pressure: bool,
    swaps: Vec<SwapArea>,
    /// Why `swaps` is not the kernel's list, with the kernel's own total of swap in bytes; `None`
    /// if it is.
    invented: Option<(String, u64)>,
    /// zswap, if the kernel has it and it may hold pages.
    zswap: Option<Zswap>,
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
            invented: proc.and_then(|proc| Some((proc.invented()?, proc.swap_total().ok()?))),
            zswap: Swap::system().zswap().filter(Zswap::matters),
            lock_limit: getrlimit(Resource::Memlock).current,
            locked: lock(),
        }
    }

    /// Returns the findings on what paging out needs: swap, lazyfree pages, locked memory.
    pub(super) fn judge(&self) -> Vec<Finding> {
        let mut all = vec![self.judge_swap(), self.judge_lazyfree(), self.judge_lock()];
        all.extend(self.judge_zswap());
        all
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
        let none = |detail: String| {
            let remedy = "as root: pagetide swap on (compressed memory), or on a disk: pagetide swap on --file PATH";
            Finding::missing(topic, detail, remedy)
        };
        let without = "none: pagetide finds cold memory, but cannot swap it out";
        match &self.invented {
            Some((why, 0)) => return none(format!("{without} ({why})")),
            Some((why, total)) => {
                let mib = total >> 20;
                let detail =
                    format!("the kernel has {mib} MiB, of a kind that is not known: {why}");
                return Finding::limited(topic, detail, OUTSIDE);
            }
            None if self.swaps.is_empty() => return none(without.to_owned()),
            None => {}
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
        if let Some((why, 1..)) = &self.invented {
            let detail = format!(
                "whether swap is on zram is not known: {why}. On zram, the kernel may lose memory \
                 that a forked child frees (MADV_FREE)"
            );
            return Finding::limited(topic, detail, OUTSIDE);
        }
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

    /// Reports zswap, which takes swapped-out pages before the areas get them. In front of a zram
    /// it only compresses pages twice, and hides from the zram's figures what it holds.
    fn judge_zswap(&self) -> Option<Finding> {
        let topic = "zswap";
        let zswap = self.zswap.as_ref()?;
        let mib = |bytes: u64| bytes >> 20;
        let holds = match (zswap.original_bytes, zswap.memory_bytes) {
            (Some(held), Some(memory)) => {
                format!("holds {} MiB in {} MiB of memory", mib(held), mib(memory))
            }
            _ => "holds an unknown amount (this kernel does not report it)".to_owned(),
        };
        if self.swaps.is_empty() && !zswap.enabled {
            return None;
        }
        let detail = match zswap.enabled {
            true => format!("on: it takes swapped-out pages before swap gets them; {holds}"),
            false => format!("off, and still {holds}"),
        };
        let is_zram = |area: &SwapArea| area.zram().is_some();
        if !self.swaps.iter().any(is_zram) {
            return Some(Finding::ok(topic, detail));
        }
        let detail = format!("{detail}, which the figures of zram do not show");
        let remedy = match zswap.enabled {
            true => {
                "zram compresses already, so as root: echo N > /sys/module/zswap/parameters/enabled"
            }
            false => "it empties as these pages are accessed, or by pagetide swap off",
        };
        Some(Finding::limited(topic, detail, remedy))
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

/// Remedy if `/proc` shows another program's list of swap.
const OUTSIDE: &str =
    "see what there is on the host, outside of the container: pagetide swap status";

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
            invented: None,
            zswap: None,
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

    /// Regression: in a container, `/proc/swaps` of lxcfs listed no zram, and the doctor said that
    /// swap was not on zram.
    #[test]
    fn nothing_is_claimed_of_a_list_that_is_not_the_kernels() {
        let invented = |swaps, total| Memory {
            invented: Some(("why".to_owned(), total)),
            ..memory(swaps)
        };
        for swaps in [Vec::new(), vec![area("none", false, 0)]] {
            let memory = invented(swaps, 512 << 20);
            let [swap, given_back] = [memory.judge_swap(), memory.judge_lazyfree()];
            assert_eq!(swap.state, State::Limited);
            assert!(
                swap.detail
                    .contains("512 MiB, of a kind that is not known: why")
            );
            assert_eq!(given_back.state, State::Limited);
            assert!(!given_back.detail.contains("not on zram"), "{given_back:?}");
        }
        // The kernel has no swap, so there is none on zram, whatever the list says.
        let memory = invented(vec![area("/dev/zram0", true, 0)], 0);
        assert_eq!(memory.judge_swap().state, State::Missing);
    }

    /// Regression: zswap took the pages for a zram, and nothing said so.
    #[test]
    fn zswap_is_reported_with_what_it_holds() {
        let found = |path, device, enabled, held: Option<u64>| {
            let zswap = Zswap {
                enabled,
                algorithm: None,
                original_bytes: held.map(|mib| mib << 20),
                memory_bytes: held.map(|mib| mib << 18),
            };
            let memory = Memory {
                zswap: Some(zswap),
                ..memory(vec![area(path, device, 1)])
            };
            memory.judge_zswap().expect("a finding")
        };
        let zram = found("/dev/zram0", true, true, Some(64));
        assert_eq!(zram.state, State::Limited);
        assert!(
            zram.detail.contains("holds 64 MiB in 16 MiB of memory"),
            "{zram:?}"
        );
        assert!(zram.remedy.is_some_and(|remedy| remedy.contains("echo N")));
        let off = found("/dev/zram0", true, false, Some(64));
        assert!(
            off.detail.starts_with("off, and still holds 64 MiB"),
            "{off:?}"
        );
        assert_eq!(found("/swap", false, true, Some(64)).state, State::Ok);
        let unknown = found("/swap", false, true, None);
        assert!(unknown.detail.contains("unknown amount"), "{unknown:?}");
        assert!(memory(Vec::new()).judge_zswap().is_none());
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
