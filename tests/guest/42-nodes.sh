#!/bin/sh
# Tenants on two memory nodes: what is on each, and how old it is, beside what the kernel counts of the same group.
# nodes: 2
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

# of_node FILE NAME NODE: bytes of that node in the line of that name.
of_node() { sed -n "s/^$2 .*N$3=\([0-9]*\).*/\1/p" $1; }
ours() { of_node $dir/$1/memory.numa_stat $2 $3; }
# Of files the kernel counts what swap has ready to be used again.
theirs() {
    file=$groups/pagetide/$1/memory.numa_stat
    case $2 in
    file) echo $(($(of_node $file file $3) - $(of_node $file swapcached $3))) ;;
    *) of_node $file $2 $3 ;;
    esac
}
# as_kernel TENANT: anon and file on both nodes. Besides 2%, a program's own text, which is nobody's there.
as_kernel() {
    for name in anon file; do
        for node in 0 1; do
            near "$name of $1 on N$node" "$(ours $1 $name $node)" "$(theirs $1 $name $node)" 2 1048576 || return 1
        done
    done
}
show() { echo "$1: ours $(sed 's/ /,/' $dir/$1/memory.numa_stat | tr '\n' ' ') kernel's anon $(theirs $1 anon 0) $(theirs $1 anon 1) file $(theirs $1 file 0) $(theirs $1 file 1)"; }
# bin FILE NODE TYPE WHICH: bytes of that type in a bin of that node; first, last, or all of them.
bin() {
    awk -v node="N$2" -v type="$3" -v which="$4" '
        /^N/ { is = $1 == node; next }
        is { split($0, at, type "="); split(at[2], value, " "); if (n++ == 0) first = value[1]; last = value[1]; all += value[1] }
        END { printf "%d", which == "first" ? first : which == "last" ? last : all }' $1
}

two() { at_least nodes "$(ls -d /sys/devices/system/node/node* | wc -l)" 2 && [ -d /sys/devices/system/node/node1 ]; }
test_that there_are_two_nodes two
test_that it_serves serve
disk >disk.err 2>&1
test_that there_is_a_disk test -d "$where"
made() { mkdir $dir/p $dir/p/one $dir/p/two $dir/p/file $dir/p/shared $dir/p/cache && [ -d $dir/node0/workingset_report ] && [ -d $dir/node1/workingset_report ]; }
test_that both_have_a_directory made
test_that a_program_is_on_node_1 inside p/one onnode 1 mem anon 32
test_that another_is_on_node_0 inside p/two onnode 0 mem anon 16
test_that a_mapped_file_is_on_node_1 inside p/file onnode 1 mem file 16
test_that shared_memory_is_on_node_0 inside p/shared onnode 0 mem memfd 8
fill() { once p/cache onnode 1 dd if=/dev/zero of=data bs=1M count=16 2>/dev/null && sync; }
test_that so_is_what_nobody_maps fill

