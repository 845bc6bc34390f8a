//! A `pagetide serve` of a test's own: its mount, its control groups, and what it said.
//!
//! All of it is gone after its test, who is in its groups included: nobody but the test put anyone there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::guard::{Outcome, Run, Running, send};
use crate::memcg::MemoryGroup;
use crate::sleeper::Sleeper;
use crate::temp::TempDir;
use crate::{pagetide, wait};

/// Where version 1's hierarchy that counts memory is mounted.
const GROUPS: &str = "/sys/fs/cgroup/memory";
/// It begins, and ends, in much less.
const LIMIT: Duration = Duration::from_secs(30);
/// A look finds what is in a tenant in much less.
const KNOWN: Duration = Duration::from_secs(60);

/// As on the kernel's own files: who has not read yet is ready, who has waits for pressure.
pub const WAITS: &str = "
import select, sys
file = open(sys.argv[1])
poll = select.poll()
poll.register(file, select.POLLPRI)
print('at first', bool(poll.poll(0)), flush=True)
file.read()
print('read', bool(poll.poll(300)), flush=True)
print('woken', bool(poll.poll(40000)), flush=True)
";

/// A tree of tenants.
#[derive(Debug)]
pub struct Tree {
    serve: Option<Running>,
    mount: TempDir,
    root: String,
    options: Vec<String>,
}

/// A configuration by which every tenant gives what it has not used for a second, each second.
///
/// # Panics
/// If it cannot be written.
#[must_use]
pub fn gives_what_is_cold(folder: &TempDir) -> String {
    let policy = "policy = { by = \"cold-age\", older-than = \"1s\", every = \"1s\" }\n";
    configuration(folder, &format!("age-every = \"500ms\"\n{policy}"))
}

/// A configuration with this text, in place of one that is there; its file.
///
/// # Panics
/// If it cannot be written.
pub fn configuration(folder: &TempDir, text: &str) -> String {
    let file = folder.file("pagetide.toml");
    std::fs::write(&file, text).expect("it can be written");
    file
}

/// A sleeper of so many MiB in a tenant, when a look has found all of it.
///
/// # Panics
/// If it is not found in time.
#[must_use]
pub fn known(tree: &Tree, tenant: &str, mib: u64) -> Sleeper {
    let sleeper = Sleeper::start(tree.inside(tenant), mib);
    wait::until("its pages are known", KNOWN, || {
        tree.line(&format!("{tenant}/memory.stat"), "anon") >= mib << 20
    });
    sleeper
}

impl Tree {
    /// `pagetide serve OPTIONS`, mounted.
    ///
    /// # Panics
    /// If it does not begin in time.
    #[must_use]
    pub fn serve(options: &[&str]) -> Tree {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = format!("pagetide-e2e-tree-{}-{number}", std::process::id());
        // This machine's own groups are not ours to look at.
        let options = ["--host", "none"].iter().chain(options);
        Tree::begun(root, options.map(|word| (*word).to_owned()).collect())
    }

    /// The same below a group of a test's, whose groups are the host's own.
    ///
    /// # Panics
    /// If it does not begin in time.
    #[must_use]
    pub fn serve_host(host: &MemoryGroup, options: &[&str]) -> Tree {
        let name = host.name();
        let own = ["--host".to_owned(), name.clone()];
        let options = options.iter().map(|word| (*word).to_owned());
        Tree::begun(
            format!("{name}/tree"),
            own.into_iter().chain(options).collect(),
        )
    }

    fn begun(root: String, options: Vec<String>) -> Tree {
        let mut tree = Tree {
            serve: None,
            mount: TempDir::new(),
            root,
            options,
        };
        tree.start();
        tree
    }

    /// Anonymous bytes of a tenant in the youngest bin of its page ages.
    ///
    /// # Panics
    /// If its file cannot be read.
    #[must_use]
    pub fn youngest(&self, tenant: &str) -> u64 {
        let text = self.read(&format!("{tenant}/memory.workingset.page_age"));
        let mut lines = text.lines().filter(|line| !line.starts_with('N'));
        let anon = lines.next().and_then(|line| line.split(' ').nth(1));
        let bytes = anon.and_then(|word| word.strip_prefix("anon="));
        bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
    }

    /// Waits until it has ended by itself.
    ///
    /// # Panics
    /// If it has ended before, or does not in time.
    pub fn wait(&mut self, limit: Duration) -> Outcome {
        let serve = self.serve.take().expect("it runs");
        serve.wait(limit)
    }

    /// The root of its tenants, as `--root` has it.
    #[must_use]
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Tells it to read its configuration once more.
    ///
    /// # Panics
    /// If it does not run.
    pub fn reload(&self) {
        self.serve.as_ref().expect("it runs").signal(Signal::HUP);
    }

