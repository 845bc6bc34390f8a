#!/bin/sh
# programs: hotset stream
# A stream that its program declares by POSIX_FADV_NOREUSE, beside memory that is used again: in tenants, under `attach` and under `run`, without any
# rule. By the kernel's VmSwap of the program whose memory is used again. Beside it the same two programs without the declaration.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
disk 256
mib=10
# On a disk pagetide finds out what the hint means: the kernel ignores it for files in memory, as the guest's own are.
cp "$(command -v pagetide)" $where/pagetide
PATH=$where:$PATH
# Before Linux 6.3 the kernel ignores the hint for all files: there a declared stream is as any other.
case $GUEST_KERNEL in 6.1) heeds=false ;; *) heeds=true ;; esac
# stays KIB, leaves KIB: what is in swap of the memory that is used again.
stays() { at_most "KiB in swap" "$1" 1024; }
leaves() { at_least "KiB in swap" "$1" 2048; }
declared() { if $heeds; then stays $1; else leaves $1; fi; }
for name in none noreuse; do
    # What zram keeps of it is little: this is of pages that are read, not of a device.
    dd if=/dev/zero of=$where/$name bs=1M count=$((4 * mib)) 2>/dev/null
done
sync
echo 3 >/proc/sys/vm/drop_caches
exec 3>&1
hot="hotset $mib $mib 600 --rate 640"
swapped() { echo $(($(status $(cat $1.hot) VmSwap))); }
# passed N NAME...: each stream has come to its file's end so often.
passed() {
    times=$1
    shift
    for one; do at_least "passes of $one" "$(grep -c '^read$' $one.out)" $times || return 1; done
}

## In tenants: as much is requested as is used again, while that has been idle for some scans, and the stream has not.
test_that it_serves serve --look-budget 90%
pair() { mkdir $dir/$1 && inside $1 $hot && mv $1.pid $1.hot && inside $1 stream $where/$1 $1; }
for name in none noreuse; do test_that it_runs_in_$name pair $name; done
known() { for name in none noreuse; do at_least "anon of $name" "$(word $dir/$name/memory.stat anon)" $((mib << 20)) || return 1; done; }
test_that all_is_known wait_for 60 known
both() { kill -$1 $(cat none.$2 noreuse.$2); }
try() {
    wait_for 60 passed $((4 * $1)) none noreuse || return 1
    both STOP hot
    sleep 4
    both STOP pid
    asks none $mib && asks noreuse $mib || return 1
    echo "in tenants, of $((mib << 10)) KiB that are used again: $(swapped none) KiB are in swap beside a stream, $(swapped noreuse) KiB beside a declared one" >&3
    both CONT hot
    both CONT pid
    leaves $(swapped none) && declared $(swapped noreuse)
}
# As long as no file page was wanted back, some file pages go first.
some_try() { try 1 || try 2 || try 3; }
test_that a_request_leaves_what_is_used_again_beside_a_declared_stream some_try
both KILL hot
both KILL pid
test_that it_ends stopped

## Under `attach` and `run`: by a request, as above.
# managed_pair NAME VERB ADVICE [OPTION...]: both programs.
managed_pair() {
    name=$1 verb=$2 advice=$3
    shift 3
    script="$hot & echo \$! >$PWD/$name.hot; exec stream $where/$advice $advice"
    : >$name.out
    case $verb in
    run) pagetide run --age-every 1s "$@" -- sh -c "$script" >$name.out 2>$name.err & echo $! >$name.pid ;;
    attach) sh -c "$script" >$name.out 2>$name.err & echo $! >$name.pid ;;
    esac
    wait_for 60 passed 1 $name || { cat $name.err; return 1; }
    [ $verb = run ] && return
    pagetide attach --age-every 1s "$@" $(cat $name.pid) >$name.log 2>&1 &
}
more_passes() { wait_for 60 passed $((4 + $(grep -c '^read$' $1.out))) $1; }
# by_request NAME: what is in swap after it, in the file NAME.swapped.
by_request() {
    more_passes $1 || return 1
    kill -STOP $(cat $1.hot)
    sleep 4
    kill -STOP $(cat $1.pid)
    timeout 60 pagetide reclaim $(cat $1.pid) ${mib}M >$1.asked 2>&1
    swapped $1 >$1.swapped
    kill -CONT $(cat $1.hot) $(cat $1.pid)
    echo "$1: after a request of $mib MiB $(cat $1.swapped) KiB of what is used again are in swap" >&3
    [ -s $1.swapped ] || { cat $1.asked; return 1; }
}
# As in tenants, some file pages may go first.
requests() {
    for try in 1 2 3 4 5; do
        by_request $1 || return 1
        case $heeds-$1 in true-*-noreuse) return ;; *) leaves $(cat $1.swapped) >/dev/null && return ;; esac
    done
}
for verb in attach run; do
    for advice in none noreuse; do
        one=$verb-$advice
        test_that ${one}_begins managed_pair $one $verb $advice
        test_that ${one}_takes_a_request requests $one
        kill -9 $(cat $one.hot $one.pid)
    done
    test_that a_request_under_${verb}_takes_what_is_used_again_beside_a_stream leaves $(cat $verb-none.swapped)
    test_that and_not_under_${verb}_beside_a_declared_stream declared $(cat $verb-noreuse.swapped)
done

## Under the hard limit of `run`, where the kernel reclaims, too, and heeds the hint by itself. The mean of some seconds. Beside a stream
# without the hint it was 120 to 4,460 KiB.
by_limit() {
    more_passes $1 || return 1
    sum=0
    for second in 1 2 3 4 5 6 7 8; do
        sleep 1
        sum=$((sum + $(swapped $1)))
    done
    echo $((sum / 8)) >$1.swapped
    echo "$1: $(cat $1.swapped) KiB are in swap; the stream has $(status $(cat $1.pid) RssFile) KiB in memory" >&3
}
for advice in none noreuse; do
    # File pages are charged to the group that reads them first.
    echo 1 >/proc/sys/vm/drop_caches
    one=limit-$advice
    test_that ${one}_begins managed_pair $one run $advice --memory-max 28M
    test_that ${one}_goes_on by_limit $one
    kill -9 $(cat $one.hot $one.pid)
done
if $heeds; then test_that a_limit_leaves_what_is_used_again_beside_a_declared_stream stays $(cat limit-noreuse.swapped); fi
umount -l $where
exit 0
