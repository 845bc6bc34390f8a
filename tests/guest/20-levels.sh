#!/bin/sh
# Tables of five levels, which QEMU's processor has, or of four with the kernel's argument no5lvl. The
# default boot has five; four: cargo xtask guest suite -k 6.12 -a no5lvl 10-report 20-levels
. /suite/lib

new_group levels
has_la57() { grep -q "^flags.* la57" /proc/cpuinfo; }
wanted=5
grep -qw no5lvl /proc/cmdline && wanted=4
as_booted() { has_la57 && found=5 || found=4; is $found $wanted; }
five() {
    start high 8 || { cat high.out; return 1; }
    report $pid --for 1s --age-every 1s && near resident_bytes "$(field resident_bytes)" "$(rollup $pid Rss)" 1 65536
}
four() {
    if start high 8; then echo "there is memory above 47 bits"; return 1; fi
    start anon 8 && report $pid --for 1s --age-every 1s &&
        near resident_bytes "$(field resident_bytes)" "$(rollup $pid Rss)" 1 65536
}
doctor_says() { pagetide doctor >out 2>&1; grep -i level out || { echo "no levels in what doctor says"; return 1; }; }
test_that the_kernel_has_the_levels_it_was_booted_with as_booted
[ $wanted = 5 ] && test_that memory_above_47_bits_is_read five
[ $wanted = 4 ] && test_that tables_of_four_levels_are_read four
test_that doctor_tells_the_levels doctor_says
kill_group
exit 0
