//! A `pagetide serve` for one test, with its own mount point and control groups.
//!
//! After the test all of it is removed, and all processes in its groups are killed: only the test
//! put processes there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::guard::{Outcome, Run, Running, send};
use crate::idle_program::IdleProgram;
use crate::memcg::MemoryGroup;
use crate::temp::TempDir;
use crate::{pagetide, programs, wait};

/// Mount point of the version 1 hierarchy that counts memory.
const GROUPS: &str = "/sys/fs/cgroup/memory";
/// Time limit for `serve` to start or to end; each takes much less.
const LIMIT: Duration = Duration::from_secs(30);
/// Time limit for a scan to find the memory of a tenant; it takes much less.
const KNOWN: Duration = Duration::from_secs(60);

/// A Python script that polls the pressure file in its first argument. Like the kernel's pressure
/// files, the file must be ready until it is first read, and after that at each event.
pub const POLL_SCRIPT: &str = "
import select, sys
file = open(sys.argv[1])
poll = select.poll()
poll.register(file, select.POLLPRI)
print('at first', bool(poll.poll(0)), flush=True)
file.read()
print('read', bool(poll.poll(300)), flush=True)
print('woken', bool(poll.poll(40000)), flush=True)
";

/// A `pagetide serve` with its tenants.
#[derive(Debug)]
pub struct Tree {
    /// The running `serve`; `None` after it was killed or has ended.
    serve: Option<Running>,
    /// Where `serve` mounts its files.
    mount: TempDir,
    /// Path of the tenants' group, relative to the hierarchy.
    root: String,
    /// Further options of `serve`.
    options: Vec<String>,
    /// A shell command that runs before `serve`, in a mount namespace of their own; empty for none.
    mounts: String,
}

/// Writes a configuration by which `serve` reclaims, each second and from every tenant, the memory
/// that was not accessed for a second. Returns the file's path.
///
/// # Panics
/// If it cannot be written.
#[must_use]
pub fn configuration_reclaiming_cold(folder: &TempDir) -> String {
    let policy = "policy = { by = \"cold-age\", older-than = \"1s\", every = \"1s\" }\n";
    configuration(folder, &format!("age-every = \"500ms\"\n{policy}"))
}

/// Writes `text` as the configuration file in `folder`, replacing an earlier one; returns the
/// file's path.
///
/// # Panics
/// If it cannot be written.
pub fn configuration(folder: &TempDir, text: &str) -> String {
    let file = folder.file("pagetide.toml");
    std::fs::write(&file, text).expect("it can be written");
    file
}

/// Starts an [`IdleProgram`] of `mib` MiB in a tenant, and waits until a scan has found all of its
/// memory.
///
/// # Panics
/// If the memory is not found in time.
#[must_use]
pub fn start_scanned(tree: &Tree, tenant: &str, mib: u64) -> IdleProgram {
    let idle_program = IdleProgram::start(tree.inside(tenant), mib);
    wait::until("its pages are known", KNOWN, || {
        tree.line(&format!("{tenant}/memory.stat"), "anon") >= mib << 20
    });
    idle_program
}

/// Starts a program of `mib` MiB in a tenant, and waits until it has filled its memory. The program
/// touches each page once in `every`.
///
/// # Panics
/// If it is not ready in time.
#[must_use]
pub fn start_busy(tree: &Tree, tenant: &str, mib: u64, every: Duration) -> Running {
    let per_second = u128::from(mib * 256) * 1000 / every.as_millis().max(1);
    // The program ends with its standard input.
    let program = programs::c("paced");
    let words = format!("sleep 36000 | exec {program} loop {mib} {per_second} 36000");
    let own = ["sh", "-c", &words].map(str::to_owned);
    let running = Run::new(tree.inside(tenant).into_iter().chain(own)).start();
    wait::until("it is filled", KNOWN, || running.stdout().contains("ready"));
    running
}

impl Tree {
    /// Starts `pagetide serve OPTIONS` with its own mount point and tenants. Groups outside of its
    /// tenants are not scanned.
    ///
    /// # Panics
    /// If it does not begin to serve in time.
    #[must_use]
    pub fn serve(options: &[&str]) -> Tree {
        Tree::serve_after("", options)
    }

    /// Like [`Tree::serve`], but `serve` has a mount namespace of its own, in which the shell
    /// command `mounts` runs before it.
    ///
    /// # Panics
    /// If it does not begin to serve in time.
    #[must_use]
    pub fn serve_after(mounts: &str, options: &[&str]) -> Tree {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = format!("pagetide-e2e-tree-{}-{number}", std::process::id());
        // The machine's control groups outside of the tenants are not scanned.
        let options = ["--host", "none"].iter().chain(options);
        let options = options.map(|word| (*word).to_owned()).collect();
        Tree::start_with_root(root, options, mounts)
    }

