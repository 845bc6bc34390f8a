//! What the tests need from the system: it is installed if that is allowed, otherwise the error
//! names it.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::programs::target;

/// Commands of the system, one a line: the command, the Debian packages that have it, and what
/// needs it.
const NEEDS: &str = include_str!("../needs.txt");

/// Python packages in folders of the target directory, where the tests find them. Debian has other
/// versions of them or none.
const VENVS: [(&str, &str); 2] = [
    ("browser", "playwright==1.65.2"),
    (
        "python",
        "maturin==1.16.0 numpy==2.4.6 pyarrow==26.0.1 ray==2.60.0 tqdm==4.67.1",
    ),
];

/// A command of the system, the Debian packages that have it, and what needs it.
#[derive(Clone, Copy)]
struct Need {
    command: &'static str,
    packages: &'static str,
    why: &'static str,
}

impl Need {
    fn of_line(line: &'static str) -> Option<Need> {
        let (command, rest) = line.split_once(" | ")?;
        let (packages, why) = rest.split_once(" | ")?;
        Some(Need {
            command,
            packages,
            why,
        })
    }

    fn is_there(&self) -> bool {
        // Users other than root may have no folders of system programs in their path.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        folders.any(|folder| folder.join(self.command).is_file())
    }
}

fn missing() -> Vec<Need> {
    let mut missing: Vec<Need> = NEEDS.lines().filter_map(Need::of_line).collect();
    missing.retain(|need| !need.is_there());
    missing
}

/// Returns an error that names the missing commands, if any.
fn none(missing: &[Need]) -> Result<(), String> {
    if missing.is_empty() {
        return Ok(());
    }
    let commands = missing
        .iter()
        .map(|need| format!("\n  {} (for {})", need.command, need.why));
    let packages: Vec<&str> = missing.iter().map(|need| need.packages).collect();
    Err(format!(
        "missing commands:{}\ninstall them, on Debian: apt-get install {}",
        commands.collect::<String>(),
        packages.join(" ")
    ))
}

/// Checks that these commands are installed, and installs nothing.
///
/// # Errors
/// If some are missing: their names, their packages and what needs them.
pub(crate) fn require(commands: &[&str]) -> Result<(), String> {
    let mut missing = missing();
    missing.retain(|need| commands.contains(&need.command));
    none(&missing)
}

/// Installs what is missing, if that is allowed.
///
/// # Errors
/// If some are still missing: the names of the packages, and what needs them.
pub(crate) fn ensure() -> Result<(), String> {
    ensure_packages()?;
    ensure_venvs()
}

/// Installs the missing commands, if that is allowed.
///
/// # Errors
/// If some are still missing: their names, their packages and what needs them.
pub(crate) fn ensure_packages() -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;

    let missing = missing();
    // The owner of this process's entry in /proc is its effective user.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !missing.is_empty() && is_root && Path::new("/usr/bin/apt-get").exists() {
        let packages = missing.iter().flat_map(|need| need.packages.split(' '));
        let install = ["install", "-y", "-qq", "--no-install-recommends"];
        apt(&["update", "-qq"]);
        apt(&install.into_iter().chain(packages).collect::<Vec<_>>());
    }
    none(&self::missing())
}

/// Runs apt-get(8). If it fails, the commands are still missing.
fn apt(args: &[&str]) {
    println!("apt-get {}", args.join(" "));
    let mut apt = Command::new("apt-get");
    apt.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    let _ = apt.stdin(Stdio::null()).status();
}

/// Installs the Python packages. Only tests need them, so builds do not wait for them.
///
/// # Errors
/// If some cannot be installed.
pub(crate) fn ensure_venvs() -> Result<(), String> {
    VENVS.iter().try_for_each(|(folder, packages)| {
        let folder = target().join(folder);
        let python = folder.join("bin/python");
        // pip returns at once, and needs no network, if these versions are installed.
        let install = || {
            let mut pip = Command::new(&python);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            let status = pip.args(packages.split(' ')).status();
            status.is_ok_and(|status| status.success())
        };
        let make = || {
            let status = Command::new("python3").args(["-m", "venv"]).arg(&folder).status();
            status.is_ok_and(|status| status.success())
        };
        match (python.exists() || make()) && install() {
            true => Ok(()),
            false => Err(format!(
                "missing: {packages} in {}\ninstall it: python3 -m venv (on Debian python3-venv), and pip",
                folder.display()
            )),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_command_is_named_with_its_packages() {
        let absent = Need::of_line("no-such-command | package-a package-b | a test");
        let absent = absent.expect("it has three parts");
        assert!(!absent.is_there());
        let text = none(&[absent]).expect_err("it is missing");
        assert!(text.contains("no-such-command (for a test)"));
        assert!(text.contains("apt-get install package-a package-b"));
        let shell = Need::of_line("sh | dash | all").expect("it has three parts");
        assert!(shell.is_there());
        assert!(NEEDS.lines().all(|line| Need::of_line(line).is_some()));
    }
}
