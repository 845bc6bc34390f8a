//! The content of a tenant's files, and the effect of writing to them.
//!
//! Invariant: formats, meanings and error numbers are those of the kernel's file of the same name
//! (cgroup v2). A write that is refused changes nothing.

use std::fmt::Write;

use engine::memcg::MemcgId;
use engine::units::{Limit, PAGE_LEN, PAGE_SIZE};
use host::manage::Ask;
use host::manage::tenants::{Limits, NodeUsage, Tenants};
use rustix::io::Errno;

use super::file::File;
use super::reports::{Part, Reports, Setting};
use super::values;

/// A file of an existing tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct TenantFile {
    pub(super) memcg: MemcgId,
    pub(super) serial: u64,
    pub(super) file: File,
    /// Index of the NUMA node if the file is in a node's directory; `None` for other files.
    pub(super) node: Option<usize>,
}

/// Returns the current content of a file.
pub(super) fn read(
    tenants: &mut Tenants,
    reports: &mut Reports,
    place: TenantFile,
) -> Result<Vec<u8>, Errno> {
    let (memcg, serial) = (place.memcg, place.serial);
    let line = |number: u64| format!("{number}\n");
    let nodes = tenants.nodes();
    let text = match place.file {
        File::Procs => return tenants.kernel_file(memcg, "cgroup.procs"),
        File::Controllers => "memory\n".to_owned(),
        // Memory is delegated to every tenant; there is no other controller.
        File::SubtreeControl => "memory\n".to_owned(),
        File::CgroupEvents => return cgroup_events(tenants, memcg),
        File::Type => "domain\n".to_owned(),
        File::Current => line(tenants.usage(memcg)?.current),
        File::Peak => line(tenants.usage(memcg)?.peak.ok_or(Errno::OPNOTSUPP)?),
        File::SwapCurrent => line(tenants.usage(memcg)?.swap),
        File::Min | File::Low | File::High | File::Max | File::SwapMax => {
            let mut limits = tenants.limits(memcg)?;
            values::print(*limit_of(&mut limits, place.file).ok_or(Errno::INVAL)?)
        }
        File::SoftLimit => values::print(tenants.soft_limit(memcg)?),
        File::Reclaim => return Err(Errno::INVAL),
        File::Stat => stat(tenants, memcg, false)?,
        File::StatLocal => stat(tenants, memcg, true)?,
        File::NumaStat => numa_stat(&tenants.numa_stat(memcg)?),
        File::Events => pairs(&tenants.events(memcg, false)?),
        File::EventsLocal => pairs(&tenants.events(memcg, true)?),
        File::Pressure => return tenants.pressure(memcg),
        File::PageAge | File::NodePageAge => {
            reports.page_age(tenants, (memcg, serial), (place.node, Part::All))?
        }
        File::PageAgeEstimated => {
            reports.page_age(tenants, (memcg, serial), (None, Part::Estimated))?
        }
        File::RefreshInterval | File::NodeRefreshInterval => {
            reports.print(serial, Setting::Refresh, nodes, place.node)
        }
        File::ReportThreshold | File::NodeReportThreshold => {
            reports.print(serial, Setting::Threshold, nodes, place.node)
        }
        File::NodeIntervals => reports.intervals(place.node.unwrap_or(0)),
    };
    Ok(text.into_bytes())
}

/// The result of a write to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Written {
    /// The write is done.
    Done,
    /// The write ends when the reclaim with this number ends: with EAGAIN if by then fewer than
    /// `pages` pages were reclaimed.
    Reclaiming { number: u64, pages: u64 },
}

/// Writes a text to a file.
pub(super) fn write(
    tenants: &mut Tenants,
    reports: &mut Reports,
    place: TenantFile,
    text: &str,
) -> Result<Written, Errno> {
    if place.file == File::Reclaim {
        tenants.may_change(place.memcg)?;
        let (bytes, from) = values::reclaim(text)?;
        let number = tenants.reclaim(place.memcg, Ask::Bytes(bytes), from)?;
        let pages = bytes / PAGE_SIZE;
        return Ok(Written::Reclaiming { number, pages });
    }
    change(tenants, reports, place, text)?;
    if place.file.is_of_reports() {
        let noted = reports.noted(place.serial, tenants.nodes());
        // If the control group cannot store extended attributes, the setting is lost when this
        // manager ends.
        let _ = tenants.note_reports(place.memcg, &noted);
    }
    Ok(Written::Done)
}

