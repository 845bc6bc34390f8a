//! The files of a tenant's directory: names and modes.
//!
//! Invariant: names are cgroup v2's; the root's directory lacks the files that the kernel's root
//! lacks.

use std::ffi::OsStr;

/// In which directories a file exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Where {
    Everywhere,
    BelowRoot,
    Node,
}

impl Where {
    /// Whether the file exists in a tenant's directory; `is_root`: in the root's.
    fn is_of_tenant(self, is_root: bool) -> bool {
        match self {
            Where::Everywhere => true,
            Where::BelowRoot => !is_root,
            Where::Node => false,
        }
    }
}

/// Makes the kinds of files from one line each: the kind, the name, the permission bits, and in
/// which directories the file exists.
macro_rules! files {
    ($($file:ident $(= $number:literal)?, $name:literal, $mode:literal, $place:ident;)*) => {
        /// A kind of file in the tree.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub(super) enum File {
            $($file $(= $number)?,)*
        }

        const ALL: &[(File, &str, u16, Where)] =
            &[$((File::$file, $name, $mode, Where::$place),)*];
    };
}

files! {
    Procs = 1, "cgroup.procs", 0o644, Everywhere;
    Controllers, "cgroup.controllers", 0o444, Everywhere;
    SubtreeControl, "cgroup.subtree_control", 0o644, Everywhere;
    CgroupEvents, "cgroup.events", 0o444, BelowRoot;
    Type, "cgroup.type", 0o444, BelowRoot;
    Current, "memory.current", 0o444, Everywhere;
    Peak, "memory.peak", 0o444, Everywhere;
    Min, "memory.min", 0o644, BelowRoot;
    Low, "memory.low", 0o644, BelowRoot;
    High, "memory.high", 0o644, BelowRoot;
    Max, "memory.max", 0o644, Everywhere;
    SoftLimit, "memory.soft_limit", 0o644, BelowRoot;
    SwapCurrent, "memory.swap.current", 0o444, Everywhere;
    SwapMax, "memory.swap.max", 0o644, BelowRoot;
    Reclaim, "memory.reclaim", 0o200, Everywhere;
    Stat, "memory.stat", 0o444, Everywhere;
    StatLocal, "memory.stat.local", 0o444, Everywhere;
    NumaStat, "memory.numa_stat", 0o444, Everywhere;
    Events, "memory.events", 0o444, BelowRoot;
    EventsLocal, "memory.events.local", 0o444, BelowRoot;
    Pressure, "memory.pressure", 0o444, Everywhere;
    PageAge, "memory.workingset.page_age", 0o444, BelowRoot;
    PageAgeEstimated, "memory.workingset.page_age_estimated", 0o444, BelowRoot;
    RefreshInterval, "memory.workingset.refresh_interval", 0o644, BelowRoot;
    ReportThreshold, "memory.workingset.report_threshold", 0o644, BelowRoot;
    NodePageAge, "page_age", 0o444, Node;
    NodeIntervals, "page_age_intervals", 0o644, Node;
    NodeRefreshInterval, "refresh_interval", 0o644, Node;
    NodeReportThreshold, "report_threshold", 0o644, Node;
}

impl File {
    /// Returns the files of a tenant's directory; `is_root`: those of the root's.
    pub(super) fn of_tenant(is_root: bool) -> impl Iterator<Item = File> {
        let found = ALL
            .iter()
            .filter(move |(.., place)| place.is_of_tenant(is_root));
        found.map(|(file, ..)| *file)
    }

    /// Returns the file of this name in a tenant's directory; `None` if there is none.
    pub(super) fn named(name: &OsStr, is_root: bool) -> Option<File> {
        let mut found = ALL
            .iter()
            .filter(|(_, known, _, place)| name == *known && place.is_of_tenant(is_root));
        found.next().map(|(file, ..)| *file)
    }

    /// The files of a node's `workingset_report` directory.
    pub(super) fn of_node() -> impl Iterator<Item = File> {
        let found = ALL.iter().filter(|(.., place)| *place == Where::Node);
        found.map(|(file, ..)| *file)
    }

    /// Returns the file with this number in inode numbers; `None` if there is none.
    pub(super) fn of_number(number: u8) -> Option<File> {
        let found = ALL.iter().find(|(file, ..)| *file as u8 == number);
        found.map(|(file, ..)| *file)
    }

    pub(super) fn name(self) -> &'static str {
        ALL[self as usize - 1].1
    }

    /// Whether the file is a setting of reports: writing it changes nothing else.
    pub(super) fn is_of_reports(self) -> bool {
        matches!(
            self,
            File::RefreshInterval
                | File::ReportThreshold
                | File::NodeIntervals
                | File::NodeRefreshInterval
                | File::NodeReportThreshold
        )
    }

    /// Permission bits.
    pub(super) fn mode(self) -> u16 {
        ALL[self as usize - 1].2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_number() {
        for (place, (file, ..)) in ALL.iter().enumerate() {
            assert_eq!(*file as usize, place + 1, "{file:?}");
            assert_eq!(File::of_number(*file as u8), Some(*file));
        }
        assert!(File::of_tenant(true).all(|file| file != File::PageAge));
        assert!(File::of_tenant(false).any(|file| file == File::Min));
        assert_eq!(File::of_node().count(), 4);
        assert_eq!(File::named("memory.stat".as_ref(), true), Some(File::Stat));
        assert_eq!(File::named("memory.min".as_ref(), true), None);
        assert_eq!(File::named("memory.min".as_ref(), false), Some(File::Min));
        assert_eq!(File::named("page_age".as_ref(), false), None);
    }
}
