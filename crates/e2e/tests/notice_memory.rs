//! Every advice, lock, limit and move of swapped-out memory: results, errno and mappings are the
//! same as of an unmanaged program.
#![forbid(unsafe_code)]

use e2e::notice::check_all;
use e2e::temp::serial;
use e2e::zram::Swap;

#[test]
fn madvise_has_the_same_effects() {
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
fn mlock_and_rlimits_have_the_same_effects() {
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
fn mremap_and_brk_have_the_same_effects() {
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
fn shared_memory_is_the_same() {
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
