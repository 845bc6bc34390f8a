//! What tenants are given by their paths, and those below them with them.
//!
//! Invariant: a tenant has what the nearest one at or above it is given, be that nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// By path below the root, which is empty: what holds from here down, or that nothing does.
pub(super) type ByPath<T> = BTreeMap<PathBuf, Option<T>>;

/// What the tenant at a path has.
pub(super) fn nearest<'a, T>(given: &'a ByPath<T>, path: &Path) -> Option<&'a T> {
    first(given, path.ancestors())
}

/// The same of a group of the host's own: what all tenants are given is not for it, but what `host` is, or a group below it.
pub(super) fn nearest_of_host<'a, T>(given: &'a ByPath<T>, path: &Path) -> Option<&'a T> {
    first(
        given,
        path.ancestors().filter(|at| !at.as_os_str().is_empty()),
    )
}

fn first<'a, 'p, T>(
    given: &'a ByPath<T>,
    mut paths: impl Iterator<Item = &'p Path>,
) -> Option<&'a T> {
    paths.find_map(|at| given.get(at))?.as_ref()
}
