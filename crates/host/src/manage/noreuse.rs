//! Rules that say which files are used only once, for programs that do not declare that themselves
//! by POSIX_FADV_NOREUSE on an open file (which walks see: `pagetables::Mapping::is_advised`).
//!
//! Invariant: like the kernel's flag, a rule is about mappings of files. It changes nothing for
//! files that are read through descriptors, or for memory without a file.
//!
//! spec: reclaim-control.md 6.2.

use std::collections::BTreeMap;

use engine::memcg::MemcgId;

use crate::system::{Kind, PathPattern};

/// All rules that say which files are used only once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Noreuse {
    /// Patterns of paths: a file with such a path is used only once, in every process that maps it.
    pub(super) paths: Vec<PathPattern>,
    /// For a tenant: which files its processes use only once.
    pub(super) tenants: BTreeMap<MemcgId, NoreuseFiles>,
}

/// Which files of a tenant are used only once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoreuseFiles {
    /// All files on a disk.
    All,
    /// Files with a matching path, as the tenant's processes see the path.
    Like(Vec<PathPattern>),
}

impl Noreuse {
    /// Whether some rule depends on the paths of files.
    pub(super) fn needs_names(&self) -> bool {
        let by_name = |files: &NoreuseFiles| matches!(files, NoreuseFiles::Like(_));
        !self.paths.is_empty() || self.tenants.values().any(by_name)
    }

    /// Whether a rule says that a file is used only once. `memcg`: the tenant that maps the file;
    /// `name`: its path in /proc/PID/maps.
    pub(super) fn has(&self, memcg: MemcgId, kind: Kind, name: &[u8]) -> bool {
        let of_tenant = self.tenants.get(&memcg);
        if kind == Kind::File && of_tenant == Some(&NoreuseFiles::All) {
            return true;
        }
        let own = match of_tenant {
            Some(NoreuseFiles::Like(paths)) => &paths[..],
            _ => &[],
        };
        // Files on a tmpfs have paths, too.
        matches!(kind, Kind::File | Kind::Shmem)
            && self.paths.iter().chain(own).any(|path| path.is_like(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_holds_for_all_tenants_or_for_one() {
        let path = |text: &str| text.parse::<PathPattern>().expect("a pattern");
        let (all, some, other) = (MemcgId::ROOT, MemcgId(1), MemcgId(2));
        let rules = Noreuse {
            paths: vec![path("/srv/**")],
            tenants: [
                (all, NoreuseFiles::All),
                (some, NoreuseFiles::Like(vec![path("/data/*")])),
            ]
            .into(),
        };
        for (memcg, kind, name, has) in [
            (all, Kind::File, "/x", true),
            (all, Kind::Shmem, "/x", false),
            (all, Kind::Anon, "", false),
            (some, Kind::File, "/data/x (deleted)", true),
            (some, Kind::Shmem, "/data/x", true),
            (some, Kind::File, "/x", false),
            (other, Kind::File, "/data/x", false),
            (other, Kind::File, "/srv/a/b", true),
            (other, Kind::Device, "/srv/a/b", false),
        ] {
            assert_eq!(
                rules.has(memcg, kind, name.as_bytes()),
                has,
                "{memcg:?} {name}"
            );
        }
    }
}