    /// Like [`Tree::serve`], but the tenants are below `host`, and `serve` takes `host` for the
    /// whole machine and scans it.
    ///
    /// # Panics
    /// If it does not begin to serve in time.
    #[must_use]
    pub fn serve_host(host: &MemoryGroup, options: &[&str]) -> Tree {
        Tree::serve_host_after("", host, options)
    }

    /// Like [`Tree::serve_host`], but `serve` has a mount namespace of its own, in which the shell
    /// command `mounts` runs before it.
    ///
    /// # Panics
    /// If it does not begin to serve in time.
    #[must_use]
    pub fn serve_host_after(mounts: &str, host: &MemoryGroup, options: &[&str]) -> Tree {
        let name = host.name();
        let own = ["--host".to_owned(), name.clone()];
        let options = options.iter().map(|word| (*word).to_owned());
        let options = own.into_iter().chain(options).collect();
        Tree::start_with_root(format!("{name}/tree"), options, mounts)
    }

    /// Like [`Tree::serve_after`], but the tenants are below `above`, which `serve` does not scan.
    ///
    /// # Panics
    /// If it does not begin to serve in time.
    #[must_use]
    pub fn serve_below(mounts: &str, above: &MemoryGroup, options: &[&str]) -> Tree {
        let options = ["--host", "none"].iter().chain(options);
        let options = options.map(|word| (*word).to_owned()).collect();
        Tree::start_with_root(format!("{}/tree", above.name()), options, mounts)
    }

    /// Starts `serve` with its tenants in the group `root`.
    fn start_with_root(root: String, options: Vec<String>, mounts: &str) -> Tree {
        let mut tree = Tree {
            serve: None,
            mount: TempDir::new(),
            root,
            options,
            mounts: mounts.to_owned(),
        };
        tree.start();
        tree
    }

    /// Anonymous memory of a tenant, bytes, in the youngest bin of its page ages.
    ///
    /// # Panics
    /// If the file of page ages cannot be read.
    #[must_use]
    pub fn youngest_bytes(&self, tenant: &str) -> u64 {
        let text = self.read(&format!("{tenant}/memory.workingset.page_age"));
        let mut lines = text.lines().filter(|line| !line.starts_with('N'));
        let anon = lines.next().and_then(|line| line.split(' ').nth(1));
        let bytes = anon.and_then(|word| word.strip_prefix("anon="));
        bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
    }

    /// Waits until `serve` ends on its own.
    ///
    /// # Panics
    /// If it had ended before, or if `limit` passes first.
    pub fn wait(&mut self, limit: Duration) -> Outcome {
        let serve = self.serve.take().expect("it runs");
        serve.wait(limit)
    }

    /// Path of the tenants' group, as the option `--root` takes it.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Makes `serve` read its configuration again (SIGHUP).
    ///
    /// # Panics
    /// If `serve` does not run.
    pub fn reload(&self) {
        self.serve.as_ref().expect("it runs").signal(Signal::HUP);
    }

