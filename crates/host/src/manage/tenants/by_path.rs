//! What tenants are given by their paths, and those below them with them.
//!
//! Invariant: a tenant has what the nearest one at or above it is given, be that nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// By path below the root, which is empty: what holds from here down, or that nothing does.
pub(super) type ByPath<T> = BTreeMap<PathBuf, Option<T>>;

/// What the tenant at a path has.
pub(super) fn nearest<T: Copy>(given: &ByPath<T>, path: &Path) -> Option<T> {
    path.ancestors()
        .find_map(|at| given.get(at))
        .copied()
        .flatten()
}
