//! Commands that the tests need from the system: they are installed if that is allowed, otherwise
//! the error names them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A command of the system, the Debian package that has it, and what needs it.
struct Need {
    command: &'static str,
    package: &'static str,
    why: &'static str,
}

const fn need(command: &'static str, package: &'static str, why: &'static str) -> Need {
    Need {
        command,
        package,
        why,
    }
}

const NEEDS: [Need; 22] = [
    need("cc", "gcc libc6-dev", "the test programs in C, and zstd"),
    need(
        "python3",
        "python3 python3-venv",
        "the CPython workload, the browser's driver, and the Python package",
    ),
    need("redis-server", "redis-server", "the redis workload"),
    need("sqlite3", "sqlite3", "the in-memory database workload"),
    need("fio", "fio", "the mmap engine with verify"),
    need("stress-ng", "stress-ng", "the vm methods with verify"),
    need("go", "golang-go", "the static Go workload"),
    need("java", "default-jdk-headless", "the Java heap workload"),
    need("node", "nodejs", "the node workload"),
    need("strace", "strace", "the test of a process that is traced"),
    need("setpriv", "util-linux", "the tests as another user"),
    need("setcap", "libcap2-bin", "the tests of poor hosts"),
    need(
        "promtool",
        "prometheus",
        "the scraper of metrics, its check, and the rules",
    ),
    need(
        "chromium",
        "chromium fonts-dejavu-core",
        "the dashboard in a browser",
    ),
    need("make", "make", "the compile workload"),
    need("pg_lsclusters", "postgresql", "the database workload"),
    need(
        "qemu-system-x86_64",
        "qemu-system-x86",
        "the guests with other kernels",
    ),
    need("xz", "xz-utils", "the modules of the guests' kernels"),
    need("dpkg-deb", "dpkg", "the packages of the guests' kernels"),
    need(
        "strip",
        "binutils",
        "the programs in the guests and in packages",
    ),
    need(
        "dpkg-shlibdeps",
        "dpkg-dev",
        "the test of what the package needs",
    ),
    need("systemd-analyze", "systemd", "the test of the unit"),
];

fn is_there(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
}

fn missing() -> Vec<&'static Need> {
    NEEDS
        .iter()
        .filter(|need| !is_there(need.command))
        .collect()
}

fn is_root() -> bool {
    // The owner of this process's entry in /proc is its effective user.
    std::fs::metadata("/proc/self").is_ok_and(|meta| {
        use std::os::unix::fs::MetadataExt;
        meta.uid() == 0
    })
}

fn apt(args: &[&str]) -> bool {
    println!("apt-get {}", args.join(" "));
    Command::new("apt-get")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Checks that these commands are installed, and installs nothing.
///
/// # Errors
/// If some are missing: their names, their packages and what needs them.
pub(crate) fn require(commands: &[&str]) -> Result<(), String> {
    let mut missing = missing();
    missing.retain(|need| commands.contains(&need.command));
    if missing.is_empty() {
        Ok(())
    } else {
        Err(describe(&missing))
    }
}

/// Python packages in a folder of the target directory, where the tests find them. Debian has other
/// versions of them or none.
struct Venv {
    folder: &'static str,
    packages: &'static [&'static str],
    why: &'static str,
}

const VENVS: [Venv; 2] = [
    Venv {
        folder: "browser",
        packages: &["playwright==1.65.2"],
        why: "the dashboard in a browser",
    },
    Venv {
        folder: "python",
        packages: &[
            "maturin==1.16.0",
            "numpy==2.4.6",
            "pyarrow==26.0.1",
            "ray==2.60.0",
            "tqdm==4.67.1",
        ],
        why: "the Python package",
    },
];

impl Venv {
    fn path(&self) -> PathBuf {
        crate::e2e::target().join(self.folder)
    }

    /// Returns whether all packages are installed, in these versions.
    fn is_there(&self) -> bool {
        let asks = "import sys; from importlib.metadata import version
sys.exit(any(version(name) != wanted for name, wanted in (word.split('==') for word in sys.argv[1:])))";
        let mut requested = Command::new(self.path().join("bin/python"));
        requested.args(["-c", asks]).args(self.packages);
        requested
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// Installs the packages if they are missing.
    ///
    /// # Errors
    /// If they cannot be installed.
    fn ensure(&self) -> Result<(), String> {
        if self.is_there() {
            return Ok(());
        }
        let (folder, names) = (self.path(), self.packages.join(" "));
        println!("{names} into {}", folder.display());
        let mut made = Command::new("python3");
        let is_made = made.args(["-m", "venv"]).arg(&folder).status();
        let mut install = Command::new(folder.join("bin/python"));
        install.args(["-m", "pip", "install", "--quiet"]);
        install
            .arg("--disable-pip-version-check")
            .args(self.packages);
        let is_installed = is_made.is_ok_and(|status| status.success())
            && install.status().is_ok_and(|status| status.success());
        match is_installed && self.is_there() {
            true => Ok(()),
            false => Err(format!(
                "missing: {names} in {} (for {})\ninstall it: python3 -m venv (on Debian python3-venv), and pip",
                folder.display(),
                self.why
            )),
        }
    }
}

/// Installs what is missing, if that is allowed.
///
/// # Errors
/// If some are still missing: the names of the packages, and what needs them.
pub(crate) fn ensure() -> Result<(), String> {
    ensure_packages()?;
    ensure_venvs()
}

/// Installs the Python packages. Only tests need them, so builds do not wait for them.
///
/// # Errors
/// If some cannot be installed.
pub(crate) fn ensure_venvs() -> Result<(), String> {
    VENVS.iter().try_for_each(Venv::ensure)
}

/// Installs the missing commands, if that is allowed.
///
/// # Errors
/// If some are still missing: their names, their packages and what needs them.
pub(crate) fn ensure_packages() -> Result<(), String> {
    if missing().is_empty() {
        return Ok(());
    }
    if is_root() && Path::new("/usr/bin/apt-get").exists() {
        let packages: Vec<&str> = missing()
            .iter()
            .flat_map(|need| need.package.split(' '))
            .collect();
        apt(&["update", "-qq"]);
        let mut args = vec!["install", "-y", "-qq", "--no-install-recommends"];
        args.extend(&packages);
        apt(&args);
    }
    let still = missing();
    if still.is_empty() {
        Ok(())
    } else {
        Err(describe(&still))
    }
}

fn describe(missing: &[&Need]) -> String {
    let mut text = String::from("missing commands:");
    for need in missing {
        text.push_str(&format!("\n  {} (for {})", need.command, need.why));
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    text.push_str(&format!(
        "\ninstall them, on Debian: apt-get install {}",
        packages.join(" ")
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_command_is_named_with_its_package() {
        let absent = need("no-such-command-at-all", "some-package", "a test");
        assert!(!is_there(absent.command));
        let text = describe(&[&absent]);
        assert!(text.contains("no-such-command-at-all (for a test)"));
        assert!(text.contains("apt-get install some-package"));
    }

    #[test]
    fn finds_the_shell() {
        assert!(is_there("sh"));
    }
}
