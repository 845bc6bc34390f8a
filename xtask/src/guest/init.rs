//! The guest's first process. It mounts the file systems that programs read, runs the program,
//! prints its exit status and powers off, even if something fails.
//!
//! There are three serial lines, so that output is not mixed: the kernel's messages are on the
//! first, the program's output on the second, its exit status on the third.

use super::Machine;

/// Beginning of `/init`. Without a mount, or with half of its swap, tests in the guest would fail
/// without naming the reason; so the guest stops instead. Errors are kernel messages, which are
/// sent before the power is off.
const BEGIN: &str = r#"#!/bin/busybox sh
stop() { echo "<0>guest: cannot $1" >/dev/kmsg; poweroff -f; }
/bin/busybox --install -s /bin
export PATH=/files:/bin HOME=/tmp
mount -t devtmpfs devtmpfs /dev || stop 'mount /dev'
mount -t proc proc /proc || stop 'mount /proc'
mount -t sysfs sysfs /sys || stop 'mount /sys'
mount -t tmpfs tmpfs /tmp || stop 'mount /tmp'
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts || stop 'mount /dev/pts'
mount -t tmpfs tmpfs /dev/shm || stop 'mount /dev/shm'
mount -t cgroup2 cgroup2 /sys/fs/cgroup || stop 'mount the cgroups'
mount -t bpf bpf /sys/fs/bpf || stop 'mount /sys/fs/bpf'
mount -t debugfs debugfs /sys/kernel/debug || stop 'mount /sys/kernel/debug'
mount -t tracefs tracefs /sys/kernel/tracing || stop 'mount /sys/kernel/tracing'
ln -s /proc/self/fd /dev/fd
hostname guest
ip link set lo up
ulimit -c 0
stty -F /dev/ttyS1 raw 115200 || stop 'set up the second serial line'
exec 3>/dev/ttyS1 4>/dev/ttyS2
cd /tmp
"#;

/// When the status is printed, no process writes to the second line any more; closing a line waits
/// until all of it is sent. The kernel need not print that it powers off.
const END: &str = "\
status=$?
kill -9 -1 2>/dev/null
exec 3>&-
echo \"$status\" >&4
exec 4>&-
echo 0 >/proc/sys/kernel/printk
poweroff -f
";

/// Returns the script that is the guest's `/init`.
pub(super) fn script(machine: &Machine, modules: &[&str], arguments: &[String]) -> String {
    let mut text = BEGIN.to_owned();
    for name in modules {
        text += &format!("insmod /modules/{name}.ko || stop 'load the module {name}'\n");
    }
    if machine.zram_mib > 0 {
        text += &format!(
            "echo lz4 >/sys/block/zram0/comp_algorithm && echo {}M >/sys/block/zram0/disksize &&\n\
             mkswap /dev/zram0 >/dev/null && swapon /dev/zram0 || stop 'swap on zram'\n\
             echo 0 >/proc/sys/vm/page-cluster\n",
            machine.zram_mib
        );
    }
    text += &format!(
        "export GUEST_KERNEL={} GUEST_ZRAM_MIB={}\n/program",
        machine.kernel.name(),
        machine.zram_mib
    );
    for argument in arguments {
        text += &format!(" {}", quoted(argument));
    }
    text + " </dev/null >&3 2>&1 3>&- 4>&-\n" + END
}

/// Quotes a text as one word of the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::guest::options;
    use crate::guest::versions::Kernel;

    fn machine(zram_mib: u32) -> Machine {
        let options = options::parse(&[]).unwrap();
        options.machine(Kernel::V6_1, std::time::Duration::ZERO, zram_mib)
    }

    #[test]
    fn modules_come_before_the_swap_and_that_before_the_program() {
        let script = script(&machine(64), &["a", "b"], &[]);
        let at = |part: &str| script.find(part).unwrap();
        assert!(at("modules/a.ko") < at("modules/b.ko"));
        assert!(at("modules/b.ko") < at("echo 64M"));
        assert!(at("swapon") < at("\n/program <"));
    }

    #[test]
    fn no_swap_is_set_up_unless_requested() {
        assert!(!script(&machine(0), &[], &[]).contains("zram0"));
    }

    #[test]
    fn the_shell_reads_an_argument_unchanged() {
        for text in ["", "a b", "it's", "$x `y` \\ \"z\"", "*\n?"] {
            let line = format!("printf %s {}", quoted(text));
            let output = Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }
}
