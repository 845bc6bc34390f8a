//! A workload: a tree of groups with limits, and tenants that touch pages in its leaves.
//!
//! Invariants: a group's parent stands before it; tenants are in groups that have no children, one in
//! each (control groups version 2 allows processes in leaves only).

/// Pages as a limit that is none.
pub const NO_LIMIT: u32 = u32::MAX;

/// A control group.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Its name, unique in the case.
    pub name: &'static str,
    /// Place of its parent among the groups; the first has none.
    pub parent: Option<usize>,
    /// memory.max in pages, or [`NO_LIMIT`].
    pub max: u32,
    /// memory.low in pages.
    pub low: u32,
}

/// What a tenant touches, after it has written each of its pages once, from the first to the last.
#[derive(Clone, Copy, Debug)]
pub enum Pattern {
    /// Any page.
    Uniform,
    /// By popularity; the exponent.
    Zipf(f64),
    /// One after the other, from the start again.
    Loop,
    /// One of the first `hot` pages, or the next one of a pass over all others: either with chance 1/2.
    ScanHot {
        /// Pages that are hot.
        hot: u32,
    },
    /// Nine in ten touches go to `hot` pages, which are others after every `every` touches.
    MovingHot {
        /// Pages that are hot at a time.
        hot: u32,
        /// Touches until the next ones are.
        every: u64,
    },
}

/// One process.
#[derive(Clone, Copy, Debug)]
pub struct Tenant {
    /// Place of its group.
    pub group: usize,
    /// Pages that it has.
    pub pages: u32,
    /// What it touches.
    pub pattern: Pattern,
    /// How many touches follow the first write of all pages.
    pub touches: u64,
}

/// A workload.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What it is called.
    pub name: &'static str,
    /// Its groups, parents first.
    pub groups: &'static [Group],
    /// Its tenants; they take turns in this order.
    pub tenants: &'static [Tenant],
}

impl Case {
    /// The name of a tenant: that of its group.
    #[must_use]
    pub const fn tenant_name(&self, tenant: usize) -> &'static str {
        self.groups[self.tenants[tenant].group].name
    }

    /// Whether a group has children.
    #[must_use]
    pub fn is_inner(&self, group: usize) -> bool {
        self.groups.iter().any(|other| other.parent == Some(group))
    }

    /// The path of a group from the first one on, with slashes.
    #[must_use]
    pub fn path(&self, group: usize) -> String {
        let Group { name, parent, .. } = self.groups[group];
        parent.map_or_else(
            || name.to_owned(),
            |parent| format!("{}/{name}", self.path(parent)),
        )
    }
}
