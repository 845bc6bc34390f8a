//! The .deb of the binary under test: what it needs, what is in it, and its life in a clean root.
//!
//! The package is built once for all tests here. The root is made of this machine's own packages (`e2e::root`), which takes a second and fetches nothing.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use e2e::guard::Run;
use e2e::packages::{deb, done, lives};
use e2e::root::Root;
use e2e::temp::{TempDir, serial, target_dir};

fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| deb(&target_dir().join("e2e/package")))
}

/// A package, and what is in it.
struct Unpacked {
    folder: TempDir,
}

impl Unpacked {
    fn new() -> Unpacked {
        let unpacked = Unpacked {
            folder: TempDir::public(),
        };
        let deb = built().to_string_lossy();
        let _ = done(&Run::new(["dpkg-deb", "-x", &deb, &unpacked.at("")]));
        let _ = done(&Run::new(["dpkg-deb", "-e", &deb, &unpacked.at("control")]));
        unpacked
    }

    fn at(&self, path: &str) -> String {
        self.folder.file("unpacked") + "/" + path
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The names in a folder.
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
fn in_a_clean_root_it_serves_and_leaves_nothing() {
    let _serial = serial();
    let root = Root::debian(&["apt"]);
    lives(&root, built());
}

#[test]
fn it_is_the_same_when_it_is_built_again() {
    let _serial = serial();
    let other = TempDir::public();
    let (one, other) = (built(), deb(other.path()));
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
fn what_is_in_it_fits_the_program_and_debian() {
    let _serial = serial();
    let package = Unpacked::new();
    // Of each page that another one names there is one, and each has its head.
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
    // A shell takes the completions.
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
    // Whoever is told of by the tools that Debian has for it agrees.
    let depends = depends(&package);
    let fields = package.read("control/control");
    assert!(
        fields.contains(&format!("\nDepends: {depends}\n")),
        "{depends}: {fields}"
    );
    keeps_nothing(&package);
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

/// What dpkg keeps of a package that is removed, if there is any.
fn keeps_nothing(package: &Unpacked) {
    let about = package.names("control");
    assert!(!about.contains("conffiles") && !about.contains("postrm"));
}

/// What dpkg-shlibdeps(1) finds the program to need, sorted by name as ours is.
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
    let told = done(&Run::new(["sh", "-c", &script])).stdout;
    let line = told.trim().trim_start_matches("shlibs:Depends=");
    let mut all: Vec<&str> = line.split(", ").collect();
    all.sort_unstable();
    all.join(", ")
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let _serial = serial();
    let package = Unpacked::new();
    let unit = package.at("lib/systemd/system/pagetide.service");
    assert!(Path::new(&unit).is_file());
    // It looks for the program and for the manual, so they are laid over this machine's for that.
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
    let told = verify(&unit);
    assert_eq!((told.stdout.as_str(), told.stderr.as_str()), ("", ""));
    // It can find something.
    let broken = package.read("lib/systemd/system/pagetide.service");
    let broken = broken.replace("Type=notify", "Type=notice");
    let other = package.folder.file("broken.service");
    std::fs::write(&other, broken).expect("a file can be written");
    assert!(verify(&other).stderr.contains("notice"));
}