    /// What `serve` has printed to its standard output.
    ///
    /// # Panics
    /// If `serve` does not run.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.serve.as_ref().expect("it runs").stdout()
    }

    /// What `serve` has printed to its standard error.
    ///
    /// # Panics
    /// If `serve` does not run.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.serve.as_ref().expect("it runs").stderr()
    }

    /// Starts `serve` again after [`Tree::kill`].
    ///
    /// # Panics
    /// If it does not begin to serve in time.
    pub fn start(&mut self) {
        self.start_by(&pagetide::binary());
    }

    /// Like [`Tree::start`], with another `pagetide` binary.
    ///
    /// # Panics
    /// If it does not begin to serve in time.
    pub fn start_by(&mut self, program: &str) {
        let mount = self.mount.path().display().to_string();
        let own = [program, "serve", "--mount", &mount, "--root", &self.root];
        let options = self.options.iter().map(String::as_str);
        let script = format!("{} && exec \"$@\"", self.mounts);
        let wrap = ["unshare", "--mount", "--propagation", "private"];
        let wrap = wrap.into_iter().chain(["sh", "-c", &script, "sh"]);
        let wrap = wrap.filter(|_| !self.mounts.is_empty());
        let mut serve = Run::new(wrap.chain(own).chain(options)).start();
        wait::until("it serves", LIMIT, || {
            let ended = serve.ended();
            assert!(ended.is_none(), "{ended:?}: {}", serve.stderr());
            serve.stdout().contains("serving")
        });
        self.serve = Some(serve);
    }

    /// Kills `serve` (SIGKILL) and waits for its end.
    pub fn kill(&mut self) {
        if let Some(mut serve) = self.serve.take() {
            serve.kill_and_reap();
        }
    }

    /// Ends `serve` by SIGTERM; returns what it has printed to its standard output.
    ///
    /// # Panics
    /// If it fails or does not end in time.
    pub fn end(&mut self) -> String {
        let serve = self.serve.take().expect("it runs");
        serve.signal(Signal::TERM);
        let outcome = serve.wait(LIMIT);
        assert!(outcome.status.success(), "{}", outcome.stderr);
        outcome.stdout
    }

    /// Pid of `serve`.
    ///
    /// # Panics
    /// If `serve` does not run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.serve.as_ref().expect("it runs").pid()
    }

    /// Returns the path of a file or directory below the mount point of `serve`.
    #[must_use]
    pub fn at(&self, path: &str) -> PathBuf {
        let mount = self.mount.path();
        match self.mounts.is_empty() {
            true => mount.join(path),
            // The mount is visible in the mount namespace of `serve` alone.
            false => {
                let root = PathBuf::from(format!("/proc/{}/root", self.pid()));
                let below = mount.strip_prefix("/").unwrap_or(mount);
                root.join(below).join(path)
            }
        }
    }

    /// Returns the directory in the kernel's cgroup file system of the tenant at `path`, which is
    /// relative to the mount point of `serve`.
    #[must_use]
    pub fn group(&self, path: &str) -> PathBuf {
        Path::new(GROUPS).join(&self.root).join(path)
    }

    /// Makes a tenant, by a directory below the mount point.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn make(&self, name: &str) {
        let made = std::fs::create_dir(self.at(name));
        made.unwrap_or_else(|error| panic!("mkdir {name}: {error}"));
    }

    /// Reads a file below the mount point.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn read(&self, file: &str) -> String {
        let text = std::fs::read_to_string(self.at(file));
        text.unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Writes to a file below the mount point.
    ///
    /// # Panics
    /// If the write is refused.
    pub fn write(&self, file: &str, text: &str) {
        let written = self.try_write(file, text);
        written.unwrap_or_else(|error| panic!("{text:?} > {file}: {error}"));
    }

    /// Writes to a file below the mount point, which may be refused.
    ///
    /// # Errors
    /// The error number, if the write is refused.
    pub fn try_write(&self, file: &str, text: &str) -> Result<(), i32> {
        let written = std::fs::write(self.at(file), text);
        written.map_err(|error| error.raw_os_error().unwrap_or(0))
    }

    /// Reads a file below the mount point that holds one number.
    ///
    /// # Panics
    /// If it holds no number.
    #[must_use]
    pub fn number(&self, file: &str) -> u64 {
        let text = self.read(file);
        let number = text.trim().parse();
        number.unwrap_or_else(|_| panic!("{file}: {text:?}"))
    }

    /// Number in the line `name` of the kernel's memory.stat for a tenant's control group.
    ///
    /// # Panics
    /// If there is no such line.
    #[must_use]
    pub fn kernel_stat(&self, tenant: &str, name: &str) -> u64 {
        let text = std::fs::read_to_string(self.group(tenant).join("memory.stat"));
        let text = text.expect("the kernel's");
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(found, _)| *found == name);
        found
            .and_then(|(_, bytes)| bytes.parse().ok())
            .expect("a number")
    }

    /// Number in the line `name` of a file below the mount point; 0 if there is no such line.
    #[must_use]
    pub fn line(&self, file: &str, name: &str) -> u64 {
        let text = self.read(file);
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(found, _)| *found == name);
        found
            .and_then(|(_, number)| number.parse().ok())
            .unwrap_or(0)
    }

    /// The words of a shell command that enters a tenant and then runs the command in the words
    /// that follow. All memory of that program belongs to the tenant.
    #[must_use]
    pub fn inside(&self, name: &str) -> Vec<String> {
        let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        let at = self.at(name).display().to_string();
        ["sh", "-c", script, &at].map(str::to_owned).to_vec()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.kill();
        // A killed `serve` does not unmount its files.
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.mount.path())
            .output();
        remove_groups(&self.group(""));
    }
}

/// The control groups of a `serve` that a test starts on its own. `Drop` removes them and kills the
/// processes in them, so declare this before the `serve`.
#[derive(Debug)]
pub struct Groups(PathBuf);

impl Groups {
    /// The groups of `serve --root NAME`; they need not exist yet.
    #[must_use]
    pub fn named(name: &str) -> Groups {
        Groups(Path::new(GROUPS).join(name.trim_start_matches('/')))
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        remove_groups(&self.0);
    }
}

/// Removes a group and all groups below it, and kills the processes in them.
fn remove_groups(root: &Path) {
    let mut groups = vec![root.to_path_buf()];
    let mut at = 0;
    while at < groups.len() {
        let below = std::fs::read_dir(&groups[at])
            .into_iter()
            .flatten()
            .flatten();
        groups.extend(below.map(|entry| entry.path()).filter(|path| path.is_dir()));
        at += 1;
    }
    for group in groups.iter().rev() {
        let pids = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.lines().filter_map(|pid| pid.parse().ok()) {
            send(pid, Signal::KILL);
        }
        wait::poll(LIMIT, || {
            let done = std::fs::remove_dir(group);
            (done.is_ok() || !group.exists()).then_some(())
        });
    }
}
