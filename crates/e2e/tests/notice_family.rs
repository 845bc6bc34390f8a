//! Threads, families of processes, and hard limits while all cold memory is paged out: the output
//! and the mappings are the same as of an unmanaged program.
#![forbid(unsafe_code)]

use e2e::notice::check_all;
use e2e::temp::serial;
use e2e::zram::Swap;

/// Regression: beside two busy loops, memory that was idle for 100 ms was not paged out for 15 s.
/// The policy waits for ten times the duration of its last pass, most of which was processor time
/// of the loops. It now goes by its own processor time.
#[test]
fn threads_do_not_notice_page_out() {
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
fn process_families_do_not_notice_page_out() {
    let _serial = serial();
    let _swap = Swap::shared();
    let names = ["fork_storm", "vfork_storm", "prefork", "cow_tree", "daemon"];
    check_all(&names, 0);
}

#[test]
fn confined_programs_do_not_notice_page_out() {
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

/// The first thread of a process ends: /proc reports a zombie without memory, and
/// process_madvise(2) does not find the process. Pages that were paged out before must be right
/// when the other threads use them.
#[test]
fn memory_is_right_after_the_first_thread_has_ended() {
    let _serial = serial();
    let _swap = Swap::shared();
    check_all(&["main_first"], 0);
}
