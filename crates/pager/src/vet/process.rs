//! What /proc says about a process, as values.
//!
//! Invariant: parsing is total: /proc texts of any kernel, and any other text, give a value with
//! defaults for what is missing. Formats: proc_pid_status(5), proc_pid_stat(5), elf(5).

/// The lines of `/proc/PID/status` that matter here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Status {
    /// `Name`: what `ps -o comm` shows.
    pub(super) name: String,
    /// First letter of `State`.
    pub(super) state: char,
    /// `Tgid`: the process, when the pid asked for is one of its threads.
    pub(super) tgid: u32,
    /// `TracerPid`, 0 for none.
    pub(super) tracer: u32,
    /// Effective user of `Uid`.
    pub(super) uid: u32,
    /// `Threads`.
    pub(super) threads: u32,
    /// `Seccomp`: 0 off, 1 strict, 2 filters.
    pub(super) seccomp: u32,
    /// `CapEff`.
    pub(super) capabilities: u64,
}

impl Status {
    pub(super) fn parse(text: &str) -> Status {
        let mut status = Status::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            let number = || value.parse().unwrap_or(0);
            match key {
                "Name" => status.name = value.to_owned(),
                "State" => status.state = value.chars().next().unwrap_or_default(),
                "Tgid" => status.tgid = number(),
                "TracerPid" => status.tracer = number(),
                "Threads" => status.threads = number(),
                "Seccomp" => status.seccomp = number(),
                "Uid" => {
                    let effective = value.split_whitespace().nth(1);
                    status.uid = effective.and_then(|uid| uid.parse().ok()).unwrap_or(0);
                }
                "CapEff" => status.capabilities = u64::from_str_radix(value, 16).unwrap_or(0),
                _ => {}
            }
        }
        status
    }

    /// Whether the effective set holds capability number `bit` (linux/capability.h).
    pub(super) const fn has_capability(&self, bit: u32) -> bool {
        self.capabilities & (1 << bit) != 0
    }
}

/// Whether `/proc/PID/stat` has PF_KTHREAD (linux/sched.h) among its flags, the ninth field. The
/// second field, the name, may hold anything, blanks and parentheses too.
pub(super) fn is_kernel_thread(stat: &str) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let flags = after_name.split_whitespace().nth(6);
    flags.is_some_and(|flags| flags.parse::<u64>().unwrap_or(0) & PF_KTHREAD != 0)
}

/// What kind of program an ELF header announces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Machine {
    /// 64-bit x86: the one we manage.
    X86_64,
    /// 32-bit x86, or the x32 ABI.
    Bits32,
    /// Another machine's program (under an emulator such as qemu-user it looks like this too).
    Other(u16),
    /// No ELF header.
    NotElf,
}

impl Machine {
    /// Reads the first bytes of an executable.
    pub(super) fn of(header: &[u8]) -> Machine {
        const CLASS_64: u8 = 2;
        const EM_X86_64: u16 = 62;
        let (Some(b"\x7fELF"), Some(class)) = (header.get(..4), header.get(4)) else {
            return Machine::NotElf;
        };
        let Some(&[low, high]) = header.get(18..20) else {
            return Machine::NotElf;
        };
        match (*class, u16::from_le_bytes([low, high])) {
            (CLASS_64, EM_X86_64) => Machine::X86_64,
            (CLASS_64, other) => Machine::Other(other),
            _ => Machine::Bits32,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STATUS: &str = "Name:\tmy prog\nUmask:\t0022\nState:\tZ (zombie)\nTgid:\t12\nPid:\t13\n\
        TracerPid:\t99\nUid:\t1000\t1001\t1000\t1000\nThreads:\t3\nCapEff:\t0000000000080000\n\
        Seccomp:\t2\nSeccomp_filters:\t1\n";

    #[test]
    fn a_status_is_read() {
        let status = Status::parse(STATUS);
        assert_eq!((status.name.as_str(), status.state), ("my prog", 'Z'));
        assert_eq!((status.tgid, status.tracer, status.uid), (12, 99, 1001));
        assert_eq!((status.threads, status.seccomp), (3, 2));
        assert!(status.has_capability(19) && !status.has_capability(21));
    }

    #[test]
    fn a_name_cannot_forge_the_flags() {
        let kthread = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0";
        assert!(is_kernel_thread(kthread));
        assert!(!is_kernel_thread(
            "7 (a) S 0 0 0 0 -1 2129984) S 1 7 7 0 -1 4194304 0 0"
        ));
        assert!(!is_kernel_thread(""));
    }

    fn header(class: u8, machine: u16) -> Vec<u8> {
        let mut header = vec![0; 64];
        header[..4].copy_from_slice(b"\x7fELF");
        header[4] = class;
        header[18..20].copy_from_slice(&machine.to_le_bytes());
        header
    }

    #[test]
    fn programs_are_told_apart() {
        assert_eq!(Machine::of(&header(2, 62)), Machine::X86_64);
        assert_eq!(Machine::of(&header(1, 3)), Machine::Bits32);
        assert_eq!(Machine::of(&header(1, 62)), Machine::Bits32, "x32");
        assert_eq!(Machine::of(&header(2, 183)), Machine::Other(183));
        assert_eq!(Machine::of(b"#!/bin/sh"), Machine::NotElf);
        assert_eq!(Machine::of(&header(2, 62)[..19]), Machine::NotElf);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(Name|State|Uid|CapEff|\\)|:|[ \t0-9a-z-]|\n){0,64}") {
            let _ = Status::parse(&text);
            let _ = is_kernel_thread(&text);
            let _ = Machine::of(text.as_bytes());
        }
    }

    /// A true text with a few changes, or cut off.
    fn mutated(text: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
        let bytes = text.as_bytes().to_vec();
        let change = (any::<prop::sample::Index>(), any::<u8>());
        let changes = prop::collection::vec(change, 0..6);
        (changes, 0..=bytes.len()).prop_map(move |(changes, keep)| {
            let mut bytes = bytes.clone();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(keep);
            bytes
        })
    }

    proptest! {
        #[test]
        fn changed_and_cut_off_texts_are_survived(
            status in mutated(STATUS),
            stat in mutated("7 (a) b) S 1 7 7 0 -1 4194304 0 0 0 0 1 2 3 4"),
        ) {
            let status = Status::parse(&String::from_utf8_lossy(&status));
            prop_assert!(status.name.len() <= 3 * STATUS.len());
            let _ = is_kernel_thread(&String::from_utf8_lossy(&stat));
        }

        #[test]
        fn only_whole_headers_of_ours_are_ours(
            mut header in prop::collection::vec(any::<u8>(), 0..128),
            magic: bool, class in 0u8..4, machine in prop_oneof![Just(62u16), any::<u16>()],
        ) {
            if magic && header.len() >= 20 {
                header[..4].copy_from_slice(b"\x7fELF");
                header[4] = class;
                header[18..20].copy_from_slice(&machine.to_le_bytes());
            }
            let ours = header.len() >= 20 && header.starts_with(b"\x7fELF\x02")
                && header[18..20] == [62, 0];
            prop_assert_eq!(Machine::of(&header) == Machine::X86_64, ours);
        }
    }
}
