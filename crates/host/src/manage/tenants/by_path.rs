//! Settings of tenants by path; the setting of a tenant also applies to the tenants below it.
//!
//! Invariant: the setting that applies to a tenant is that of the nearest path at or above the
//! tenant's own, even if that setting is "none".

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Settings by path below the root (the empty path). `None` means no setting for that tenant and
/// those below it.
pub(super) type ByPath<T> = BTreeMap<PathBuf, Option<T>>;

/// Returns the setting that applies to the tenant at `path`; `None` if there is none.
pub(super) fn nearest<'a, T>(given: &'a ByPath<T>, path: &Path) -> Option<&'a T> {
    first(given, path.ancestors())
}

/// Returns the setting that applies to the host's group at `path`: that of the nearest path at or
/// above it, up to and including the tenant `host`. `None` if there is no such setting. The setting
/// of the root (the empty path) does not apply to the host's groups.
pub(super) fn nearest_of_host<'a, T>(given: &'a ByPath<T>, path: &Path) -> Option<&'a T> {
    first(
        given,
        path.ancestors().filter(|at| !at.as_os_str().is_empty()),
    )
}

/// Returns the setting of the first of `paths` that has one; `None` if none has, or if that setting
/// is "none".
fn first<'a, 'p, T>(
    given: &'a ByPath<T>,
    mut paths: impl Iterator<Item = &'p Path>,
) -> Option<&'a T> {
    paths.find_map(|at| given.get(at))?.as_ref()
}