## Sizes, of each and of both together.
known() { at_least N1 "$(ours p anon 1)" 33554432 && at_least N0 "$(ours p anon 0)" 16777216 && at_least file "$(ours p file 1)" 33554432; }
test_that its_pages_are_known wait_for 60 known
# Who has ended since the last look is gone at the next.
for tenant in p/one p/two p/file p/shared p/cache p; do
    test_that numa_stat_of_${tenant##*/}_is_the_kernels wait_for 20 as_kernel $tenant
    show $tenant
done

## Ages: of the nodes that are switched on, by the bins of each.
age=$dir/p/memory.workingset.page_age
bins() { echo 1000,3000 >$dir/node0/workingset_report/page_age_intervals && echo 2000 >$dir/node1/workingset_report/page_age_intervals; }
test_that bins_are_of_a_node bins
interval() {
    echo N1=500 >$dir/p/memory.workingset.refresh_interval &&
        grep -q "^N0=0 N1=500 " $dir/p/memory.workingset.refresh_interval
}
test_that one_node_is_switched_on interval
alone() { is "$(grep -c . $age)" 3 && is "$(sed -n 1p $age)" N1 && is "$(sed -n '2s/ .*//p' $age)" 2000; }
test_that only_that_is_told alone
both() { echo N0=500 >$dir/p/memory.workingset.refresh_interval && is "$(grep -n ^N $age | tr '\n' ' ')" "1:N0 5:N1 "; }
test_that both_are_told both
old() {
    at_least "old on N1" "$(bin $age 1 anon last)" 33554432 && at_least "old on N0" "$(bin $age 0 anon last)" 16777216 &&
        at_least "old files on N1" "$(bin $age 1 file last)" 33554432
}
test_that idle_pages_are_old_on_their_node wait_for 40 old
# Shared memory ages as anonymous memory does, and is counted among files.
sums() {
    for node in 0 1; do
        shared=$(theirs p shmem $node)
        near "anon on N$node" "$(bin $age $node anon all)" "$(($(theirs p anon $node) + shared))" 2 1048576 &&
            near "file on N$node" "$(bin $age $node file all)" "$(($(theirs p file $node) - shared))" 2 1048576 || return 1
    done
}
test_that bins_sum_to_the_kernels_sizes wait_for 10 sums
guessed=$dir/p/memory.workingset.page_age_estimated
cache() {
    near "unmapped on N1" "$(bin $guessed 1 file all)" "$(($(theirs p file 1) - $(theirs p file_mapped 1)))" 2 1048576 &&
        at_most "unmapped on N0" "$(bin $guessed 0 file all)" 1048576
}
test_that what_nobody_maps_is_on_its_node cache
root() {
    echo 500 >$dir/node1/workingset_report/refresh_interval && [ -z "$(cat $dir/node0/workingset_report/page_age)" ] &&
        at_least "all on N1" "$(sed 's/.*anon=\([0-9]*\).*/\1/' $dir/node1/workingset_report/page_age | awk '{ n += $1 } END { print n }')" 33554432
}
test_that the_root_tells_of_a_node root

## A node's pages leave: its size falls, the other's stays.
leave() { echo 16m >$dir/p/one/memory.reclaim && at_least VmSwap "$(status $(cat one.pid) VmSwap)" 16000; }
test_that some_of_one_leaves leave
# What left is known at the next look.
test_that numa_stat_is_the_kernels_still wait_for 20 as_kernel p/one
show p/one
neighbour() { is "$(status $(cat two.pid) VmSwap)" 0; }
test_that the_other_nodes_stay neighbour

## As many bins as there may be. cat of busybox reads by sendfile(2), and no further than stat(2) says; dd reads to the end.
many() {
    for node in $dir/node*; do
        seq -s , 4294960000 100 4294963000 >$node/workingset_report/page_age_intervals || return 1
        echo N${node##*node}=500 >$dir/p/memory.workingset.refresh_interval || return 1
    done
    sleep 1
    for file in $age $guessed $dir/p/memory.numa_stat $dir/p/memory.workingset.refresh_interval; do
        sent=$(cat $file | wc -c) && whole=$(dd if=$file bs=1M 2>/dev/null | wc -c) && size=$(stat -c %s $file)
        echo "${file##*/}: $whole bytes, of $size"
        is "$sent" "$whole" && at_least size $size $whole || return 1
    done
    lines=$(($(ls -d $dir/node* | wc -l) * 33))
    is "$(dd if=$age bs=1M 2>/dev/null | wc -l)" $lines && is "$(cat $guessed | wc -l)" $lines
}
many
test_that all_of_a_long_report_is_read many

kill -9 $(cat one.pid) $(cat two.pid) $(cat file.pid) $(cat shared.pid)
gone() { for tenant in one two file shared cache; do wait_for 20 rmdir $dir/p/$tenant || return 1; done; rmdir $dir/p; }
test_that they_are_removed gone
exit 0
