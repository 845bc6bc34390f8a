//! From facts to findings: what each fact means, and what to type.
//!
//! Invariant: pure. One function a topic; the order is that of the report: first what is needed,
//! then what only limits. Needs and their versions: `pager.md`, "Facts".

use super::facts::{Device, Errno, Facts, Tried};
use super::{Finding, State};

const SETCAP: &str = "run as root, or: setcap cap_sys_ptrace+ep \"$(command -v pagetide)\"";

/// Everything there is to say about the host.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Finding> {
    vec![
        kernel(facts),
        userfaultfd(facts),
        features(facts),
        move_page(facts),
        event_fork(facts),
        simple(
            "PAGEMAP_SCAN",
            &facts.pagemap_scan,
            "boot a kernel 6.7 or newer",
        ),
        simple(
            "memfd",
            &facts.memfd,
            "boot a kernel with CONFIG_MEMFD_CREATE",
        ),
        simple("kcmp", &facts.kcmp, "boot a kernel with CONFIG_KCMP=y"),
        ptrace(facts),
        yama(facts),
        seccomp_filters(facts),
        memlock(facts),
        nofile(facts),
        overcommit(facts),
        huge_pages(facts),
        swap(facts),
    ]
}

fn ok(topic: &'static str, detail: impl Into<String>) -> Finding {
    Finding {
        topic,
        state: State::Ok,
        detail: detail.into(),
        remedy: None,
    }
}

fn bad(
    topic: &'static str,
    state: State,
    detail: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    Finding {
        topic,
        state,
        detail: detail.into(),
        remedy: Some(remedy.into()),
    }
}

fn simple(topic: &'static str, tried: &Tried<()>, remedy: &str) -> Finding {
    match tried {
        Ok(()) => ok(topic, "works"),
        Err(error) => bad(topic, State::Missing, error.text.clone(), remedy),
    }
}

fn kernel(facts: &Facts) -> Finding {
    const NEEDED: (u32, u32) = (6, 8);
    let release = facts.release.clone();
    match facts.version() {
        Some(version) if version >= NEEDED => ok("kernel", release),
        _ => bad(
            "kernel",
            State::Missing,
            format!("{release} is older than 6.8, the first with UFFDIO_MOVE"),
            "boot a kernel 6.8 or newer (Debian 12: linux-image-amd64 from backports)",
        ),
    }
}

const ENOSYS: i32 = rustix::io::Errno::NOSYS.raw_os_error();

fn userfaultfd(facts: &Facts) -> Finding {
    let topic = "userfaultfd";
    let how = match (facts.unprivileged_userfaultfd, facts.device) {
        (Some(1), _) => "for all users (vm.unprivileged_userfaultfd=1)",
        _ if facts.cap_sys_ptrace => "by privilege (CAP_SYS_PTRACE)",
        (_, Device::Opens) => "through /dev/userfaultfd",
        _ => "for this user",
    };
    match &facts.userfaultfd {
        Ok(_) => ok(topic, format!("works, {how}")),
        Err(Errno { number, .. }) if *number == Some(ENOSYS) => bad(
            topic,
            State::Missing,
            "this kernel has none",
            "boot a kernel with CONFIG_USERFAULTFD=y",
        ),
        Err(error) => bad(
            topic,
            State::Missing,
            format!("{}{}", error.text, closed_doors(facts)),
            "run as root, or: sysctl vm.unprivileged_userfaultfd=1, \
             or: setfacl -m u:$USER:rw /dev/userfaultfd",
        ),
    }
}

/// Which of the ways to a userfaultfd are shut.
fn closed_doors(facts: &Facts) -> String {
    let sysctl = match facts.unprivileged_userfaultfd {
        Some(value) => format!("vm.unprivileged_userfaultfd={value}"),
        None => "no vm.unprivileged_userfaultfd".to_owned(),
    };
    let device = match facts.device {
        Device::Opens => "/dev/userfaultfd opens",
        Device::Denied => "/dev/userfaultfd is not yours",
        Device::Absent => "no /dev/userfaultfd",
    };
    format!(" ({sysctl}, {device})")
}

/// What the keeper cannot do without, as in linux/userfaultfd.h.
const FEATURES: [(&str, u32); 5] = [
    ("EVENT_FORK", 1),
    ("EVENT_REMAP", 2),
    ("EVENT_REMOVE", 3),
    ("EVENT_UNMAP", 6),
    ("MOVE", 16),
];

fn features(facts: &Facts) -> Finding {
    let topic = "userfaultfd features";
    let Ok(bits) = facts.userfaultfd else {
        let why = "unknown without a userfaultfd";
        return bad(topic, State::Missing, why, "see the line above");
    };
    let (there, absent): (Vec<_>, Vec<_>) =
        FEATURES.iter().partition(|(_, bit)| bits & (1 << bit) != 0);
    let names = |list: &[(&str, u32)]| {
        let names: Vec<_> = list.iter().map(|(name, _)| *name).collect();
        names.join(" ")
    };
    if absent.is_empty() {
        return ok(topic, names(&there));
    }
    bad(
        topic,
        State::Missing,
        format!("no {}", names(&absent)),
        "boot a kernel 6.8 or newer",
    )
}

