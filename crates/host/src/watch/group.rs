//! The control group that is the target's own, and what the kernel charges it with.
//!
//! Invariant: a group is the target's own only if no process beside the target's is in it; then its
//! figures are the target's, page cache and kernel memory included.

use std::collections::BTreeSet;

use crate::report::Report;
use crate::system::{Group, Groups, Identity, Proc};

/// Fills in what the group says.
pub(super) fn fill(report: &mut Report, groups: &Groups, group: &Group) {
    let Ok(Some(usage)) = groups.usage(group) else {
        return;
    };
    report.charged_bytes = usage.current;
    report.charged_peak_bytes = usage.peak;
    if let Some(peak) = usage.peak {
        report.resident_peak_bytes = peak.max(report.resident_bytes);
    }
    report.kernel_bytes = usage.kernel;
    report.unmapped_cache_bytes = usage.cache.map(|cache| cache.unmapped());
}

/// The group of a process, if all that are in it are members.
pub(super) fn own(groups: &Groups, proc: &Proc, pid: u32, members: &[Identity]) -> Option<Group> {
    let group = groups.of_process(proc, pid).ok().flatten()?;
    let inside = groups.processes(&group).ok().flatten()?;
    let members: BTreeSet<u32> = members.iter().map(|identity| identity.pid).collect();
    let is_own = group != groups.root() && inside.iter().all(|pid| members.contains(pid));
    is_own.then_some(group)
}

/// Pressure of the group, or of the machine.
pub(super) fn pressure(proc: &Proc, own: Option<(&Groups, &Group)>) -> Option<u32> {
    let of_group = own.and_then(|(groups, group)| groups.pressure(group).ok().flatten());
    let pressure = of_group.or_else(|| proc.pressure().ok().flatten())?;
    Some(pressure.some.avg10)
}
