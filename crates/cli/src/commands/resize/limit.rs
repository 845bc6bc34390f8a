//! The memory limit of a control group. It is set by systemd if the group is a unit of systemd,
//! otherwise through the group's file.
//!
//! Invariant: the former limit is read before anything is changed.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use daemon::options::Bytes;
use host::system::Group;
use host::workload::Workload;

use crate::failure::Failure;

/// Directory that exists if systemd runs.
const SYSTEMD: &str = "/run/systemd/system";
/// In cgroup version 1 a limit of at least this many bytes means no limit.
const NO_LIMIT_MIN: u64 = 1 << 62;

/// Which program sets a group's limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// systemd sets it, as a property of this unit.
    Unit { name: String, is_persistent: bool },
    /// pagetide itself sets it, through the group's file.
    File,
}

impl Owner {
    pub(super) fn of(workload: &Workload, group: &Group, is_persistent: bool) -> Owner {
        let has_systemd = Path::new(SYSTEMD).is_dir();
        Owner::where_systemd_is(has_systemd, workload, group, is_persistent)
    }

    /// Returns the owner of the limit. The system's systemd does not own units of a user's own
    /// systemd, nor groups below a unit, which are delegated.
    fn where_systemd_is(
        has_systemd: bool,
        workload: &Workload,
        group: &Group,
        is_persistent: bool,
    ) -> Owner {
        let own = |unit: &&String| {
            group
                .path
                .file_name()
                .is_some_and(|name| name == unit.as_str())
        };
        match workload.unit_id.as_ref().filter(own) {
            Some(name) if has_systemd && workload.user.is_none() => Owner::Unit {
                name: name.clone(),
                is_persistent,
            },
            _ => Owner::File,
        }
    }

    /// Returns the command that makes systemd set the limit; `None` if systemd is not the owner.
    fn words(&self, limit: Option<u64>) -> Option<Vec<String>> {
        let Owner::Unit {
            name,
            is_persistent,
        } = self
        else {
            return None;
        };
        let limit = limit.map_or_else(|| "infinity".to_owned(), |bytes| bytes.to_string());
        let runtime = (!is_persistent).then(|| "--runtime".to_owned());
        let words = ["systemctl", "set-property"].map(str::to_owned).into_iter();
        let rest = ["--".to_owned(), name.clone(), format!("MemoryMax={limit}")];
        Some(words.chain(runtime).chain(rest).collect())
    }
}

/// A group's limit, and its former value.
#[derive(Debug)]
pub(super) struct Limit {
    owner: Owner,
    file: PathBuf,
    former: Option<u64>,
    is_v1: bool,
}

impl Limit {
    /// # Errors
    /// The group is gone, or this user may not set its limit.
    pub(super) fn open(owner: Owner, group: &Group) -> Result<Limit, Failure> {
        let v1 = group.dir.join("memory.limit_in_bytes");
        let is_v1 = v1.exists();
        let file = if is_v1 {
            v1
        } else {
            group.dir.join("memory.max")
        };
        let text = std::fs::read_to_string(&file).map_err(|error| refused(&file, &error))?;
        if owner == Owner::File {
            // Opening changes nothing. If it fails, it fails here, and not after pages were paged
            // out for the limit.
            let opened = std::fs::OpenOptions::new().write(true).open(&file);
            opened.map_err(|error| refused(&file, &error))?;
        }
        Ok(Limit {
            owner,
            former: parse(&text),
            file,
            is_v1,
        })
    }

    /// Returns the former limit; `None` if there was none.
    pub(super) const fn former(&self) -> Option<u64> {
        self.former
    }

    /// Returns whether setting the limit makes the kernel reclaim the memory above it, including
    /// pages that several processes map, and fails if it cannot: on version 1. Version 2 kills
    /// processes instead. If systemd sets the limit, a failure is not reported.
    pub(super) fn kernel_reclaims(&self) -> bool {
        self.is_v1 && self.owner == Owner::File
    }

