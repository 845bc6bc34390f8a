//! Which files are used once: what POSIX_FADV_NOREUSE says of an open file, which nobody sees from outside.
//!
//! Invariant: a rule is about mappings, as the kernel's is: what is read by a descriptor counts as ever. It says nothing
//! of memory without a file. spec: reclaim-control.md 6.2.

use std::collections::BTreeMap;

use engine::memcg::MemcgId;

use crate::system::{Kind, PathPattern};

/// All rules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Noreuse {
    /// Of whoever maps files with such paths.
    pub(super) paths: Vec<PathPattern>,
    /// Of tenants.
    pub(super) tenants: BTreeMap<MemcgId, NoreuseFiles>,
}

/// Which files of a tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoreuseFiles {
    /// All that are on a disk.
    All,
    /// Those with such paths, as its processes have them.
    Like(Vec<PathPattern>),
}

impl Noreuse {
    /// Whether a rule goes by the names of files.
    pub(super) fn needs_names(&self) -> bool {
        let by_name = |files: &NoreuseFiles| matches!(files, NoreuseFiles::Like(_));
        !self.paths.is_empty() || self.tenants.values().any(by_name)
    }

    /// Whether what a tenant maps under this name (of /proc/PID/maps) is used once.
    pub(super) fn has(&self, memcg: MemcgId, kind: Kind, name: &[u8]) -> bool {
        let of_tenant = self.tenants.get(&memcg);
        if kind == Kind::File && of_tenant == Some(&NoreuseFiles::All) {
            return true;
        }
        let own = match of_tenant {
            Some(NoreuseFiles::Like(paths)) => &paths[..],
            _ => &[],
        };
        // A file of a tmpfs has a path, too.
        matches!(kind, Kind::File | Kind::Shmem)
            && self.paths.iter().chain(own).any(|path| path.is_like(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_of_everybody_or_of_a_tenant() {
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
