//! What /proc says about a process, as numbers.

use super::inject::threads;
use keeper::layout::KEEPER_COMM;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// `/proc/PID/statm`, kept open: the cheapest count of a process's memory there is.
#[derive(Debug)]
pub(crate) struct Statm(Option<File>);

/// What it says, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sizes {
    /// Address space.
    pub(crate) mapped: u64,
    /// Anonymous resident memory.
    pub(crate) anon: u64,
}

impl Statm {
    pub(crate) fn open(pid: i32) -> Statm {
        Statm(File::open(format!("/proc/{pid}/statm")).ok())
    }

    /// All zero once the process is gone.
    pub(crate) fn read(&self) -> Sizes {
        let mut text = [0; 128];
        let read = self.0.as_ref().map(|file| file.read_at(&mut text, 0));
        let Some(Ok(n)) = read else {
            return Sizes::default();
        };
        std::str::from_utf8(&text[..n]).map_or(Sizes::default(), sizes)
    }
}

/// Fields, in pages: size, resident, and of that what is of files or shared (proc(5)).
fn sizes(text: &str) -> Sizes {
    let mut fields = text
        .split_whitespace()
        .map(|field| field.parse::<u64>().unwrap_or(0));
    let mut next = || fields.next().unwrap_or(0).saturating_mul(4096);
    let (mapped, resident, shared) = (next(), next(), next());
    Sizes {
        mapped,
        anon: resident.saturating_sub(shared),
    }
}

/// Anonymous resident bytes by the kernel's count; `None` once it is gone.
pub(crate) fn anon_bytes(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Memory of the host, and what of it is available, bytes. Zeros if it does not say.
pub(crate) fn host_memory() -> (u64, u64) {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let bytes = |name: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(name));
        let kib = line.and_then(|l| l.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    };
    (bytes("MemTotal:"), bytes("MemAvailable:"))
}

/// Processor time of a process, milliseconds.
pub(crate) fn cpu_ms(pid: i32) -> u64 {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return 0;
    };
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    // After the name: state is field 3; utime and stime are 14 and 15, in ticks of 10 ms.
    let ticks = |i: usize| {
        fields
            .split_whitespace()
            .nth(i - 3)
            .and_then(|f| f.parse::<u64>().ok())
    };
    (ticks(14).unwrap_or(0) + ticks(15).unwrap_or(0)) * 10
}

/// Addresses inside the control blocks of all threads (see `uffd::process::robust_list`).
pub(crate) fn control_blocks(pid: i32) -> Vec<u64> {
    threads(pid)
        .into_iter()
        .filter_map(|t| uffd::process::robust_list(t).ok().flatten())
        .collect()
}

/// Live children of any thread of a process.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let mut out = Vec::new();
    for tid in threads(pid) {
        let path = format!("/proc/{pid}/task/{tid}/children");
        let text = fs::read_to_string(path).unwrap_or_default();
        out.extend(
            text.split_whitespace()
                .filter_map(|p| p.parse::<i32>().ok()),
        );
    }
    out
}

/// Whether it is a keeper of ours.
pub(crate) fn is_keeper(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .is_ok_and(|c| c.trim().as_bytes() == KEEPER_COMM.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_is_resident_without_what_is_shared() {
        let got = sizes("100 30 10 5 0 40 0\n");
        assert_eq!((got.mapped, got.anon), (100 * 4096, 20 * 4096));
        assert_eq!(sizes(""), Sizes::default());
    }

    #[test]
    fn both_counts_of_the_kernel_agree() {
        let own = std::process::id().cast_signed();
        let (statm, status) = (Statm::open(own).read(), anon_bytes(own).unwrap_or(0));
        // Other tests allocate meanwhile.
        assert!(statm.anon.abs_diff(status) < 64 << 20, "{statm:?} {status}");
        assert!(statm.mapped > statm.anon && statm.anon > 0);
    }
}