    /// Returns whether the group still exists.
    pub(super) fn is_there(&self) -> bool {
        self.file.exists()
    }

    /// Returns how the limit is set, in words.
    pub(super) fn describe(&self, bytes: u64) -> String {
        match self.owner.words(Some(bytes)) {
            Some(words) => words.join(" "),
            None => format!("echo {bytes} > {}", self.file.display()),
        }
    }

    /// # Errors
    /// The owner of the limit refuses.
    pub(super) fn set(&self, limit: Option<u64>) -> Result<(), Failure> {
        let Some(words) = self.owner.words(limit) else {
            let none = if self.is_v1 { "-1" } else { "max" };
            let text = limit.map_or_else(|| none.to_owned(), |bytes| bytes.to_string());
            return std::fs::write(&self.file, text).map_err(|error| refused(&self.file, &error));
        };
        let done = Command::new(&words[0]).args(&words[1..]).output();
        let done = done.map_err(|error| {
            Failure::new(
                format!("cannot start {}: {error}", words[0]),
                "is systemd's command in PATH?",
            )
        })?;
        if done.status.success() {
            return Ok(());
        }
        let reported = String::from_utf8_lossy(&done.stderr);
        Err(Failure::new(
            format!(
                "cannot set the limit: `{}` failed: {}",
                words.join(" "),
                reported.trim().escape_debug()
            ),
            "run as root",
        ))
    }
}

/// Returns the failure for a file of a group that could not be read or written.
pub(super) fn refused(file: &Path, error: &io::Error) -> Failure {
    let what = format!("cannot set the limit in {}: {error}", file.display());
    match error.kind() {
        io::ErrorKind::NotFound => Failure::new(
            format!("cannot resize: {} no longer exists", file.display()),
            "the control group has ended, or its memory is not counted",
        ),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Failure::missing(what, "run as root")
        }
        io::ErrorKind::ResourceBusy => {
            Failure::new(what, "more is in use than fits; the limit is as it was")
        }
        _ => Failure::new(what, "`pagetide doctor` says what this host can do"),
    }
}

/// Parses a limit in bytes. `None` if there is no limit: `max`, another text that is no number, or
/// at least [`NO_LIMIT_MIN`] bytes, as version 1 writes a large number for no limit.
fn parse(text: &str) -> Option<u64> {
    text.trim()
        .parse()
        .ok()
        .filter(|bytes| *bytes < NO_LIMIT_MIN)
}

/// Formats a limit for people.
pub(super) fn text(limit: Option<u64>) -> String {
    limit.map_or_else(|| "none".to_owned(), |bytes| Bytes(bytes).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(path: &str, has_systemd: bool) -> Owner {
        let group = Group {
            path: path.into(),
            dir: path.into(),
        };
        Owner::where_systemd_is(has_systemd, &Workload::of(Path::new(path)), &group, false)
    }

    #[test]
    fn systemd_sets_the_limit_of_its_own_units() {
        let redis = owner("/system.slice/redis.service", true);
        let words = redis.words(Some(1 << 20)).expect("systemd sets it");
        assert_eq!(
            words.join(" "),
            "systemctl set-property --runtime -- redis.service MemoryMax=1048576"
        );
        let words = redis.words(None).expect("systemd sets it");
        assert_eq!(words.last().map(String::as_str), Some("MemoryMax=infinity"));
        for (path, has_systemd) in [
            ("/system.slice/redis.service", false),
            ("/system.slice/redis.service/worker", true),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/a.service",
                true,
            ),
            ("/batch", true),
        ] {
            assert_eq!(owner(path, has_systemd), Owner::File, "{path}");
        }
    }

    #[test]
    fn no_limit_is_parsed_as_none() {
        let all = ["max\n", "9223372036854771712\n", "1048576\n"].map(parse);
        assert_eq!(all, [None, None, Some(1 << 20)]);
        assert_eq!([None, Some(1 << 20)].map(text), ["none", "1 MiB"]);
    }
}
