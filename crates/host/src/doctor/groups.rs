//! Control groups: which version, where mounted, and whether we may make a group.
//!
//! Invariant: no group is made; faccessat(2) is used to ask the kernel whether a group may be
//! written.

use std::path::Path;

use rustix::fs::{Access as Mode, AtFlags, CWD, accessat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::hard_limit::{has_systemd, make_room};
use crate::system::cgroup::Version;
use crate::system::{Group, Groups, Proc};

use super::Finding;

/// Control groups as found on this host.
pub(super) enum Access {
    /// No hierarchy accounts memory. Members: the reason, then the remedy.
    None(String, String),
    /// A hierarchy accounts memory.
    Some {
        version: Version,
        mount: String,
        /// Path of the group that we may write, or the kernel's error.
        writable: Result<String, Errno>,
        /// The remedy if groups below the writable group cannot be limited, as that group has other
        /// processes; else `None`.
        crowded: Option<String>,
        /// Whether the user's own systemd can be reached, which can make a group (a scope) for us.
        by_scope: bool,
    },
}

impl Access {
    pub(super) fn gather(proc: Option<&Proc>) -> Access {
        let Some(proc) = proc else {
            return Access::None("/proc is not mounted".to_owned(), "mount it".to_owned());
        };
        let groups = match Groups::find(proc) {
            Ok(groups) => groups,
            Err(error) => return Access::None(error.to_string(), error.hint()),
        };
        // Our own group may be delegated to our user even if the hierarchy's root is not.
        let ours = groups.of_process(proc, std::process::id()).ok().flatten();
        let crowded = ours.as_ref().filter(|own| is_crowded(&groups, own));
        let crowded = crowded.map(|own| make_room(&own.dir));
        let own = ours.filter(|group| write(&group.dir).is_ok());
        let writable = write(&groups.mount)
            .map(|()| "/".to_owned())
            .or_else(|errno| {
                own.map(|group| group.path.display().to_string())
                    .ok_or(errno)
            });
        Access::Some {
            version: groups.version,
            mount: groups.mount.display().to_string(),
            writable,
            crowded,
            by_scope: groups.version == Version::V2 && has_own_systemd(),
        }
    }

    pub(super) fn judge(&self) -> Finding {
        let topic = "control groups";
        let (version, mount, writable, crowded, by_scope) = match self {
            Access::None(why, hint) => return Finding::limited(topic, why, hint),
            Access::Some {
                version,
                mount,
                writable,
                crowded,
                by_scope,
            } => (version, mount, writable, crowded, by_scope),
        };
        let version = match version {
            Version::V1 => "version 1",
            Version::V2 => "version 2",
        };
        let cannot = |why: &str| {
            format!(
                "{version} at {mount}, {why}: groups can be read but not made, so limits are enforced only at each scan"
            )
        };
        if let (Ok(_), Some(hint)) = (writable, crowded) {
            let why = cannot("where pagetide's own group has other processes");
            return Finding::limited(topic, why, hint);
        }
        match writable {
            Ok(group) if group == "/" => Finding::ok(
                topic,
                format!(
                    "{version} at {mount}, writable: the kernel enforces a limit in a control group of its own"
                ),
            ),
            Ok(group) => Finding::ok(
                topic,
                format!("{version} at {mount}, writable below {group}"),
            ),
            Err(Errno::ROFS) => Finding::limited(
                topic,
                cannot("mounted read-only"),
                format!("mount -o remount,rw {mount}, or start the container with it writable"),
            ),
            // A user that may write no group can still set a limit: `run` has systemd make a scope.
            Err(_) if *by_scope => Finding::ok(
                topic,
                format!(
                    "{version} at {mount}: the kernel enforces a limit in a scope of your systemd (which ends with your last session, unless lingering is enabled: loginctl enable-linger)"
                ),
            ),
            Err(errno) => Finding::limited(
                topic,
                cannot(&format!("not writable for pagetide ({errno})")),
                "run as root, or in a group of your own: systemd-run --user --scope -p Delegate=yes",
            ),
        }
    }
}

/// Returns whether the user's own systemd can be reached.
fn has_own_systemd() -> bool {
    let bus = || {
        let folder = std::env::var_os("XDG_RUNTIME_DIR")?;
        Some(Path::new(&folder).join("bus").exists())
    };
    let is_reported = std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some();
    !geteuid().is_root() && has_systemd() && (is_reported || bus() == Some(true))
}

/// Returns whether our group is the topmost visible one and has other processes, too, as in a
/// container that may write its groups. The real root group is excepted: it has no `cgroup.type`,
/// and may have processes as well as child groups.
fn is_crowded(groups: &Groups, own: &Group) -> bool {
    let is_first = groups.version == Version::V2 && own.dir == groups.mount;
    let others = || groups.own_processes(own).ok().flatten();
    is_first && own.dir.join("cgroup.type").exists() && others().is_some_and(|pids| pids.len() > 1)
}

/// Returns the kernel's error if we may not write this directory.
fn write(dir: &Path) -> Result<(), Errno> {
    accessat(CWD, dir, Mode::WRITE_OK, AtFlags::EACCESS)
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn some(writable: Result<&str, Errno>, crowded: Option<&str>) -> Finding {
        let access = Access::Some {
            version: Version::V2,
            mount: "/sys/fs/cgroup".to_owned(),
            writable: writable.map(str::to_owned),
            crowded: crowded.map(str::to_owned),
            by_scope: false,
        };
        access.judge()
    }

    #[test]
    fn where_and_whether_writable() {
        let finding = some(Ok("/"), None);
        assert_eq!(finding.state, State::Ok);
        assert!(finding.detail.contains("version 2 at /sys/fs/cgroup"));
        assert!(some(Ok("/user/7"), None).detail.contains("below /user/7"));
        // Regression: in a container that may write its groups, the doctor reported `ok`, but `run`
        // could make no group.
        let finding = some(Ok("/"), Some("make room"));
        assert_eq!(finding.state, State::Limited);
        assert_eq!(finding.remedy.as_deref(), Some("make room"));
        let finding = some(Err(Errno::ROFS), None);
        assert!(finding.detail.contains("read-only"), "{finding:?}");
        assert!(
            finding
                .remedy
                .is_some_and(|remedy| remedy.contains("remount,rw"))
        );
        assert_eq!(some(Err(Errno::ACCESS), None).state, State::Limited);
    }

    #[test]
    fn a_users_systemd_makes_one() {
        let access = Access::Some {
            version: Version::V2,
            mount: "/sys/fs/cgroup".to_owned(),
            writable: Err(Errno::ACCESS),
            crowded: None,
            by_scope: true,
        };
        let finding = access.judge();
        assert!(
            finding.state == State::Ok && finding.detail.contains("scope"),
            "{finding:?}"
        );
    }

    #[test]
    fn a_host_without_memory_cgroups_gets_a_remedy() {
        let finding =
            Access::None("no memory controller".to_owned(), "mount it".to_owned()).judge();
        assert_eq!(finding.state, State::Limited);
        assert_eq!(finding.remedy.as_deref(), Some("mount it"));
    }
}