/// Restores the report settings that an earlier manager has noted for a new tenant.
pub(super) fn restore_noted(tenants: &mut Tenants, reports: &mut Reports, serial: u64) {
    let Some(memcg) = tenants.by_serial(serial) else {
        return;
    };
    if let Some(noted) = tenants.noted_reports(memcg) {
        reports.restore_noted(serial, tenants.nodes(), &noted);
        tenants.notify_of_pressure(memcg, reports.can_notify(serial));
        if reports.is_on(serial) {
            // An error means that the tenant is gone; the next scan finds that.
            let _ = tenants.watch_cache(memcg);
        }
    }
}

/// Writes to one of the files where a write takes effect at once.
fn change(
    tenants: &mut Tenants,
    reports: &mut Reports,
    place: TenantFile,
    text: &str,
) -> Result<(), Errno> {
    let (memcg, serial) = (place.memcg, place.serial);
    // Report settings change nothing on the host, so they may be written below host/, too.
    if !place.file.is_of_reports() {
        tenants.may_change(memcg)?;
    }
    match place.file {
        File::Procs => tenants.take(memcg, text.trim()),
        File::SubtreeControl => subtree_control(text),
        File::Min | File::Low | File::High | File::Max | File::SwapMax => {
            let mut limits = tenants.limits(memcg)?;
            let limit = limit_of(&mut limits, place.file).ok_or(Errno::INVAL)?;
            *limit = values::limit(text)?;
            tenants.set_limits(memcg, limits)
        }
        File::SoftLimit => tenants.set_soft_limit(memcg, values::limit(text)?),
        File::RefreshInterval | File::NodeRefreshInterval => {
            let nodes = tenants.nodes();
            reports.set(serial, Setting::Refresh, nodes, (place.node, text))?;
            tenants.notify_of_pressure(memcg, reports.can_notify(serial));
            match reports.is_on(serial) {
                true => tenants.watch_cache(memcg),
                false => {
                    tenants.forget_cache(memcg);
                    Ok(())
                }
            }
        }
        File::ReportThreshold | File::NodeReportThreshold => {
            let nodes = tenants.nodes();
            reports.set(serial, Setting::Threshold, nodes, (place.node, text))?;
            tenants.notify_of_pressure(memcg, reports.can_notify(serial));
            Ok(())
        }
        File::NodeIntervals => reports.set_intervals(place.node.unwrap_or(0), text),
        _ => Err(Errno::INVAL),
    }
}

/// Returns the limit that a file sets; `None` for other files.
fn limit_of(limits: &mut Limits, file: File) -> Option<&mut Limit> {
    match file {
        File::Min => Some(&mut limits.min),
        File::Low => Some(&mut limits.low),
        File::High => Some(&mut limits.high),
        File::Max => Some(&mut limits.max),
        File::SwapMax => Some(&mut limits.swap_max),
        _ => None,
    }
}

/// Controllers of cgroup version 2 other than memory: no tenant has them.
const OTHER_CONTROLLERS: [&str; 8] = [
    "cpu", "cpuset", "io", "pids", "rdma", "misc", "hugetlb", "dmem",
];

/// Accepts `+memory` and `-other` as no-ops: memory is always delegated, other controllers never
/// are. Error numbers are the kernel's: EINVAL for no such controller, ENOENT for one that is not
/// here.
fn subtree_control(text: &str) -> Result<(), Errno> {
    for word in text.split_ascii_whitespace() {
        let (sign, name) = word.split_at_checked(1).ok_or(Errno::INVAL)?;
        match (sign, name) {
            ("+", "memory") => {}
            ("-", "memory") => return Err(Errno::OPNOTSUPP),
            ("-", name) if OTHER_CONTROLLERS.contains(&name) => {}
            ("+", name) if OTHER_CONTROLLERS.contains(&name) => return Err(Errno::NOENT),
            _ => return Err(Errno::INVAL),
        }
    }
    Ok(())
}

