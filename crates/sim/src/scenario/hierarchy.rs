//! Who is below whom: the tree that `parent = "NAME"` makes of a file's tenants.
//!
//! Invariants: parents come before their children in [`Hierarchy::order`], and else the order is the file's; a tenant is
//! there no longer than its parent. `count` is so many below each one that its parent is.

use super::file::{File, Tenant};

/// Levels below the root. The kernel has no such limit; nobody has written a file with more.
const DEPTH_MAX: usize = 16;

/// What is wrong with a tree: whose fault, what, and what to do.
#[derive(Debug)]
pub struct Wrong {
    /// Place of the tenant in the file.
    pub tenant: usize,
    /// What is wrong with it.
    pub what: String,
    /// What to do.
    pub hint: &'static str,
}

impl Wrong {
    fn new(tenant: usize, what: String, hint: &'static str) -> Self {
        Self { tenant, what, hint }
    }
}

/// The tree of a file's tenants, by their places in the file.
#[derive(Clone, Debug, Default)]
pub struct Hierarchy {
    parents: Vec<Option<usize>>,
    order: Vec<usize>,
    instances: Vec<u64>,
    stays: Vec<(u64, Option<u64>)>,
}

impl Hierarchy {
    /// The tree of `file`.
    ///
    /// # Errors
    /// [`Wrong`] when a parent is not there, or is below its child, or when a tenant could never come.
    pub fn new(file: &File) -> Result<Self, Wrong> {
        let tenants: Vec<&Tenant> = file.tenant.iter().map(toml::Spanned::get_ref).collect();
        let mut tree = Self {
            instances: vec![0; tenants.len()],
            stays: vec![(0, None); tenants.len()],
            ..Self::default()
        };
        for (tenant, this) in tenants.iter().enumerate() {
            tree.parents.push(match &this.parent {
                None => None,
                Some(name) => match tenants.iter().position(|other| other.name == *name) {
                    Some(parent) => Some(parent),
                    None => {
                        let what = format!("there is no tenant `{name}` to be its parent");
                        return Err(Wrong::new(tenant, what, "name another [[tenant]]"));
                    }
                },
            });
        }
        for tenant in 0..tenants.len() {
            tree.place(tenant, &tenants)?;
        }
        Ok(tree)
    }

    /// Puts `tenant` in order, and before it those above it that are not there yet.
    fn place(&mut self, tenant: usize, tenants: &[&Tenant]) -> Result<(), Wrong> {
        let above: Vec<usize> = self.path(tenant).take(DEPTH_MAX + 1).collect();
        if above.len() > DEPTH_MAX {
            let hint = "a tenant is below another, and at most 16 levels below the root";
            let what = "it is below itself, or too deep".to_owned();
            return Err(Wrong::new(tenant, what, hint));
        }
        for at in above.into_iter().rev() {
            if self.order.contains(&at) {
                continue;
            }
            self.order.push(at);
            let (this, parent) = (tenants[at], self.parents[at]);
            let (arrive, depart) = parent.map_or((0, None), |parent| self.stays[parent]);
            let own = this.depart.map(|depart| depart.0);
            let stay = (
                this.arrive.0.max(arrive),
                [own, depart].into_iter().flatten().min(),
            );
            if stay.1.is_some_and(|depart| depart <= stay.0) {
                let hint = "a tenant is there as long as its parent: change arrive and depart";
                let what = "it departs before it arrives".to_owned();
                return Err(Wrong::new(at, what, hint));
            }
            self.stays[at] = stay;
            let parents = parent.map_or(1, |parent| self.instances[parent]);
            self.instances[at] = parents.saturating_mul(u64::from(this.count));
        }
        Ok(())
    }

    /// `tenant` and those above it, from below; without end if it is below itself.
    pub fn path(&self, tenant: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(tenant), |&at| self.parents[at])
    }

    /// All tenants, parents first.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Whom `tenant` is below; none: the root.
    #[must_use]
    pub fn parent(&self, tenant: usize) -> Option<usize> {
        self.parents[tenant]
    }

    /// True when others are below it.
    #[must_use]
    pub fn has_children(&self, tenant: usize) -> bool {
        self.parents.contains(&Some(tenant))
    }

    /// How many of `tenant` there are, below all of its parent together.
    #[must_use]
    pub fn instances(&self, tenant: usize) -> u64 {
        self.instances[tenant]
    }

    /// When it comes and when it goes, in milliseconds.
    #[must_use]
    pub fn stay(&self, tenant: usize) -> (u64, Option<u64>) {
        self.stays[tenant]
    }

    /// Its name with those above it, as a path of control groups.
    #[must_use]
    pub fn name(&self, file: &File, tenant: usize) -> String {
        let path = self.path(tenant);
        let mut names: Vec<&str> = path.map(|at| &*file.tenant[at].get_ref().name).collect();
        names.reverse();
        names.join("/")
    }
}

#[cfg(test)]
mod tests;
