//! The .deb with the binary under test: its dependencies, its contents, and its installation, use
//! and removal in a clean root.
//!
//! All tests here share one build of the package. The root is made of this machine's own packages
//! (`e2e::root`), which takes a second and downloads nothing.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use e2e::guard::Run;
use e2e::packages::{check_life_cycle, deb, done};
use e2e::root::Root;
use e2e::temp::{TempDir, serial, target_dir};

/// Path of the package, which is built at the first call.
fn package_path() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| deb(&target_dir().join("e2e/package")))
}

/// The package, and a directory with its unpacked contents.
struct Unpacked {
    folder: TempDir,
}

impl Unpacked {
    fn new() -> Unpacked {
        let unpacked = Unpacked {
            folder: TempDir::public(),
        };
        let deb = package_path().to_string_lossy();
        let _ = done(&Run::new(["dpkg-deb", "-x", &deb, &unpacked.at("")]));
        let _ = done(&Run::new(["dpkg-deb", "-e", &deb, &unpacked.at("control")]));
        unpacked
    }

    /// Absolute path of a file in the unpacked package.
    fn at(&self, path: &str) -> String {
        self.folder.file("unpacked") + "/" + path
    }

    /// Contents of a file in the unpacked package.
    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// File names in a directory of the unpacked package.
    fn names(&self, path: &str) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.at(path));
        let entries = entries.unwrap_or_else(|error| panic!("{path}: {error}"));
        let names = entries.flatten().map(|entry| entry.file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }
}

#[test]
fn the_package_serves_in_a_clean_root_and_its_removal_leaves_nothing() {
    let _serial = serial();
    let root = Root::debian(&["apt"]);
    check_life_cycle(&root, package_path());
}

#[test]
fn a_second_build_of_the_package_is_identical() {
    let _serial = serial();
    let other = TempDir::public();
    let (one, other) = (package_path(), deb(other.path()));
    let bytes = std::fs::read(one).expect("it was built");
    assert!(Some(bytes) == std::fs::read(&other).ok());
    let listed = done(&Run::new([
        "dpkg-deb",
        "--contents",
        &one.to_string_lossy(),
    ]));
    for line in listed.stdout.lines() {
        assert!(line.contains(" root/root "), "{line}");
        let mode = &line[..10];
        assert!(
            ["drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x"].contains(&mode),
            "{line}"
        );
    }
}

#[test]
fn the_contents_of_the_package_fit_the_program_and_debian() {
    let _serial = serial();
    let package = Unpacked::new();
    // Every manual page that another manual page names exists, and each page has a header.
    let pages = package.names("usr/share/man/man1");
    for page in &pages {
        let file = package.at("usr/share/man/man1/") + page;
        let text = done(&Run::new(["gzip", "-dc", &file])).stdout;
        assert!(text.contains("\n.TH PAGETIDE"), "{page}");
        for (at, _) in text.match_indices("(1)") {
            let word = |c: char| c.is_alphanumeric() || matches!(c, '-' | '\\');
            let name = text[..at].rsplit(|c| !word(c)).next().unwrap_or_default();
            let name = name.replace('\\', "");
            let is_ours = name.starts_with("pagetide");
            assert!(
                !is_ours || pages.contains(&format!("{name}.1.gz")),
                "{page} names {name}"
            );
        }
    }
    for page in [
        "pagetide.1.gz",
        "pagetide-serve.1.gz",
        "pagetide-swap-on.1.gz",
    ] {
        assert!(pages.contains(page), "{pages:?}");
    }
    // A shell can load the completions.
    let script = format!(
        "source {} && complete -p pagetide",
        package.at("usr/share/bash-completion/completions/pagetide")
    );
    let _ = done(&Run::new(["bash", "-c", &script]));
    for file in [
        "zsh/vendor-completions/_pagetide",
        "fish/vendor_completions.d/pagetide.fish",
    ] {
        assert!(
            package
                .read(&format!("usr/share/{file}"))
                .contains("evict-older-than"),
            "{file}"
        );
    }
    // Debian's own tool for dependencies finds those that the package names.
    let depends = depends(&package);
    let fields = package.read("control/control");
    assert!(
        fields.contains(&format!("\nDepends: {depends}\n")),
        "{depends}: {fields}"
    );
    check_keeps_nothing(&package);
    for part in [
        "copyright",
        "changelog.Debian.gz",
        "third-party.txt.gz",
        "examples",
    ] {
        assert!(
            package.names("usr/share/doc/pagetide").contains(part),
            "{part}"
        );
    }
    let licences = package.at("usr/share/doc/pagetide/third-party.txt.gz");
    let licences = done(&Run::new(["gzip", "-dc", &licences])).stdout;
    for part in ["\nclap 4.", "\nserde 1.", "\nzstd-sys 2.", "[1]"] {
        assert!(licences.contains(part), "{part}");
    }
}

/// Checks that dpkg keeps no files of the removed package: it has no conffiles.
fn check_keeps_nothing(package: &Unpacked) {
    let about = package.names("control");
    assert!(!about.contains("conffiles") && !about.contains("postrm"));
}

/// The program's dependencies as dpkg-shlibdeps(1) finds them, sorted by name as in our package.
fn depends(package: &Unpacked) -> String {
    let folder = TempDir::new();
    std::fs::create_dir(folder.path().join("debian")).expect("a folder can be made");
    let control = "Source: pagetide\n\nPackage: pagetide\nArchitecture: amd64\n";
    std::fs::write(folder.path().join("debian/control"), control).expect("a file can be written");
    let script = format!(
        "cd {} && dpkg-shlibdeps -O {}",
        folder.path().display(),
        package.at("usr/bin/pagetide")
    );
    let reported = done(&Run::new(["sh", "-c", &script])).stdout;
    let line = reported.trim().trim_start_matches("shlibs:Depends=");
    let mut all: Vec<&str> = line.split(", ").collect();
    all.sort_unstable();
    all.join(", ")
}

#[test]
fn systemd_accepts_the_unit() {
    let _serial = serial();
    let package = Unpacked::new();
    let unit = package.at("lib/systemd/system/pagetide.service");
    assert!(Path::new(&unit).is_file());
    // systemd-analyze needs the program and the manual in place, so an overlay mounts them over
    // this machine's files.
    let script =
        "mount -t overlay -o lowerdir=\"$0\":/usr none /usr && exec systemd-analyze verify \"$1\"";
    let verify = |unit: &str| {
        let usr = package.at("usr");
        let wrap = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
        ];
        done(&Run::new(wrap.iter().copied().chain([usr.as_str(), unit])))
    };
    let reported = verify(&unit);
    assert_eq!(
        (reported.stdout.as_str(), reported.stderr.as_str()),
        ("", "")
    );
    // The check must be able to fail: systemd-analyze finds an error in a broken unit.
    let broken = package.read("lib/systemd/system/pagetide.service");
    let broken = broken.replace("Type=notify", "Type=notice");
    let other = package.folder.file("broken.service");
    std::fs::write(&other, broken).expect("a file can be written");
    assert!(verify(&other).stderr.contains("notice"));
}
