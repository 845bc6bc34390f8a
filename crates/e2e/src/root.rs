//! A small Debian installation in a folder, to run commands in with chroot(1). It is copied from
//! the packages of this machine, without any download, and takes a second to make.
//!
//! It has the named packages and their dependencies, each with its files and its entries in dpkg's
//! database, and nothing else. So a package that needs more cannot be installed there. Each command
//! makes its mounts in a mount namespace of its own, which ends with the command: when the folder
//! is removed, it holds no mounts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::guard::Run;
use crate::temp::TempDir;

/// Folders at the root of every Debian.
const FOLDERS: [&str; 8] = ["dev", "etc", "proc", "root", "run", "sys", "tmp", "var"];
/// Names at the root that are links to folders in `usr`, if they are on this machine.
const USR_LINKS: [&str; 4] = ["bin", "lib", "lib64", "sbin"];
/// Folders that apt and dpkg expect to find.
const DPKG_FOLDERS: [&str; 6] = [
    "var/lib/dpkg/info",
    "var/lib/dpkg/updates",
    "var/lib/apt/lists/partial",
    "var/cache/apt/archives/partial",
    "var/log/apt",
    "usr/bin",
];
/// Contents of `etc/passwd`. The scripts of packages would make these users, but do not run here.
const USERS: &str = "root:x:0:0:root:/root:/bin/sh\n_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n\
                     nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n";
/// Contents of `etc/group`.
const GROUPS: &str = "root:x:0:\nnogroup:x:65534:\n";
/// Beginnings of paths that apt and dpkg themselves write; listings omit them.
const PACKAGE_TOOL_PATHS: [&str; 6] = [
    "var/lib/dpkg/status",
    "var/lib/dpkg/lock",
    "var/lib/dpkg/triggers",
    "var/log",
    "var/cache/apt",
    "var/lib/apt",
];

/// The folder that holds the installation; removed in `Drop`.
#[derive(Debug)]
pub struct Root {
    folder: TempDir,
}

/// For each path in the installation a text of its kind, a hash of its contents, its mode and
/// owner.
pub type Listing = BTreeMap<String, String>;

impl Root {
    /// Makes an installation with these packages of this machine, and the essential packages of
    /// Debian.
    ///
    /// # Panics
    /// If a package is not installed on this machine.
    #[must_use]
    pub fn debian(names: &[&str]) -> Root {
        let essential = Installed::read().essential;
        let essential = essential.iter().map(String::as_str);
        Root::of_packages(&names.iter().copied().chain(essential).collect::<Vec<_>>())
    }

    /// Makes an installation with only these packages of this machine and what they depend on. It
    /// has no shell if none of them depends on one.
    ///
    /// # Panics
    /// If a package is not installed on this machine.
    #[must_use]
    pub fn of_packages(names: &[&str]) -> Root {
        let root = Root::empty();
        for name in USR_LINKS {
            if let Ok(to) = std::fs::read_link(Path::new("/").join(name)) {
                std::fs::create_dir_all(root.at("").join(&to)).expect("a folder can be made");
                symlink(to, root.at(name)).expect("a link can be made");
            }
        }
        for folder in DPKG_FOLDERS {
            std::fs::create_dir_all(root.at(folder)).expect("a folder can be made");
        }
        let packages = Installed::read().with_dependencies(names);
        root.copy(&packages);
        std::fs::write(root.at("etc/passwd"), USERS).expect("a file can be written");
        std::fs::write(root.at("etc/group"), GROUPS).expect("a file can be written");
        root
    }

    /// Makes an installation with no files, only folders at which file systems can be mounted.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn empty() -> Root {
        let folder = TempDir::new();
        for name in FOLDERS {
            std::fs::create_dir(folder.path().join(name)).expect("a folder can be made");
        }
        Root { folder }
    }

    /// The path outside of the installation for `path` inside.
    #[must_use]
    pub fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    /// The command that runs `words` in the installation, with this machine's `/proc`, `/sys` and
    /// `/dev`.
    #[must_use]
    pub fn command(&self, words: &[&str]) -> Run {
        let mounts = "for d in proc sys dev; do mount --rbind /$d \"$0/$d\"; done";
        self.within(&[], mounts, words)
    }

    /// The command that runs `words` in the installation, in a mount namespace and in the further
    /// `namespaces` (options of unshare(1)). Before that a shell runs `mounts`, in which `$0` is
    /// the folder.
    #[must_use]
    pub fn within(&self, namespaces: &[&str], mounts: &str, words: &[&str]) -> Run {
        let script = format!("set -e; {mounts}; exec chroot \"$0\" \"$@\"");
        let folder = self.folder.path().to_string_lossy().into_owned();
        let wrap = ["unshare", "--mount", "--propagation", "private"];
        let shell = ["sh", "-c", &script, &folder];
        let all = [&wrap[..], namespaces, &shell, words].concat();
        Run::new(all.into_iter().map(str::to_owned))
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .env("DEBIAN_FRONTEND", "noninteractive")
    }

    /// Lists all files in the installation, except those that apt and dpkg write for themselves.
    ///
    /// # Panics
    /// If a file cannot be read.
    #[must_use]
    pub fn listing(&self) -> Listing {
        let mut listing = Listing::new();
        list(self.folder.path(), "", &mut listing);
        listing
    }

    /// Copies the files of packages and their entries in dpkg's database.
    fn copy(&self, packages: &BTreeSet<String>) {
        let names: Vec<&str> = packages.iter().map(String::as_str).collect();
        let listed = query("-L", &names);
        let mut paths = String::new();
        for path in listed
            .lines()
            .filter(|path| path.len() > 2 && path.starts_with('/'))
        {
            // A small installation may lack the documentation.
            if Path::new(path).symlink_metadata().is_ok() {
                let _ = writeln!(paths, "{}", path.trim_start_matches('/'));
            }
        }
        for name in packages {
            for entry in std::fs::read_dir("/var/lib/dpkg/info")
                .into_iter()
                .flatten()
                .flatten()
            {
                let file = entry.file_name().to_string_lossy().into_owned();
                // `libc6:amd64.list`, `dash.list`.
                let of = file.rsplit_once('.').map_or("", |(of, _)| of);
                if of.split(':').next() == Some(name) {
                    let _ = writeln!(paths, "var/lib/dpkg/info/{file}");
                }
            }
        }
        paths += "var/lib/dpkg/info/format\n";
        let list = self.at("tmp/list");
        std::fs::write(&list, paths).expect("a file can be written");
        let script = "tar -C / --no-recursion -T \"$0/tmp/list\" -cf - | tar -C \"$0\" -xpf -";
        let copied = Command::new("sh")
            .args(["-c", script])
            .arg(self.folder.path())
            .output();
        let copied = copied.expect("sh is there");
        let reported = String::from_utf8_lossy(&copied.stderr);
        assert!(copied.status.success() && reported.is_empty(), "{reported}");
        std::fs::remove_file(list).expect("it was written");
        let status = query("-s", &names);
        std::fs::write(self.at("var/lib/dpkg/status"), status).expect("a file can be written");
    }
}

