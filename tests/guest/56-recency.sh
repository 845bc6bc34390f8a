#!/bin/sh
# programs: hotset stream
# Recency on version 2, on the multi-gen LRU too: a stream that goes through a file again and again, beside a set of which each page is used
# each half a minute, in five tenants. MADV_SEQUENTIAL, MADV_RANDOM, and rules by tenant and by path for files of which the program says nothing. By VmSwap.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
disk 256
mib=10
names="none sequential random ruled named"
# The kernel ignores POSIX_FADV_NOREUSE for files in memory, as the guest's own are: on a disk pagetide finds out what it means.
hints() { $1 doctor --json >hints; grep -q "POSIX_FADV_NOREUSE $2" hints || { grep -B 5 "access hints" hints; return 1; }; }
test_that noreuse_is_not_seen_from_memory hints "$(command -v pagetide)" "is not"
cp "$(command -v pagetide)" $where/pagetide
# Before Linux 6.3 the kernel ignores it for all files.
case $GUEST_KERNEL in 6.1) seen="is not" ;; *) seen="are seen" ;; esac
test_that noreuse_is_as_this_kernel_has_it_from_a_disk hints $where/pagetide "$seen"
rm $where/pagetide
for name in $names; do
    # What zram keeps of it is little: this is of pages that are read, not of a device.
    dd if=/dev/zero of=$where/$name bs=1M count=$((4 * mib)) 2>/dev/null
done
sync
echo 3 >/proc/sys/vm/drop_caches
printf '[tenants.ruled]\nnoreuse = true\n[tenants.named]\nnoreuse-paths = ["%s/n*d"]\n' $where >serve.toml
# (By the usual budget looks are rarer in here than what is used again.)
test_that it_serves serve --config $PWD/serve.toml --look-budget 90%
# begin TENANT ADVICE
begin() {
    [ -d $dir/$1 ] || mkdir $dir/$1
    echo N0=1000 >$dir/$1/memory.workingset.refresh_interval
    inside $1 hotset $mib $mib 600 --rate 100 && mv $1.pid $1.hot && inside $1 stream $where/$1 $2 || return 1
}
for name in $names; do
    case $name in sequential | random) advice=$name ;; *) advice=none ;; esac
    test_that it_runs_in_$name begin $name $advice
done
passed() { for name in $names; do at_least "passes of $name" "$(grep -c '^read$' $name.out)" 6 || return 1; done; }
test_that all_have_been_through_their_files wait_for 90 passed
known() { for name in $names; do at_least "anon of $name" "$(word $dir/$name/memory.stat anon)" $((mib << 20)) || return 1; done; }
test_that all_is_known wait_for 30 known

# As much as the set is leaves of each: of what is used again only where nobody says anything of the stream. There files go first, until those come back
# that were wanted: it takes some rounds.
all() { for name in $names; do kill -$1 $(cat $name.hot $name.pid); done; }
out() { echo $(($(status $(cat $1.hot) VmSwap))); }
round() {
    all STOP
    for one in $names; do asks $one $mib || return 1; done
    for one in $names; do echo "$one: of $((mib << 10)) KiB that are used again $(out $one) KiB are out; pgsteal_file $(word $dir/$one/memory.stat pgsteal_file)" >&3; done
    for one in sequential random ruled named; do at_most "VmSwap of $one" "$(out $one)" 1024 || return 1; done
    [ "$(out none)" -ge 2048 ] && touch left
    all CONT
}
exec 3>&1
for try in 1 2 3 4 5; do
    test_that what_is_used_again_stays_$try round
    [ -e left ] && break
    sleep 4
done
test_that it_leaves_where_nobody_says_anything test -e left
all CONT
alive() { for name in $names; do kill -0 $(cat $name.hot) && kill -0 $(cat $name.pid) || return 1; done; }
test_that all_go_on alive
all KILL
umount -l $where
exit 0
