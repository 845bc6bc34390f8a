//! Threads, families and walls while everything cold leaves: the same answers and mappings as alone.
#![forbid(unsafe_code)]

use e2e::notice::check_all;
use e2e::temp::serial;
use e2e::zram::Swap;

/// Beside two busy loops memory that was idle for 100 ms stayed for 15 s: the policy rested for ten times what its pass had
/// taken by the clock, most of it the loops' (in half of the runs; now it rests by processor time).
#[test]
fn threads() {
    let _serial = serial();
    let _swap = Swap::shared();
    let names = [
        "threads64",
        "clone_vm",
        "robust",
        "inherit",
        "rseq",
        "altstack",
    ];
    check_all(&names, 0);
}

#[test]
fn families() {
    let _serial = serial();
    let _swap = Swap::shared();
    let names = ["fork_storm", "vfork_storm", "prefork", "cow_tree", "daemon"];
    check_all(&names, 0);
}

#[test]
fn walls() {
    let _serial = serial();
    let _swap = Swap::shared();
    let names = [
        "seccomp_strict",
        "chroot_setuid",
        "namespaces",
        "undumpable",
        "stopped",
        "frozen",
        "traced",
    ];
    check_all(&names, 0);
}

/// The first thread ended; /proc says that the process is a zombie without memory, and process_madvise(2) does not find
/// it. What had left before must be right when the other threads want it.
#[test]
fn the_first_thread_ends_first() {
    let _serial = serial();
    let _swap = Swap::shared();
    check_all(&["main_first"], 0);
}
