#!/bin/sh
# What `serve` is told and asked on version 2: a configuration, read once more by SIGHUP; the rule of working-set reporting's author; who may not ask;
# the ages of sixteen; a budget of all; killed again and again.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

ours=$groups/pagetide

## A configuration, and what is made anew later.
configured() { printf '[tenants."a/b"]\nmemory-max = "%s"\n%s' "$1" "$2" >serve.toml; }
configured 64M
test_that it_serves_by_a_configuration serve --config $PWD/serve.toml
held_to() { is "$(cat $ours/a/b/memory.max)" $1; }
test_that its_tenant_is_held held_to 67108864
anew() { rmdir $dir/a/b && mkdir $dir/a/b && held_to 67108864; }
test_that one_that_is_made_anew_is_held anew
again() { configured 32M && kill -HUP $(cat serve.pid) && wait_for 20 held_to 33554432; }
test_that it_is_read_once_more again
wrong() { configured 16M 'memory-mx = "1G"' && kill -HUP $(cat serve.pid) && wait_for 20 grep -q "nothing is changed" serve.out && held_to 33554432; }
test_that a_mistake_changes_nothing wrong
gone() { rmdir $dir/a/b && rmdir $dir/a; }
test_that they_go gone

## The agent's rule: bins that are labelled with so many milliseconds or more are written to memory.reclaim. Half of the program is in use.
reports() { echo 2000,4000 >$dir/node0/workingset_report/page_age_intervals; }
test_that bins_are_set reports
mkdir $dir/c
echo N0=500 >$dir/c/memory.workingset.refresh_interval
test_that a_program_is_inside inside c mem ages 32 500
c=$(cat c.pid)
# labelled FROM TENANT: bytes.
labelled() { awk -v from=$1 '/=/ && $1 >= from { split($2, a, "="); split($3, f, "="); n += a[2] + f[2] } END { printf "%d", n }' $dir/$2/memory.workingset.page_age; }
cold() { at_least cold "$(labelled 18446744073709551615 c)" 15000000; }
test_that half_of_it_grows_cold wait_for 60 cold
echo "cold $(labelled 18446744073709551615 c), charged $(cat $ours/c/memory.current)"
asked() {
    for round in 1 2 3; do
        sleep 4
        echo "$(labelled 18446744073709551615 c)" 2>/dev/null >$dir/c/memory.reclaim
    done
    near VmSwap "$(status $c VmSwap)" 16384 5 512 && at_most current "$(cat $ours/c/memory.current)" 19000000 && kill -0 $c
}
test_that what_is_cold_is_out_and_nothing_else asked
echo "VmSwap $(status $c VmSwap) KiB, charged $(cat $ours/c/memory.current)"

## Who is nobody has neither ages nor figures, and takes nothing.
refused() {
    for words in "stat /c" "report /c" "reclaim /c 1M" "report $c" "reclaim $c 1M"; do
        su -s /bin/sh nobody -c "pagetide $words" >nobody.out 2>&1 && { echo "pagetide $words: $(head -n 3 nobody.out)"; return 1; }
    done
    su -s /bin/sh nobody -c "cat $dir/c/memory.stat" >nobody.out 2>&1 && { echo "it was read"; return 1; }
    return 0
}
test_that another_user_is_refused refused
kill -9 $c

## Sixteen: of eight half is in use, and nothing of the others, which have memory of a file system or what they share with nobody. By what a look each
## second finds.
for n in $(seq 16); do
    mkdir $dir/t$n && echo N0=500 >$dir/t$n/memory.workingset.refresh_interval
    kind=$(echo "memfd cow file kept" | cut -d ' ' -f $((n % 4 + 1)))
    [ $n -gt 8 ] || kind=ages
    inside t$n mem $kind 4 500 >/dev/null || echo "FAILED t$n"
done
# All that is not the half in use is cold, by the kernel's figures. The program itself lies in shared memory here (a guest has no disk), and each page of it
# is told of who was met first with it.
anon_of() { awk '$1 == 18446744073709551615 { split($2, a, "="); printf "%d", a[2] }' $dir/$1/memory.workingset.page_age; }
# of TENANT EDGE TYPE: bytes in the bin that ends there.
of_bin() { awk -v edge=$2 -v type=$3 '$1 == edge { split($0, at, type "="); split(at[2], value, " "); printf "%d", value[1] }' $dir/$1/memory.workingset.page_age; }
idle() {
    for n in $(seq 9 16); do
        pid=$(cat t$n.pid) young=$(($(of_bin t$n 2000 anon) + $(of_bin t$n 4000 anon)))
        own=$(($(status $pid RssAnon) * 1024)) shared=$(($(status $pid RssShmem) * 1024))
        at_most "young of t$n" $young 131072 && at_most "cold of t$n" $(anon_of t$n) $((own + shared + 65536)) && at_least "cold of t$n" $(anon_of t$n) $((own - 131072)) || return 1
    done
}
test_that who_is_idle_is_cold wait_for 60 idle
all_cold() {
    for n in $(seq 8); do
        pid=$(cat t$n.pid) cold=$(anon_of t$n)
        own=$(($(status $pid RssAnon) * 1024 - 2097152)) shared=$(($(status $pid RssShmem) * 1024))
        at_least "cold of t$n" $cold $((own - 131072)) && at_most "cold of t$n" $cold $((own + shared + 65536)) || return 1
        # The other half is young.
        near "young of t$n" "$(($(of_bin t$n 2000 anon) + $(of_bin t$n 4000 anon)))" 2097152 5 131072 || return 1
    done
}
# (A pass may be late in here, and then what is in use is not for a moment.)
test_that all_ages_are_right wait_for 60 all_cold

## Killed, time and again: all live, and the next one goes on.
limited() { echo 3m >$dir/t1/memory.max && wait_for 30 is_limited; }
is_limited() { is "$(cat $ours/t1/memory.max)" 3145728; }
test_that one_is_limited limited
killed() {
    for round in 1 2 3 4 5 6; do
        kill -9 $(cat serve.pid) && umount -l $dir && serve && is_limited && is "$(cat $dir/t1/memory.max)" 3145728 || return 1
        for n in $(seq 16); do kill -0 $(cat t$n.pid) || { echo "t$n has ended"; return 1; }; done
    done
}
test_that six_times_nothing_is_lost killed
nobody() { is "$(word $ours/memory.events oom_kill)" 0; }
test_that nobody_was_killed nobody

## A budget of all.
test_that it_ends stopped
test_that it_serves_with_a_budget serve --memory-max 48M
within() { at_most current "$(cat $ours/memory.current)" 50331648 && at_least VmSwap "$(awk '$1 == "VmSwap:" { n += $2 } END { print n }' $(sed 's|.*|/proc/&/status|' t*.pid))" 7000; }
test_that all_are_within_it wait_for 60 within
test_that nobody_was_killed_for_it nobody
# What is asked for stays with the tenants' root: the next one would hold it.
echo max >$dir/memory.max
kill -9 $(cat t*.pid)
removed() { for n in $(seq 16); do wait_for 20 rmdir $dir/t$n || return 1; done; }
test_that they_are_removed removed
exit 0
