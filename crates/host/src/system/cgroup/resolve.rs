//! Finds the control group that a user names.
//!
//! Invariant: the result is a group below the memory controller's mount, and existed when it was
//! looked up. Links and `..` are resolved first, so they cannot lead out of the mount.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Group, Groups};
use crate::system::error::Error;

impl Groups {
    /// Returns the group that `typed` names. It may be a directory below the mount, a path relative
    /// to the mount (also with a slash before it), or a path as in `/proc/PID/cgroup`.
    ///
    /// # Errors
    /// [`Error::NoGroup`], which says what was found instead, and what to type.
    pub fn resolve(&self, typed: &str) -> Result<Group, Error> {
        if typed.trim().is_empty() {
            return Err(self.no_group(typed, "the path is empty".to_owned()));
        }
        let mount = self
            .mount
            .canonicalize()
            .unwrap_or_else(|_| self.mount.clone());
        let mut elsewhere = None;
        for candidate in self.candidates(typed) {
            let Ok(found) = candidate.canonicalize() else {
                continue;
            };
            match found.strip_prefix(&mount) {
                Ok(relative) if found.is_dir() => return Ok(self.group(relative)),
                Ok(_) => {
                    return Err(self.no_group(
                        typed,
                        "it is a file of a control group, not its directory".to_owned(),
                    ));
                }
                Err(_) => elsewhere = elsewhere.or(Some(found)),
            }
        }
        let mount = self.mount.display();
        let why = match elsewhere {
            Some(found) if found.join("cgroup.procs").exists() => format!(
                "{} belongs to another controller; those that count memory are below {mount}",
                found.display()
            ),
            // For example `/tmp`, which exists but is no control group.
            Some(_) | None => format!("there is no group of that name below {mount}"),
        };
        Err(self.no_group(typed, why))
    }

    /// Returns the directories that `typed` may name, the most likely first.
    fn candidates(&self, typed: &str) -> Vec<PathBuf> {
        let mut candidates = Vec::new();
        if typed.starts_with('/') {
            candidates.push(PathBuf::from(typed));
        }
        let relative = typed.trim_start_matches('/');
        candidates.push(self.mount.join(relative));
        // A path as in /proc/PID/cgroup, for the case that only a part of the hierarchy is mounted.
        candidates.extend(
            self.below(&Path::new("/").join(relative))
                .map(|p| self.mount.join(p)),
        );
        candidates
    }

    /// Returns the error if `typed` names no group. `why`: what was found instead.
    fn no_group(&self, typed: &str, why: String) -> Error {
        // If the memory controller's hierarchy has a group of this name, the user probably means
        // that group.
        let parts: Vec<_> = Path::new(typed)
            .iter()
            .filter(|part| *part != "/")
            .collect();
        let same = (0..parts.len())
            .map(|from| self.mount.join(parts[from..].iter().collect::<PathBuf>()))
            .find(|dir| !parts.contains(&OsStr::new("..")) && dir.is_dir());
        let hint = match same {
            Some(dir) => format!("did you mean {}?", dir.display()),
            None => format!(
                "list them: find {} -type d; a process's own is in /proc/PID/cgroup",
                self.mount.display()
            ),
        };
        Error::NoGroup {
            typed: typed.to_owned(),
            why,
            hint,
        }
    }
}
