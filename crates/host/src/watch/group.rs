//! The target's own control group, and the memory that the kernel charges to that group.
//!
//! Invariant: a group is the target's own only if it contains no other process. So the group's
//! figures are the target's, including page cache and kernel memory.

use std::collections::BTreeSet;

use crate::report::{GroupStore, PressureOf, Report};
use crate::system::cgroup::Usage;
use crate::system::{Group, Groups, Identity, Proc};

/// Fills the kernel's figures of the group into the report. Returns what zswap holds for the group;
/// `None` if the kernel does not report it.
pub(super) fn fill(report: &mut Report, groups: &Groups, group: &Group) -> Option<GroupStore> {
    let usage = groups.usage(group).ok().flatten()?;
    report.charged_bytes = usage.current;
    report.charged_peak_bytes = usage.peak;
    if let Some(peak) = usage.peak {
        report.resident_peak_bytes = peak.max(report.resident_bytes);
    }
    report.kernel_bytes = usage.kernel;
    report.used_cache_bytes = usage.used_cache;
    report.unmapped_cache_bytes = usage.cache.map(|cache| cache.unmapped());
    usage.zswap.map(|zswap| GroupStore {
        stored_bytes: zswap.stored,
        compressed_bytes: zswap.memory,
    })
}

/// Returns the group of a process; `None` if the group contains processes that are not in
/// `members`.
pub(super) fn own(groups: &Groups, proc: &Proc, pid: u32, members: &[Identity]) -> Option<Group> {
    let group = groups.of_process(proc, pid).ok().flatten()?;
    let inside = groups.processes(&group).ok().flatten()?;
    let members: BTreeSet<u32> = members.iter().map(|identity| identity.pid).collect();
    let is_own = group != groups.root() && inside.iter().all(|pid| members.contains(pid));
    is_own.then_some(group)
}

/// Returns the usage of the group at this path; `None` unless the group contains exactly these
/// processes.
pub(super) fn usage_of(groups: &Groups, path: &str, pids: &[u32]) -> Option<Usage> {
    let group = groups.resolve(path).ok()?;
    let inside = groups.processes(&group).ok().flatten()?;
    let inside: BTreeSet<u32> = inside.into_iter().collect();
    let is_own = group != groups.root() && inside == pids.iter().copied().collect();
    is_own.then(|| groups.usage(&group).ok().flatten())?
}

/// Returns a memory pressure in hundredths of a percent, and whose pressure it is: that of the
/// target's group, or the host's if the target has no group of its own or the kernel measures no
/// pressure by group.
pub(super) fn pressure(proc: &Proc, own: Option<(&Groups, &Group)>) -> Option<(u32, PressureOf)> {
    let of_group = own.and_then(|(groups, group)| groups.pressure(group).ok().flatten());
    let of_group = of_group.map(|pressure| (pressure, PressureOf::Group));
    let of_host = || Some((proc.pressure().ok().flatten()?, PressureOf::Host));
    let (pressure, of) = of_group.or_else(of_host)?;
    Some((pressure.some.avg10, of))
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::*;
    use crate::system::testing::Directory;

    /// Regression: the host's pressure was reported as if it were that of one process.
    #[test]
    fn pressure_names_the_group_or_the_host() {
        let text = |share: &str| format!("some avg10={share} avg60=0.00 avg300=0.00 total=77\n");
        let tree = Directory::new("pressure-of");
        let group = tree.0.join("a.service");
        create_dir_all(&group).expect("a directory");
        create_dir_all(tree.0.join("proc/pressure")).expect("a directory");
        write(tree.0.join("cgroup.controllers"), "memory\n").expect("a file");
        let mounts = format!("1 2 0:30 / {} rw - cgroup2 cgroup rw\n", tree.0.display());
        let groups = Groups::at(mounts.as_bytes()).expect("a hierarchy");
        let own = groups.resolve("a.service").expect("the group");
        let proc = Proc::at(&tree.0.join("proc")).expect("a directory");
        let reported = || pressure(&proc, Some((&groups, &own)));

        assert_eq!(reported(), None, "neither is known");
        write(tree.0.join("proc/pressure/memory"), text("3.00")).expect("a file");
        assert_eq!(
            reported(),
            Some((300, PressureOf::Host)),
            "the group has none"
        );
        write(group.join("memory.pressure"), text("0.25")).expect("a file");
        assert_eq!(reported(), Some((25, PressureOf::Group)));
        assert_eq!(pressure(&proc, None), Some((300, PressureOf::Host)));
    }
}
