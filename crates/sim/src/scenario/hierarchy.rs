//! The tree of an experiment file's tenants, from their keys `parent = "NAME"`.
//!
//! Invariants: in [`Hierarchy::order`] parents come before their children, and otherwise tenants
//! are in the order of the file. A tenant never stays longer than its parent. Each instance of a
//! tenant's parent has `count` instances of the tenant below it.

use super::file::{File, Tenant};

/// Maximum number of levels below the root. The kernel has no such limit, but no known file has
/// more levels.
const DEPTH_MAX: usize = 16;

/// An error in the tree of tenants.
#[derive(Debug)]
pub struct Wrong {
    /// Index of the tenant in the file.
    pub tenant: usize,
    /// What is wrong with the tenant.
    pub what: String,
    /// What the user can do.
    pub hint: &'static str,
}

impl Wrong {
    fn new(tenant: usize, what: String, hint: &'static str) -> Self {
        Self { tenant, what, hint }
    }
}

/// The tree of a file's tenants; each is identified by its index in the file.
#[derive(Clone, Debug, Default)]
pub struct Hierarchy {
    parents: Vec<Option<usize>>,
    order: Vec<usize>,
    instances: Vec<u64>,
    stays: Vec<(u64, Option<u64>)>,
}

impl Hierarchy {
    /// Makes the tree of `file`.
    ///
    /// # Errors
    /// If a parent does not exist, a tenant is below itself or too deep, or a tenant departs before
    /// it arrives.
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

    /// Adds `tenant` to the order, after those of its ancestors that are not yet in it.
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

    /// Returns `tenant`, its parent, and so on up to the top; does not end if a tenant is below
    /// itself.
    pub fn path(&self, tenant: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(tenant), |&at| self.parents[at])
    }

    /// Returns all tenants, parents before their children.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns the parent of `tenant`; `None` if that is the root.
    #[must_use]
    pub fn parent(&self, tenant: usize) -> Option<usize> {
        self.parents[tenant]
    }

    /// Returns whether the tenant has children.
    #[must_use]
    pub fn has_children(&self, tenant: usize) -> bool {
        self.parents.contains(&Some(tenant))
    }

    /// Returns the number of instances of `tenant`, summed over all instances of its parent.
    #[must_use]
    pub fn instances(&self, tenant: usize) -> u64 {
        self.instances[tenant]
    }

    /// Returns when the tenant arrives, and when it departs (`None` if it stays), in milliseconds.
    #[must_use]
    pub fn stay(&self, tenant: usize) -> (u64, Option<u64>) {
        self.stays[tenant]
    }

    /// Returns the path of a tenant's control group: the names of its ancestors and its own.
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
