#!/bin/sh
# Nothing to notice on version 2, on the multi-gen LRU too: scenarios of tests/programs/notice beside themselves alone, while everything cold leaves all
# the time, by the kernel's figures; and the hostile workload.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
disk && cd $where # O_TMPFILE, O_DIRECT
echo 0 >/proc/sys/kernel/randomize_va_space # as `setarch -R` does on the host
export NOTICE_PATIENCE=4
policy="--evict-older-than 300ms --age-every 100ms --every 100ms"

# What had to leave left, what had to stay stayed, and there was something.
held() {
    awk '$1 == "leaves" && $NF > 0 { n++; if ($(NF-1) * 100 < $(NF-2) * $NF) { print; bad = 1 } }
        $1 == "stays" && $(NF-1) > 0 { print; bad = 1 } END { exit bad || !n }' $1
}
# beside SCENARIO [OPTIONS]
beside() {
    NOTICE_MANAGED=0 NOTICE_FIGURES=$PWD/no notice $1 >alone 2>alone.err
    status=$?
    is $status 0 || { tail -n 2 alone.err; return 1; }
    : >figures
    NOTICE_MANAGED=1 NOTICE_FIGURES=$PWD/figures pagetide run $policy $2 -- notice $1 >managed 2>managed.err
    is $? $status && { cmp alone managed || { diff alone managed | head -n 5; return 1; }; } && held figures
}
for one in wipeonfork lazyfree mremap_storm memfd threads64 prefork seccomp_strict chroot_setuid stopped frozen; do
    test_that $one beside $one
done
test_that a_prefork_server_in_a_wall beside prefork "--memory-max 24M"

out() { awk '$1 == "pswpout" { print $2 }' /proc/vmstat; }
before=$(out)
hostile_is_right() { pagetide run $policy -- hostile --seconds 10 --seed 7 --mib 32 --dir . --progress progress >hostile.out 2>&1 || { tail -n 3 hostile.out; return 1; }; }
test_that no_wrong_byte hostile_is_right
test_that pages_left at_least pswpout $(($(out) - before)) 1000
cd /
exit 0
