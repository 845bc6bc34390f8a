//! The usage of a target, by the kernel's figures, from which its headroom is computed
//! ([`engine::vmscan::Headroom`]).
//!
//! Invariant: usage is never the sum of pages that we found. Usage is what the kernel charges to
//! our cgroup. Without a cgroup, or if processes of the tenant are outside of it, usage is the
//! memory that the kernel reports as resident.

use engine::{Bytes, Pages};

use super::outside::MembersOutside;
use crate::hard_limit::HardLimit;
use crate::watch::Watch;

/// Swappiness with which the kernel takes page cache first and hardly any anonymous memory, which
/// the engine reclaims. Not 0: reclaim on version 1 lowers the limit for a moment, and the kernel
/// would kill a program that meets the limit and has no cache to drop.
pub(super) const CACHE_FIRST_SWAPPINESS: u8 = 1;

/// Whether [`usage`] is the cgroup's charge. The charge includes unmapped page cache; resident
/// memory does not.
pub(super) fn is_charged(watch: &Watch, hard_limit: &HardLimit, outside: &MembersOutside) -> bool {
    let charged = || Bytes(hard_limit.charged().unwrap_or(0)).pages();
    outside.is_empty() || charged() >= resident(watch)
}

/// Returns the tenant's current usage. It is the cgroup's charge; if processes of the tenant are
/// outside of the cgroup, it is at least what is resident. The charge alone would not limit a
/// program that moved itself to another cgroup.
pub(super) fn usage(
    watch: &Watch,
    hard_limit: Option<&HardLimit>,
    outside: &MembersOutside,
) -> Pages {
    let charged = hard_limit.and_then(|hard_limit| hard_limit.charged().ok());
    let charged = charged.map(|bytes| Bytes(bytes).pages());
    usage_of(charged, outside.is_empty(), || resident(watch))
}

/// Returns the usage of a tenant. `charged` is the charge of its cgroup; `has_all` says whether all
/// of its processes are in the cgroup. `resident` measures the resident memory, for which it may
/// read thousands of processes. This function calls `resident` only if the result depends on it.
fn usage_of(charged: Option<Pages>, has_all: bool, resident: impl FnOnce() -> Pages) -> Pages {
    match charged {
        Some(charged) if has_all => charged,
        // The larger of the two, not their sum: a process that moved out leaves its charge in the
        // cgroup.
        Some(charged) => charged.max(resident()),
        None => resident(),
    }
}

/// Returns the memory of the tenant's processes that is resident, each frame counted once.
fn resident(watch: &Watch) -> Pages {
    // The last scan counted each frame once; since then each process may have grown or shrunk.
    let mut sum = i64::try_from(watch.ages().age_table().pages()).unwrap_or(i64::MAX);
    for identity in watch.members() {
        let then = watch
            .ages()
            .space(*identity)
            .map_or(0, |space| space.found.present);
        let now = watch.proc().stat(identity.pid).ok().flatten();
        let now = now.map_or(0, |stat| stat.resident);
        sum += i64::try_from(now).unwrap_or(0) - i64::try_from(then).unwrap_or(0);
    }
    Pages(u64::try_from(sum).unwrap_or(0))
}

/// Returns the size of this machine's memory, in pages.
pub(super) fn machine_pages(watch: &Watch) -> Pages {
    Bytes(watch.proc().memory().map_or(0, |memory| memory.total)).pages()
}

#[cfg(test)]
mod tests {
    use engine::vmscan::Headroom;
    use engine::{Limit, Pages};

    use super::usage_of;

    /// Regression: a program that moved itself to another control group had no limit at all, and no
    /// message said so: pagetide took the charge of the hard-limit cgroup for the program's usage.
    #[test]
    fn processes_outside_of_the_cgroup_count() {
        let resident = || Pages(100);
        assert_eq!(usage_of(Some(Pages(5)), false, resident), Pages(100));
        // What they left behind is still charged.
        assert_eq!(usage_of(Some(Pages(170)), false, resident), Pages(170));
        assert_eq!(usage_of(None, true, resident), Pages(100));
        let unread = || -> Pages { unreachable!("the charge is the usage") };
        assert_eq!(usage_of(Some(Pages(5)), true, unread), Pages(5));
    }

    /// Curves assume that at least `HELD_PER_MILLE` of a limit stays in memory.
    #[test]
    fn reclaim_ends_where_curves_say_that_it_does() {
        let max = Limit::of(Pages(100_000));
        let at = Headroom::wanted((max, Limit::Max), Pages(100_000)).expect("a limit");
        let held = 100_000 - at.pages.0;
        assert_eq!(held, 100 * crate::report::HELD_PER_MILLE);
    }
}
