//! Directory trees that imitate /proc, /sys, /dev and /run, and an imitation of the kernel that
//! adds lines to /proc/swaps and removes them.
//!
//! At the start, another program's zram (`zram0`) is active; `hot_add` returns the number of
//! `zram1`.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::swap::Swap;
use crate::swap::kernel::Kernel;
use crate::swap::places::Places;

static NEXT: AtomicU32 = AtomicU32::new(0);
/// The uuid of the boot.
const BOOT: &str = "11111111-2222-3333-4444-555555555555\n";

/// Trees in a directory of their own, which is removed at the end.
pub(in crate::swap) struct Fake {
    root: PathBuf,
    switch: Switch,
    allowed: bool,
    user: u32,
}

/// The imitation of the kernel: the calls of swapon and swapoff so far, and the error of the next
/// one.
#[derive(Clone, Debug)]
struct Switch {
    root: PathBuf,
    allowed: bool,
    user: u32,
    calls: Rc<RefCell<Vec<String>>>,
    refusal: Rc<RefCell<Option<i32>>>,
}

impl Fake {
    pub(in crate::swap) fn new() -> Fake {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pagetide-swap-{}-{number}", std::process::id());
        // The trees are in the build directory, because a swap file must be on a disk.
        let exe = std::env::current_exe().unwrap();
        let root = exe.parent().unwrap().canonicalize().unwrap().join(name);
        let fake = Fake {
            switch: Switch {
                root: root.clone(),
                allowed: true,
                user: 0,
                calls: Rc::default(),
                refusal: Rc::default(),
            },
            root,
            allowed: true,
            user: 0,
        };
        fake.write(
            "proc/meminfo",
            "MemTotal: 1024000 kB\nMemAvailable: 512000 kB\n",
        );
        let swaps = "Filename Type Size Used Priority\n/dev/zram0 partition 1024 0 100\n";
        fake.write("proc/swaps", swaps);
        fake.write("proc/sys/vm/page-cluster", "3\n");
        fake.write(
            "proc/sys/kernel/random/uuid",
            "0f8fad5b-d9cb-469f-a165-70867728950e\n",
        );
        fake.write("proc/sys/kernel/random/boot_id", BOOT);
        fake.write("sys/class/zram-control/hot_add", "1\n");
        fake.write("sys/class/zram-control/hot_remove", "");
        fake.write("sys/block/zram1/comp_algorithm", "[lzo-rle] lzo lz4\n");
        fake.write("sys/block/zram1/disksize", "0\n");
        fake.write("sys/block/zram1/diskseq", "29\n");
        fake.write("sys/block/zram1/mm_stat", "8192 100 4096 0 0 0 0\n");
        fake.write("dev/zram1", "");
        fake
    }

    pub(in crate::swap) fn root(&self) -> &Path {
        &self.root
    }

    pub(in crate::swap) fn dev(&self) -> PathBuf {
        self.root.join("dev")
    }

    /// Writes the file `name`, and makes its directory.
    pub(in crate::swap) fn write(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Removes the file or directory `name`.
    pub(in crate::swap) fn remove(&self, name: &str) {
        let path = self.root.join(name);
        let is_folder = path.is_dir();
        let done = if is_folder {
            std::fs::remove_dir_all(path)
        } else {
            std::fs::remove_file(path)
        };
        done.unwrap();
    }

    pub(in crate::swap) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.root.join(name)).unwrap()
    }

    /// Reads a file of `zram1` in the imitation of `/sys`.
    pub(in crate::swap) fn zram(&self, name: &str) -> String {
        self.read(&format!("sys/block/zram1/{name}"))
    }

    /// Returns the number that was written last to `hot_remove`; empty if none was.
    pub(in crate::swap) fn removed(&self) -> String {
        self.read("sys/class/zram-control/hot_remove")
    }

    /// The calls of swapon and swapoff so far, such as `on zram1 100` (100 is the priority).
    pub(in crate::swap) fn calls(&self) -> Vec<String> {
        self.switch.calls.borrow().clone()
    }

    /// Makes the next swapon or swapoff fail with this errno.
    pub(in crate::swap) fn refuse(&self, errno: i32) {
        *self.switch.refusal.borrow_mut() = Some(errno);
    }

    /// Takes the right to switch swap away.
    pub(in crate::swap) fn forbid(&mut self) {
        self.allowed = false;
    }

    /// Makes another user switch swap from now on.
    pub(in crate::swap) fn become_user(&mut self, uid: u32) {
        self.user = uid;
    }

    /// Returns the user's swap in these trees.
    pub(in crate::swap) fn swap(&self) -> Swap {
        self.swap_of("swap")
    }

    pub(in crate::swap) fn swap_of(&self, owner: &'static str) -> Swap {
        let in_root = |name: &str| self.root.join(name);
        Swap {
            places: Places {
                proc: in_root("proc"),
                sys: in_root("sys"),
                dev: in_root("dev"),
                run: in_root("run"),
            },
            kernel: Box::new(Switch {
                allowed: self.allowed,
                user: self.user,
                ..self.switch.clone()
            }),
            owner: owner.into(),
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

impl Switch {
    /// Notes a call, with the file's name in place of `@`; returns the error that the test
    /// requested.
    fn called(&self, what: &str, path: &Path) -> io::Result<()> {
        if let Some(errno) = self.refusal.borrow_mut().take() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let name = path.file_name().unwrap().to_string_lossy();
        self.calls.borrow_mut().push(what.replace('@', &name));
        Ok(())
    }

    /// Changes the lines of the imitated `/proc/swaps`.
    fn change(&self, change: impl FnOnce(&mut Vec<Vec<u8>>)) -> io::Result<()> {
        let swaps = self.root.join("proc/swaps");
        let text = std::fs::read(&swaps)?;
        let mut lines: Vec<_> = text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        lines.retain(|line| !line.is_empty());
        change(&mut lines);
        let lines: Vec<_> = lines
            .iter()
            .map(|line| [line, &b"\n"[..]].concat())
            .collect();
        std::fs::write(swaps, lines.concat())
    }
}

/// Escapes a path as the kernel does in `/proc/swaps`.
fn escaped(path: &Path) -> Vec<u8> {
    let mut out = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => out.extend(format!("\\{byte:03o}").bytes()),
            byte => out.push(byte),
        }
    }
    out
}

impl Kernel for Switch {
    fn may_switch(&self) -> bool {
        self.allowed
    }

    fn user(&self) -> u32 {
        self.user
    }

    fn on(&self, area: &File, path: &Path, priority: u16) -> io::Result<()> {
        self.called(&format!("on @ {priority}"), path)?;
        let kind = if path.starts_with(self.root.join("dev")) {
            "partition"
        } else {
            "file"
        };
        let size = area.metadata()?.len().max(1 << 20) >> 10;
        let rest = format!(" {kind} {size} 0 {priority}");
        self.change(|lines| lines.push([escaped(path), rest.into_bytes()].concat()))
    }

    fn off(&self, _: &File, path: &Path) -> io::Result<()> {
        self.called("off @", path)?;
        let start = [escaped(path), b" ".to_vec()].concat();
        self.change(|lines| lines.retain(|line| !line.starts_with(&start)))
    }
}
