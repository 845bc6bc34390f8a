//! Event counters of reclaim, under the kernel's names.
//! spec: reclaim-control.md 8, workingset.md 8.

use crate::folio::FolioType;

/// The kind of a reclaim, which decides by which counters it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanReason {
    /// Reclaim because of a watermark or a limit, for which no task waits (kswapd).
    Background,
    /// Reclaim in the task that needs the memory; the task waits for it.
    Direct,
    /// Reclaim requested by size or by age, without memory pressure (memory.reclaim).
    Proactive,
}

impl ScanReason {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::Background, Self::Direct, Self::Proactive];
}

macro_rules! events {
    ($($variant:ident = $name:literal,)+) => {
        /// An event of memory.stat, in the order of that file. Events that memory.stat does not
        /// show are last (`VmEvent::is_shown`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum VmEvent {
            $(#[doc = concat!("`", $name, "`, in pages unless its name says otherwise.")] $variant,)+
        }

        impl VmEvent {
            /// Every event, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Returns the event's key in memory.stat.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

events! {
    WorkingsetRefaultAnon = "workingset_refault_anon",
    WorkingsetRefaultFile = "workingset_refault_file",
    WorkingsetActivateAnon = "workingset_activate_anon",
    WorkingsetActivateFile = "workingset_activate_file",
    WorkingsetRestoreAnon = "workingset_restore_anon",
    WorkingsetRestoreFile = "workingset_restore_file",
    WorkingsetNodereclaim = "workingset_nodereclaim",
    Pswpin = "pswpin",
    Pswpout = "pswpout",
    PgscanKswapd = "pgscan_kswapd",
    PgscanDirect = "pgscan_direct",
    PgscanProactive = "pgscan_proactive",
    PgstealKswapd = "pgsteal_kswapd",
    PgstealDirect = "pgsteal_direct",
    PgstealProactive = "pgsteal_proactive",
    PgscanAnon = "pgscan_anon",
    PgscanFile = "pgscan_file",
    PgstealAnon = "pgsteal_anon",
    PgstealFile = "pgsteal_file",
    Pgfault = "pgfault",
    Pgmajfault = "pgmajfault",
    Pgrefill = "pgrefill",
    Pgactivate = "pgactivate",
    Pgdeactivate = "pgdeactivate",
    PgstealKernel = "pgsteal_kernel",
}

const NR_EVENTS: usize = VmEvent::ALL.len();

impl VmEvent {
    /// Whether memory.stat shows the event. Pages that kernel reclaim took
    /// ([`Self::PgstealKernel`]) were not stolen by the engine. So no sum of stolen pages includes
    /// them, and only metrics show them.
    const fn is_shown(self) -> bool {
        !matches!(self, Self::PgstealKernel)
    }

    const fn by_type(ty: FolioType, anon: Self, file: Self) -> Self {
        match ty {
            FolioType::Anon => anon,
            FolioType::File => file,
        }
    }

    pub(crate) const fn refault(ty: FolioType) -> Self {
        Self::by_type(ty, Self::WorkingsetRefaultAnon, Self::WorkingsetRefaultFile)
    }

    pub(crate) const fn activate(ty: FolioType) -> Self {
        Self::by_type(
            ty,
            Self::WorkingsetActivateAnon,
            Self::WorkingsetActivateFile,
        )
    }

    pub(crate) const fn restore(ty: FolioType) -> Self {
        Self::by_type(ty, Self::WorkingsetRestoreAnon, Self::WorkingsetRestoreFile)
    }

    const fn scan(reason: ScanReason) -> Self {
        match reason {
            ScanReason::Background => Self::PgscanKswapd,
            ScanReason::Direct => Self::PgscanDirect,
            ScanReason::Proactive => Self::PgscanProactive,
        }
    }

    const fn steal(reason: ScanReason) -> Self {
        match reason {
            ScanReason::Background => Self::PgstealKswapd,
            ScanReason::Direct => Self::PgstealDirect,
            ScanReason::Proactive => Self::PgstealProactive,
        }
    }
}

/// The counts of all events of one lruvec or memcg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmStat {
    counts: [u64; NR_EVENTS],
}

impl Default for VmStat {
    fn default() -> Self {
        Self {
            counts: [0; NR_EVENTS],
        }
    }
}

impl VmStat {
    /// Creates the counts; `read` returns the count of the event with a given index.
    pub(crate) fn new(read: impl Fn(usize) -> u64) -> Self {
        Self {
            counts: core::array::from_fn(read),
        }
    }

    /// How often `event` happened.
    #[must_use]
    pub const fn get(&self, event: VmEvent) -> u64 {
        self.counts[event as usize]
    }

    pub(crate) const fn add(&mut self, event: VmEvent, nr: u64) {
        self.counts[event as usize] += nr;
    }

    pub(crate) const fn scanned(&mut self, reason: ScanReason, ty: FolioType, nr: u64) {
        self.add(VmEvent::scan(reason), nr);
        self.add(
            VmEvent::by_type(ty, VmEvent::PgscanAnon, VmEvent::PgscanFile),
            nr,
        );
    }

    pub(crate) const fn stolen(&mut self, reason: ScanReason, ty: FolioType, nr: u64) {
        self.add(VmEvent::steal(reason), nr);
        self.add(
            VmEvent::by_type(ty, VmEvent::PgstealAnon, VmEvent::PgstealFile),
            nr,
        );
    }

    /// Returns `pgscan`: the number of pages scanned by all kinds of reclaim.
    #[must_use]
    pub const fn pgscan(&self) -> u64 {
        self.get(VmEvent::PgscanKswapd)
            + self.get(VmEvent::PgscanDirect)
            + self.get(VmEvent::PgscanProactive)
    }

    /// Returns `pgsteal`: the number of pages stolen (reclaimed) by all kinds of reclaim.
    #[must_use]
    pub const fn pgsteal(&self) -> u64 {
        self.get(VmEvent::PgstealKswapd)
            + self.get(VmEvent::PgstealDirect)
            + self.get(VmEvent::PgstealProactive)
    }

    /// Returns all counts with their keys, in the order of memory.stat.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        VmEvent::ALL
            .iter()
            .filter(|event| event.is_shown())
            .map(|&event| (event.name(), self.get(event)))
    }

    /// Asserts the relations between counters.
    /// spec: workingset.md 8, reclaim-control.md I5.
    pub(crate) fn check(&self) {
        for ty in FolioType::ALL {
            let refaults = self.get(VmEvent::refault(ty));
            assert!(
                self.get(VmEvent::activate(ty)) <= refaults,
                "activate > refault, {ty:?}"
            );
            assert!(
                self.get(VmEvent::restore(ty)) <= refaults,
                "restore > refault, {ty:?}"
            );
        }
        for reason in ScanReason::ALL {
            let (scan, steal) = (VmEvent::scan(reason), VmEvent::steal(reason));
            assert!(
                self.get(steal) <= self.get(scan),
                "pgsteal > pgscan, {reason:?}"
            );
        }
        let by_type = self.get(VmEvent::PgscanAnon) + self.get(VmEvent::PgscanFile);
        assert_eq!(by_type, self.pgscan(), "pgscan by type and by source");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_their_slots() {
        let mut stat = VmStat::default();
        for (n, &event) in (1..).zip(VmEvent::ALL) {
            stat.add(event, n);
        }
        for (n, (name, count)) in (1..).zip(stat.iter()) {
            assert_eq!(count, n, "{name}");
        }
        let names: alloc::vec::Vec<_> = stat.iter().map(|(name, _)| name).collect();
        assert_eq!(names[0], "workingset_refault_anon");
        assert!(names.contains(&"pgsteal_proactive"));
        assert!(!names.contains(&"pgsteal_kernel"), "memory.stat has none");
    }

    #[test]
    fn pgscan_is_the_sum_of_its_sources() {
        let mut stat = VmStat::default();
        for (n, reason) in (1..).zip(ScanReason::ALL) {
            stat.scanned(reason, FolioType::Anon, n);
        }
        assert_eq!((stat.pgscan(), stat.get(VmEvent::PgscanAnon)), (6, 6));
        stat.check();
    }
}
