//! What a user may give for a control group.
//!
//! Invariant: what is found lies below the memory controller's mount, is a group, and existed a
//! moment ago; links and `..` are followed first, so they lead nowhere else.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Group, Groups};
use crate::system::error::Error;

impl Groups {
    /// The group that is meant: a directory below the mount, or a path from the mount on, with or
    /// without its first slash, or as `/proc/PID/cgroup` has it.
    ///
    /// # Errors
    /// [`Error::NoGroup`], which says what was found instead, and what to give.
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
                Ok(_) => return Err(self.no_group(typed, "it is a file of one".to_owned())),
                Err(_) => elsewhere = elsewhere.or(Some(found)),
            }
        }
        let mount = self.mount.display();
        let why = match elsewhere {
            Some(found) if found.join("cgroup.procs").exists() => format!(
                "{} belongs to another controller; those that count memory are below {mount}",
                found.display()
            ),
            // `/tmp` exists, and has nothing to do with it.
            Some(_) | None => format!("there is none of that name below {mount}"),
        };
        Err(self.no_group(typed, why))
    }

    /// Directories that may be meant, likeliest first.
    fn candidates(&self, typed: &str) -> Vec<PathBuf> {
        let mut candidates = Vec::new();
        if typed.starts_with('/') {
            candidates.push(PathBuf::from(typed));
        }
        let relative = typed.trim_start_matches('/');
        candidates.push(self.mount.join(relative));
        // As /proc/PID/cgroup has it, where only a part of the hierarchy is mounted.
        candidates.extend(
            self.below(&Path::new("/").join(relative))
                .map(|p| self.mount.join(p)),
        );
        candidates
    }

    fn no_group(&self, typed: &str, why: String) -> Error {
        // A group of the same name in the memory controller's hierarchy is likely the one.
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
                "list them: find {} -type d; a process' own is in /proc/PID/cgroup",
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
