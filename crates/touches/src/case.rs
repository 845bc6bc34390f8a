//! A workload: a tree of control groups with limits, and tenants that touch pages in its leaf
//! groups.
//!
//! Invariants: in the list of groups, a group comes after its parent. Each tenant is the only one
//! in its group, and that group has no children: in control groups version 2 only leaf groups may
//! have processes.

/// Size of a page in bytes, as the length of a slice.
pub const PAGE_LEN: usize = 4096;
/// Size of a page in bytes.
pub const PAGE_SIZE: u64 = PAGE_LEN as u64;

/// Value of [`Group::max`] that means no limit.
pub const NO_LIMIT: u32 = u32::MAX;

/// A control group.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Name of the group, unique in the case.
    pub name: &'static str,
    /// Index of the parent in [`Case::groups`]; `None` for the root of the tree.
    pub parent: Option<usize>,
    /// memory.max in pages, or [`NO_LIMIT`].
    pub max: u32,
    /// memory.low in pages.
    pub low: u32,
}

/// Pages that are touched in ascending order.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Number of the first page.
    pub first: u32,
    /// Number of pages.
    pub pages: u32,
}

/// Which pages a tenant touches, after it has written each of its pages once in ascending order.
#[derive(Clone, Copy, Debug)]
pub enum Pattern {
    /// All pages are equally likely.
    Uniform,
    /// Pages with a Zipf distribution with this exponent.
    Zipf(f64),
    /// The pages in ascending order, again and again.
    Loop,
    /// With probability 1/2, a random page of the first `hot` pages. Otherwise the next of the
    /// other pages, which are touched in ascending order, again and again.
    ScanHot {
        /// Number of hot pages.
        hot: u32,
    },
    /// Nine of ten touches go to a random page of the current `hot` pages, the others to any page.
    /// After every `every` touches, the next `hot` pages become the hot ones.
    MovingHot {
        /// Number of pages that are hot at a time.
        hot: u32,
        /// Number of touches until the hot pages change.
        every: u64,
    },
    /// These parts, one after the other, each once.
    Parts(&'static [Part]),
}

/// A tenant: one process in one group.
#[derive(Clone, Copy, Debug)]
pub struct Tenant {
    /// Index of the tenant's group in [`Case::groups`].
    pub group: usize,
    /// Number of pages that the tenant touches.
    pub pages: u32,
    /// Which pages the tenant touches.
    pub pattern: Pattern,
    /// Number of touches after the first write of all pages.
    pub touches: u64,
}

/// A workload.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name of the case.
    pub name: &'static str,
    /// The groups, parents before their children.
    pub groups: &'static [Group],
    /// The tenants, in the order in which they take turns.
    pub tenants: &'static [Tenant],
    /// The turns: index of the tenant, then its number of touches in this turn. If the list is
    /// empty, the tenants take turns of [`crate::turns::SLICE`] touches.
    pub turns: &'static [(usize, u64)],
}

impl Case {
    /// Returns the name of the tenant with this index: the name of its group.
    #[must_use]
    pub const fn tenant_name(&self, tenant: usize) -> &'static str {
        self.groups[self.tenants[tenant].group].name
    }

    /// Returns whether the group with this index has children.
    #[must_use]
    pub fn is_inner(&self, group: usize) -> bool {
        self.groups.iter().any(|other| other.parent == Some(group))
    }

    /// Returns the path of the group with this index: the names of the groups from the root of the
    /// tree to this group, with slashes between.
    #[must_use]
    pub fn path(&self, group: usize) -> String {
        let Group { name, parent, .. } = self.groups[group];
        parent.map_or_else(
            || name.to_owned(),
            |parent| format!("{}/{name}", self.path(parent)),
        )
    }
}
