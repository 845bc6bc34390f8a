//! The package's metadata for dpkg(1).

use std::process::Command;

use super::output;
use super::stage::Entry;

/// Version of the package: pagetide's version and Debian's revision.
pub(super) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "-1");
/// The only architecture on which pagetide runs.
pub(super) const ARCHITECTURE: &str = "amd64";
/// Debian requires an address, but there is none to write to.
const MAINTAINER: &str = "the pagetide authors <pagetide@localhost.invalid>";

const DESCRIPTION: &str = "\
working-set manager: sees how old each page is, takes back what is cold
 pagetide tells, for running, unmodified programs, how long ago each of their
 pages was last used, and lets the kernel put what is cold into compressed
 swap, from where it comes back as it is touched.
 .
 It reads the accessed bits of page tables by a BPF program of its own; it has
 no kernel module and needs no agent in the programs. The service, which shares
 a host among many tenants, is installed but not started.
";

/// Returns the file `control`.
pub(super) fn control(depends: &str, files: &[Entry]) -> Entry {
    // Debian counts blocks of 1 KiB for each file, and one for each folder.
    let sizes = files.iter().map(|file| file.bytes.len().div_ceil(1024));
    let installed: usize = sizes.sum::<usize>() + folders(files);
    let text = format!(
        "Package: pagetide\nVersion: {VERSION}\nArchitecture: {ARCHITECTURE}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {installed}\nDepends: {depends}\nSuggests: kmod, prometheus\nSection: admin\n\
         Priority: optional\nDescription: {DESCRIPTION}"
    );
    Entry::new("DEBIAN/control", text)
}

fn folders(files: &[Entry]) -> usize {
    let mut all: Vec<&str> = files
        .iter()
        .flat_map(|file| file.path.match_indices('/').map(|(at, _)| &file.path[..at]))
        .collect();
    all.sort_unstable();
    all.dedup();
    all.len()
}

/// Returns the changelog that Debian requires: one entry, of the commit that is packaged.
pub(super) fn changelog(epoch: u64) -> Result<String, String> {
    let time = format!("@{epoch}");
    let date = output(Command::new("date").args(["--utc", "--rfc-email", "--date", &time]))?;
    let date = String::from_utf8_lossy(&date);
    Ok(format!(
        "pagetide ({VERSION}) unstable; urgency=medium\n\n  * Built from its sources as they were at the time below.\n\n \
         -- {MAINTAINER}  {}\n",
        date.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_there_and_the_size_is_counted() {
        let files = [
            Entry::new("usr/bin/a", vec![0; 1025]),
            Entry::new("usr/share/b", vec![0; 1]),
        ];
        let text = String::from_utf8(control("libc6", &files).bytes).unwrap();
        // Blocks: two for the larger file, one for the other, and one each for usr, usr/bin and
        // usr/share.
        assert!(
            text.contains("\nInstalled-Size: 6\nDepends: libc6\n"),
            "{text}"
        );
        let body: Vec<&str> = DESCRIPTION.lines().skip(1).collect();
        assert!(
            body.iter()
                .all(|line| line.starts_with(' ') && line.len() <= 80)
        );
        assert!(text.ends_with(".\n"));
    }

    #[test]
    fn the_history_has_debians_form() {
        let text = changelog(1_700_000_000).unwrap();
        assert!(text.starts_with("pagetide (0."), "{text}");
        assert!(
            text.ends_with(">  Tue, 14 Nov 2023 22:13:20 +0000\n"),
            "{text}"
        );
    }
}