fn move_page(facts: &Facts) -> Finding {
    match &facts.move_page {
        Ok(()) => ok("UFFDIO_MOVE", "moved a page aside and back"),
        Err(error) => bad(
            "UFFDIO_MOVE",
            State::Missing,
            error.text.clone(),
            "needs a userfaultfd (above) and a kernel 6.8 or newer",
        ),
    }
}

fn event_fork(facts: &Facts) -> Finding {
    match &facts.event_fork {
        Ok(()) => ok("fork events", "works"),
        Err(error) => bad(
            "fork events",
            State::Missing,
            format!(
                "{}: without them a forked child would read zeros",
                error.text
            ),
            SETCAP,
        ),
    }
}

fn ptrace(facts: &Facts) -> Finding {
    let topic = "CAP_SYS_PTRACE";
    if facts.cap_sys_ptrace {
        return ok(topic, "held: processes of every user can be managed");
    }
    let detail = format!("user {} has it not", facts.uid);
    bad(topic, State::Missing, detail, SETCAP)
}

fn yama(facts: &Facts) -> Finding {
    let topic = "ptrace scope";
    match facts.yama {
        None => ok(topic, "no Yama: as ptrace(2) says"),
        Some(0) => ok(topic, "kernel.yama.ptrace_scope=0"),
        Some(scope @ 1..=2) if facts.cap_sys_ptrace => ok(
            topic,
            format!("kernel.yama.ptrace_scope={scope}, and CAP_SYS_PTRACE is held"),
        ),
        Some(3) => bad(
            topic,
            State::Missing,
            "kernel.yama.ptrace_scope=3: nobody may trace",
            "set it lower in /etc/sysctl.d and reboot",
        ),
        Some(scope) => bad(
            topic,
            State::Limited,
            format!("kernel.yama.ptrace_scope={scope}: `run` works, `attach` does not"),
            "sysctl kernel.yama.ptrace_scope=0",
        ),
    }
}

fn seccomp_filters(facts: &Facts) -> Finding {
    let topic = "seccomp filters";
    if facts.cap_sys_admin {
        return ok(topic, "can be read (CAP_SYS_ADMIN)");
    }
    bad(
        topic,
        State::Limited,
        "cannot be read: programs that have one are refused",
        "run as root to manage those",
    )
}

fn memlock(facts: &Facts) -> Finding {
    const ENOUGH: u64 = 8 << 20;
    let topic = "RLIMIT_MEMLOCK";
    match facts.memlock {
        _ if facts.cap_ipc_lock => ok(topic, "does not apply (CAP_IPC_LOCK)"),
        None => ok(topic, "unlimited"),
        Some(bytes) if bytes >= ENOUGH => ok(topic, format!("{} MiB", bytes >> 20)),
        Some(bytes) => bad(
            topic,
            State::Limited,
            format!("{} KiB: the keepers cannot lock all of theirs", bytes >> 10),
            "ulimit -l 65536, or LimitMEMLOCK=64M in the unit",
        ),
    }
}

fn nofile(facts: &Facts) -> Finding {
    const ENOUGH: u64 = 4096;
    let topic = "RLIMIT_NOFILE";
    match facts.nofile {
        None => ok(topic, "unlimited"),
        Some(files) if files >= ENOUGH => ok(topic, files.to_string()),
        Some(files) => bad(
            topic,
            State::Limited,
            format!("{files}: every managed process and every fork takes some"),
            "ulimit -Hn 65536, or LimitNOFILE=65536 in the unit",
        ),
    }
}

fn overcommit(facts: &Facts) -> Finding {
    let topic = "overcommit";
    match facts.overcommit {
        Some(2) => bad(
            topic,
            State::Limited,
            "vm.overcommit_memory=2: reserving limbo counts as using it, and may be refused",
            "sysctl vm.overcommit_memory=0",
        ),
        Some(mode) => ok(topic, format!("vm.overcommit_memory={mode}")),
        None => ok(topic, "unknown"),
    }
}

fn huge_pages(facts: &Facts) -> Finding {
    let topic = "huge pages";
    match facts.thp.as_deref() {
        None => ok(topic, "none"),
        Some("always") => ok(topic, "always: cold ones are moved whole or split first"),
        Some(mode) => ok(topic, mode),
    }
}

fn swap(facts: &Facts) -> Finding {
    match facts.swaps {
        0 => ok("swap", "none, and none is needed"),
        n => ok(
            "swap",
            format!("{n} in use: the kernel may also put pages out"),
        ),
    }
}
