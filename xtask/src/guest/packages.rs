//! Debian's packages, downloaded once and kept unpacked. A folder below `packages` is always
//! complete, because it is filled elsewhere and then renamed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::commands;
use super::scratch::Scratch;
use super::versions::Kernel;

const FETCH_LIMIT: Duration = Duration::from_secs(600);
const UNPACK_LIMIT: Duration = Duration::from_secs(120);

/// The packages that were downloaded, and how to download more.
pub(super) struct Packages {
    folder: PathBuf,
    parent: PathBuf,
}

impl Packages {
    /// Opens the packages below this folder.
    pub(super) fn new(parent: &Path) -> Result<Packages, String> {
        let folder = parent.join("packages");
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
        Ok(Packages {
            folder,
            parent: parent.to_owned(),
        })
    }

    /// Returns the folder of the unpacked kernel package; downloads it if there is none.
    pub(super) fn kernel(&self, kernel: Kernel) -> Result<PathBuf, String> {
        // An existing package is used even if there is a newer one: tests should not wait for a
        // download.
        let names: Vec<String> = std::fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        if let Some(name) = kernel.newest(names.iter().map(String::as_str)) {
            return Ok(self.folder.join(name));
        }
        let args = ["search", "--names-only", "^linux-image-.*-cloud-amd64"];
        let found = commands::output("apt-cache", args, Path::new("/"), UNPACK_LIMIT)?;
        let found = String::from_utf8_lossy(&found);
        let first_words = found.lines().filter_map(|line| line.split(' ').next());
        let name = kernel.newest(first_words).ok_or_else(|| {
            format!(
                "apt knows no package of Debian's kernel {} (linux-image-{0}.*-cloud-amd64): run \
                 `apt-get update`; Debian 12 with its security updates has it. Or fetch it \
                 elsewhere and unpack it: dpkg-deb -x FILE {}/NAME-OF-THE-PACKAGE",
                kernel.name(),
                self.folder.display()
            )
        })?;
        self.package(name)
    }

    /// Returns the path of the static busybox.
    pub(super) fn busybox(&self) -> Result<PathBuf, String> {
        let package = self.package("busybox-static")?;
        file_in(&package.join("bin"), "busybox")
            .or_else(|_| file_in(&package.join("usr/bin"), "busybox"))
    }

    /// Returns where this package is unpacked; fetches it if it is not there yet.
    fn package(&self, name: &str) -> Result<PathBuf, String> {
        let place = self.folder.join(name);
        if place.is_dir() {
            return Ok(place);
        }
        eprintln!("guest: fetching {name}");
        self.fetch(name, &place).map_err(|why| {
            format!(
                "cannot fetch Debian's package {name}: {why}\nThe guests need it. Is there a \
                 network, and are apt's lists fresh (`apt-get update`)? Or fetch it elsewhere and \
                 unpack it: dpkg-deb -x FILE {}",
                place.display()
            )
        })?;
        Ok(place)
    }

    fn fetch(&self, name: &str, place: &Path) -> Result<(), String> {
        let scratch = Scratch::new(&self.parent)?;
        // apt's user for downloads cannot write here, and prints a warning at each download.
        let sandbox = ["-o", "APT::Sandbox::User=root"];
        let patience = ["-o", "Acquire::http::Timeout=60"];
        let args = [&sandbox[..], &patience, &["-q", "download", name]].concat();
        commands::output("apt-get", args, scratch.path(), FETCH_LIMIT)?;
        let archive = file_in(scratch.path(), name)?;
        let unpacked = scratch.path().join("unpacked");
        let args = ["-x".as_ref(), archive.as_os_str(), unpacked.as_os_str()];
        commands::output("dpkg-deb", args, scratch.path(), UNPACK_LIMIT)?;
        match std::fs::rename(&unpacked, place) {
            // Another process may have been faster; its folder has the same content.
            Err(error) if !place.is_dir() => {
                Err(format!("cannot move it to {}: {error}", place.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Finds the file in `folder` whose name begins with `begin`.
pub(super) fn file_in(folder: &Path, begin: &str) -> Result<PathBuf, String> {
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with(begin))
        .map(|entry| entry.path())
        .ok_or_else(|| {
            format!(
                "there is no file {begin}* in {}; remove that package's folder, and it is fetched \
                 again",
                folder.display()
            )
        })
}
