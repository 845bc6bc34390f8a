//! What /proc says about a process, as numbers.

use super::inject::threads;
use keeper::layout::KEEPER_COMM;
use std::fs::{self, File};
use std::io;
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

/// A file of /proc that is shorter than a page and made anew for each reader: in one read, where a
/// reader that does not know its length takes eight.
pub(crate) fn short(path: &str) -> io::Result<String> {
    let mut bytes = [0; 4096];
    let n = File::open(path)?.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes[..n]).into_owned())
}

/// Anonymous resident bytes by the kernel's count; `None` once it is gone.
pub(crate) fn anon_bytes(pid: i32) -> Option<u64> {
    anon_bytes_in(&short(&format!("/proc/{pid}/status")).ok()?)
}

fn anon_bytes_in(status: &str) -> Option<u64> {
    kib(field(status, "RssAnon:")?)?.checked_mul(1024)
}

/// What a file of lines `NAME: VALUE` says behind `name`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    Some(line.trim())
}

fn kib(value: &str) -> Option<u64> {
    value.strip_suffix("kB")?.trim().parse().ok()
}

/// Memory of the host, and what of it is available, bytes. Zeros if it does not say.
pub(crate) fn host_memory() -> (u64, u64) {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let bytes = |name: &str| field(&text, name).and_then(kib).unwrap_or(0) * 1024;
    (bytes("MemTotal:"), bytes("MemAvailable:"))
}

/// Processor time of a process, milliseconds.
pub(crate) fn cpu_ms(pid: i32) -> u64 {
    let Ok(stat) = short(&format!("/proc/{pid}/stat")) else {
        return 0;
    };
    cpu_ms_in(&stat)
}

fn cpu_ms_in(stat: &str) -> u64 {
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    // After the name: state is field 3; utime and stime are 14 and 15, in ticks of 10 ms.
    let ticks = |i: usize| {
        fields
            .split_whitespace()
            .nth(i - 3)
            .and_then(|f| f.parse::<u64>().ok())
    };
    let ticks = ticks(14)
        .unwrap_or(0)
        .saturating_add(ticks(15).unwrap_or(0));
    ticks.saturating_mul(10)
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

/// Who traces a thread, if anybody does.
pub(crate) fn tracer(tid: i32) -> Option<i32> {
    tracer_in(&short(&format!("/proc/{tid}/status")).ok()?)
}

fn tracer_in(status: &str) -> Option<i32> {
    let tracer = field(status, "TracerPid:")?.parse().ok();
    tracer.filter(|pid| *pid != 0)
}

/// Whether it is a keeper of ours.
pub(crate) fn is_keeper(pid: i32) -> bool {
    short(&format!("/proc/{pid}/comm")).is_ok_and(|c| c.trim().as_bytes() == KEEPER_COMM.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_read() {
        assert_eq!(tracer_in("Name:\tx\nTracerPid:\t17\n"), Some(17));
        assert_eq!(tracer_in("TracerPid:\t0\n"), None);
        assert_eq!(tracer(std::process::id().cast_signed()), None);
        assert_eq!(
            anon_bytes_in("Name:\tx\nRssAnon:\t      12 kB\n"),
            Some(12 << 10)
        );
        assert_eq!(anon_bytes_in("RssAnon:\t12\n"), None);
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 0 0 0 0 11 22 0 0";
        assert_eq!(cpu_ms_in(stat), 330);
        assert_eq!(cpu_ms_in(""), 0);
    }

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

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(RssAnon:|kB|[ \\t\\n():]|[0-9]{1,25}|-|.){0,40}") {
            let _ = anon_bytes_in(&text);
            let _ = cpu_ms_in(&text);
            let got = sizes(&text);
            prop_assert!(got.mapped.is_multiple_of(4096) || got.mapped == u64::MAX);
        }
    }
}