    /// What it has said.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn said(&self) -> String {
        self.serve.as_ref().expect("it runs").stdout()
    }

    /// What it has complained of.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn complained(&self) -> String {
        self.serve.as_ref().expect("it runs").stderr()
    }

    /// Starts it, once more after [`Tree::kill`].
    ///
    /// # Panics
    /// If it does not begin in time.
    pub fn start(&mut self) {
        self.start_by(&pagetide::binary());
    }

    /// The same, by another build of it.
    ///
    /// # Panics
    /// As [`Tree::start`].
    pub fn start_by(&mut self, program: &str) {
        let mount = self.mount.path().display().to_string();
        let own = [program, "serve", "--mount", &mount, "--root", &self.root];
        let options = self.options.iter().map(String::as_str);
        let mut serve = Run::new(own.into_iter().chain(options)).start();
        wait::until("it serves", LIMIT, || {
            let ended = serve.ended();
            assert!(ended.is_none(), "{ended:?}: {}", serve.stderr());
            serve.stdout().contains("serving")
        });
        self.serve = Some(serve);
    }

    /// Kills it.
    pub fn kill(&mut self) {
        if let Some(mut serve) = self.serve.take() {
            serve.kill_and_reap();
        }
    }

    /// Ends it in order; what it said.
    ///
    /// # Panics
    /// If it does not end well in time.
    pub fn end(&mut self) -> String {
        let serve = self.serve.take().expect("it runs");
        serve.signal(Signal::TERM);
        let outcome = serve.wait(LIMIT);
        assert!(outcome.status.success(), "{}", outcome.stderr);
        outcome.stdout
    }

    /// Its process.
    ///
    /// # Panics
    /// If it does not run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.serve.as_ref().expect("it runs").pid()
    }

    /// A file or directory of its mount.
    #[must_use]
    pub fn at(&self, path: &str) -> PathBuf {
        self.mount.path().join(path)
    }

    /// The same of the kernel's.
    #[must_use]
    pub fn group(&self, path: &str) -> PathBuf {
        Path::new(GROUPS).join(&self.root).join(path)
    }

    /// Makes a tenant.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn make(&self, name: &str) {
        let made = std::fs::create_dir(self.at(name));
        made.unwrap_or_else(|error| panic!("mkdir {name}: {error}"));
    }

    /// What a file holds.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn read(&self, file: &str) -> String {
        let text = std::fs::read_to_string(self.at(file));
        text.unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Writes to a file.
    ///
    /// # Panics
    /// If it is refused.
    pub fn write(&self, file: &str, text: &str) {
        let written = self.try_write(file, text);
        written.unwrap_or_else(|error| panic!("{text:?} > {file}: {error}"));
    }

    /// The same; the kernel's number for a refusal.
    ///
    /// # Errors
    /// It is refused.
    pub fn try_write(&self, file: &str, text: &str) -> Result<(), i32> {
        let written = std::fs::write(self.at(file), text);
        written.map_err(|error| error.raw_os_error().unwrap_or(0))
    }

    /// The only number of a file.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn number(&self, file: &str) -> u64 {
        let text = self.read(file);
        let number = text.trim().parse();
        number.unwrap_or_else(|_| panic!("{file}: {text:?}"))
    }

    /// What the kernel says of a tenant's memory under this name of its group's memory.stat, bytes.
    ///
    /// # Panics
    /// If it says nothing of that.
    #[must_use]
    pub fn of_kernel(&self, tenant: &str, name: &str) -> u64 {
        let text = std::fs::read_to_string(self.group(tenant).join("memory.stat"));
        let text = text.expect("the kernel's");
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(found, _)| *found == name);
        found
            .and_then(|(_, bytes)| bytes.parse().ok())
            .expect("a number")
    }

    /// A line of a file of names and numbers; 0 if there is none of this name.
    #[must_use]
    pub fn line(&self, file: &str, name: &str) -> u64 {
        let text = self.read(file);
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(found, _)| *found == name);
        found
            .and_then(|(_, number)| number.parse().ok())
            .unwrap_or(0)
    }

    /// A program in a tenant from its first page on: these words, before its own.
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
        // A killed one's mount stays.
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.mount.path())
            .output();
        remove_groups(&self.group(""));
    }
}

/// The groups of a tree that a test starts by itself, removed in `Drop` with whoever is in them: to be declared before it.
#[derive(Debug)]
pub struct Groups(PathBuf);

impl Groups {
    /// Those of `--root NAME`, which need not be there yet.
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
