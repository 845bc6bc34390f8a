#!/bin/sh
# Without the right to read page tables, or without the kernel's types: the next source, and words why.
. /suite/lib

new_group sources
chmod 777 .
# Started as that user: a report of one's own process needs no rights.
su nobody -s /bin/sh -c 'exec mem anon 8' >nobody.out &
nobody=$!
start anon 8 && root=$pid
while ! grep -q ready nobody.out; do sleep 0.1; done
nobody=$(sed -n 's/^ready pid=\([0-9]*\) .*/\1/p' nobody.out)
as_nobody() { su nobody -s /bin/sh -c "$*"; }

# poorer PID: what every poorer source has to tell.
poorer() {
    case $(field age_source) in referenced | idle-bitmap) ;; *) echo "source $(field age_source)"; return 1 ;; esac
    [ -n "$(notes)" ] || { echo "no notes"; return 1; }
    near resident_bytes "$(field resident_bytes)" "$(rollup $1 Pss)" 1 65536
}
own_process() {
    as_nobody pagetide report $nobody --for 2s --age-every 1s --json >report.json && poorer $nobody
}
test_that nobody_sees_its_own_process own_process
echo "source: $(field age_source), notes:"
notes

others_process() {
    as_nobody pagetide report $root --for 1s --age-every 1s --json >out 2>err
    is $? 3 && grep -q hint err && cat err
}
test_that nobody_is_told_that_it_may_not others_process
cat err
all_processes() { as_nobody pagetide report --all --for 1s --age-every 1s --json >report.json && grep -q '"mem anon 8"' report.json; }
test_that nobody_sees_what_it_may_of_all all_processes
notes | cut -c1-300
top() { as_nobody pagetide top --once --every 1s >out && grep -q mem out; }
test_that nobody_has_top top
doctor() { as_nobody pagetide doctor --json >out; status=$?; [ $status = 0 ] || [ $status = 3 ]; }
test_that nobody_has_doctor doctor

mount --bind /dev/null /sys/kernel/btf/vmlinux
without_types() {
    report $root --for 2s --age-every 1s && poorer $root && notes | grep -q "type information (/sys/kernel/btf/vmlinux)"
}
test_that without_types_the_next_source without_types
echo "source: $(field age_source), notes:"
notes
# A mapping that nobody touched grows old; the first look sees it as its fill left it.
old() { at_least older_than_10s_bytes "$(of $root older_than_10s_bytes)" $((8 << 20)); }
report $root --for 12s --age-every 1s
test_that a_mapping_grows_old_by_referenced old
doctor_without() { pagetide doctor --json >out; is "$(field age_source out)" referenced; }
test_that doctor_names_the_next_source doctor_without
umount /sys/kernel/btf/vmlinux

# In a user namespace one is root and yet may not read page tables.
in_namespace() {
    su nobody -s /bin/sh -c "unshare -U -r sh -c 'mem anon 4 >ns.out & while ! grep -q ready ns.out; do sleep 0.1; done
        pagetide report \$! --for 1s --age-every 1s --json'" >report.json 2>err || { cat err; return 1; }
    case $(field age_source) in referenced | none) ;; *) field age_source; return 1 ;; esac
}
test_that root_of_a_namespace_gets_the_next_source in_namespace
notes
kill_group
exit 0
