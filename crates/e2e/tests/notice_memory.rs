//! Every advice, lock, limit and move of memory that has left: the same answers, errno and mappings as alone.
#![forbid(unsafe_code)]

use e2e::notice::check_all;
use e2e::temp::serial;
use e2e::zram::Swap;

#[test]
fn advice() {
    let _serial = serial();
    let _swap = Swap::shared();
    let names = [
        "wipeonfork",
        "dontfork",
        "lazyfree",
        "freed_by_child",
        "guard",
        "collapse",
        "pageout",
        "removed",
        "hints",
        "own_advice",
        "offline",
        "droppable",
        "dontneed",
        "protect",
        "populate",
    ];
    check_all(&names, 0);
}

#[test]
fn locks_and_limits() {
    let _serial = serial();
    let _swap = Swap::shared();
    let names = [
        "mlockall_before",
        "mlockall_after",
        "mlock_onfault",
        "rlimit_as",
    ];
    check_all(&names, 0);
}

#[test]
fn moves() {
    let _serial = serial();
    let _swap = Swap::shared();
    let names = [
        "mremap_storm",
        "dontunmap",
        "shm_remap",
        "growsdown",
        "brk_heap",
    ];
    check_all(&names, 0);
}

#[test]
fn memory_that_others_see() {
    let _serial = serial();
    let _swap = Swap::shared();
    let names = [
        "memfd",
        "shared_anon",
        "private_file",
        "shared_file",
        "direct",
        "uring",
        "pipes",
        "process_vm",
        "wp_uffd",
    ];
    check_all(&names, 0);
}