/// Returns the kernel's cgroup.events, made up where the kernel has none (version 1, root of
/// version 2).
fn cgroup_events(tenants: &Tenants, memcg: MemcgId) -> Result<Vec<u8>, Errno> {
    match tenants.kernel_file(memcg, File::CgroupEvents.name()) {
        Err(Errno::NOENT) => {
            let populated = u8::from(tenants.is_populated(memcg)?);
            Ok(format!("populated {populated}\nfrozen 0\n").into_bytes())
        }
        reported => reported,
    }
}

/// Returns the text of memory.stat: sizes in bytes, then numbers of events.
fn stat(tenants: &mut Tenants, memcg: MemcgId, is_local: bool) -> Result<String, Errno> {
    let stat = tenants.stat(memcg, is_local)?;
    let mut text = String::with_capacity(PAGE_LEN);
    print(&mut text, stat.lines());
    Ok(text)
}

/// Returns the text of memory.numa_stat: bytes of each type of memory on each node.
fn numa_stat(nodes: &[NodeUsage]) -> String {
    let mut text = String::new();
    let anon = nodes.iter().map(|node| node.anon).collect::<Vec<u64>>();
    let file = nodes.iter().map(|node| node.file).collect::<Vec<u64>>();
    for (name, bytes) in [("anon", anon), ("file", file)] {
        text.push_str(name);
        for (node, bytes) in nodes.iter().zip(bytes) {
            let _ = write!(text, " N{}={bytes}", node.number);
        }
        text.push('\n');
    }
    text
}

/// Upper bound of a file's size in bytes, for files whose text grows with the number of nodes and
/// is below a page with one node; 0 for others.
pub(super) fn at_most(file: File, nodes: usize) -> usize {
    // A node's number has at most ten digits, a value at most twenty.
    let value = " N=".len() + 10 + 20;
    match file {
        File::NumaStat => 2 * ("anon\n".len() + nodes * value),
        File::RefreshInterval | File::ReportThreshold => nodes * value + 1,
        _ => 0,
    }
}

/// Formats one line for each pair of name and count.
fn pairs(pairs: &[(&str, u64)]) -> String {
    let mut text = String::new();
    print(&mut text, pairs.iter().copied());
    text
}

/// Appends one line for each pair of name and count.
fn print<'a>(text: &mut String, pairs: impl IntoIterator<Item = (&'a str, u64)>) {
    for (name, count) in pairs {
        let _ = writeln!(text, "{name} {count}");
    }
}

#[cfg(test)]
mod tests {
    use engine::workingset_report::files::print_node_millis;
    use engine::{Machine, MachineConfig, Millis};

    use super::*;

    /// The size that stat(2) reports is never below the number of bytes to read.
    #[test]
    fn no_text_is_longer_than_its_reported_size() {
        let of = |number: u32| NodeUsage {
            number,
            anon: u64::MAX,
            file: u64::MAX,
        };
        let nodes: Vec<NodeUsage> = (u32::MAX - 99..u32::MAX).map(of).collect();
        let text = numa_stat(&nodes);
        assert!(
            text.len() > 4096 && text.len() <= at_most(File::NumaStat, 99),
            "{}",
            text.len()
        );
        let values = nodes.iter().map(|node| (node.number, Millis(u64::MAX)));
        assert!(print_node_millis(values).len() <= at_most(File::RefreshInterval, 99));
        let one = numa_stat(&[NodeUsage {
            number: 3,
            anon: 1,
            file: 2,
        }]);
        assert_eq!(one, "anon N3=1\nfile N3=2\n");
        // A line is a name, a number of at most twenty digits, a space and a line end.
        let mut machine = Machine::new(MachineConfig::default(), Millis(0));
        let stat = machine.memory_stat(MemcgId::ROOT);
        let bytes: usize = stat.iter().map(|(name, _)| name.len() + 22).sum();
        assert!(
            bytes + 2 * ("pgsteal".len() + 22) <= 4096,
            "{bytes} bytes of memory.stat"
        );
    }
}