/// The differences between two listings, one line for each path that is gone, new or changed.
#[must_use]
pub fn differences(before: &Listing, after: &Listing) -> Vec<String> {
    let mut found = Vec::new();
    for (path, is) in before {
        match after.get(path) {
            None => found.push(format!("gone: {path}")),
            Some(now) if now != is => found.push(format!("changed: {path}: {is} to {now}")),
            Some(_) => {}
        }
    }
    let new = after.keys().filter(|path| !before.contains_key(*path));
    found.extend(new.map(|path| format!("new: {path}")));
    found
}

/// Adds all that is below `folder`, whose path in the installation is `below`, to the listing.
fn list(folder: &Path, below: &str, listing: &mut Listing) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{below}: {error}"));
    for entry in entries {
        let entry = entry.unwrap_or_else(|error| panic!("{below}: {error}"));
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = match below {
            "" => name,
            _ => format!("{below}/{name}"),
        };
        if PACKAGE_TOOL_PATHS.iter().any(|own| path.starts_with(own)) {
            continue;
        }
        let meta = entry
            .metadata()
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let what = if meta.is_symlink() {
            let to = std::fs::read_link(entry.path()).unwrap_or_default();
            format!("link to {}", to.display())
        } else if meta.is_dir() {
            list(&entry.path(), &path, listing);
            String::from("folder")
        } else {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            format!("file of {} bytes, {:x}", bytes.len(), hash(&bytes))
        };
        let whose = format!("{:o} {}:{}", meta.mode(), meta.uid(), meta.gid());
        listing.insert(path, format!("{what}, {whose}"));
    }
}

/// FNV-1a, enough to find files that differ by accident.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Runs `dpkg-query OPTION NAMES`; returns what it prints.
fn query(option: &str, names: &[&str]) -> String {
    let output = Command::new("dpkg-query").arg(option).args(names).output();
    let output = output.expect("dpkg-query is there: this is a Debian");
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "dpkg-query {option}: {reported}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The packages that are installed on this machine.
struct Installed {
    /// For each package its dependencies; each is a list of alternatives, preferred ones first.
    needs: BTreeMap<String, Vec<Vec<String>>>,
    /// For each virtual package a package that provides it.
    provide: BTreeMap<String, String>,
    /// Essential packages: every package needs them, but none names them as dependencies.
    essential: Vec<String>,
}

impl Installed {
    /// Reads dpkg's database.
    fn read() -> Installed {
        let format = "-f=${db:Status-Abbrev}\t${Package}\t${Pre-Depends}, ${Depends}\t${Provides}\t${Essential}\n";
        let reported = query("-W", &[format]);
        let (mut needs, mut provide) = (BTreeMap::new(), BTreeMap::new());
        let mut essential = Vec::new();
        // `name:any (>= 1) [amd64]` is a dependency on `name`.
        let name = |word: &str| {
            let word = word
                .split(['(', ':', '[', ' '])
                .find(|part| !part.is_empty());
            word.unwrap_or_default().to_owned()
        };
        for line in reported.lines().filter(|line| line.starts_with("ii")) {
            let mut fields = line.split('\t').skip(1);
            let mut next = || fields.next().unwrap_or_default();
            let (package, depends, provides) = (next().to_owned(), next(), next());
            essential.extend((next() == "yes").then(|| package.clone()));
            let groups = depends
                .split(',')
                .map(str::trim)
                .filter(|group| !group.is_empty());
            let groups = groups.map(|group| group.split('|').map(|one| name(one.trim())).collect());
            for one in provides.split(',') {
                provide.insert(name(one.trim()), package.clone());
            }
            needs.insert(package, groups.collect());
        }
        Installed {
            needs,
            provide,
            essential,
        }
    }

    /// The named packages with all their dependencies.
    fn with_dependencies(&self, names: &[&str]) -> BTreeSet<String> {
        let mut due: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut all = BTreeSet::new();
        while let Some(name) = due.pop() {
            let groups = self.needs.get(&name);
            let groups =
                groups.unwrap_or_else(|| panic!("{name} is not installed on this machine"));
            if !all.insert(name) {
                continue;
            }
            for group in groups {
                let is_here = |name: &&String| self.needs.contains_key(*name);
                let found = group.iter().find(is_here);
                let found = found.or_else(|| group.iter().find_map(|name| self.provide.get(name)));
                due.extend(found.cloned());
            }
        }
        all
    }
}
