#!/bin/sh
# real: all
# A database, a pre-fork server, a compile and a program in Go on version 2, on the multi-gen LRU too: right while everything cold leaves, behind a
# wall, and as tenants that are reclaimed, limited and served on after a kill. By the kernel's figures.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
disk 192 && cd $where
policy="--evict-older-than 300ms --age-every 100ms --every 100ms"
out() { awk '$1 == "pswpout" { print $2 }' /proc/vmstat; }

compiling
echo "exec gc 12 8000" >go.sh
# alone NAME: `sh NAME.sh`.
alone() { sh $1.sh >$1.alone 2>$1.err && [ -s $1.alone ] || { tail -n 3 $1.err; return 1; }; }
# as_alone NAME OPTION...: the same, under `run` with these, while pages leave.
as_alone() {
    name=$1
    shift
    before=$(out)
    pagetide run "$@" -- sh $name.sh >$name.managed 2>$name.err || { tail -n 3 $name.err; return 1; }
    echo "$(($(out) - before)) pages left of $name $*" >&3
    cmp $name.alone $name.managed && at_least pswpout $(($(out) - before)) 200
}
exec 3>&1
for one in compile go; do
    test_that ${one}_alone alone $one
    test_that ${one}_by_age as_alone $one $policy
done
test_that a_compile_in_a_wall as_alone compile --memory-max 8M

database
test_that a_database_is_made initialised
begin_server() {
    pagetide run $policy --report db.json -- su -s /bin/sh nobody -c "$server" >server.out 2>&1 &
    echo $! >db.pid
    up && pgbench_by -i -q -s 1
}
before=$(out)
test_that it_runs_by_age begin_server
work() { pgbench_by -n -c 2 -t "$1"; }
test_that it_works_by_age work 30
test_that its_books_are_right booked 60
test_that its_pages_left at_least pswpout $(($(out) - before)) 1000
echo "$(($(out) - before)) pages left of the database"
ended() { kill -INT $(cat db.pid) && wait_for 60 test -s db.json && at_least processes "$(field processes db.json | head -n 1)" 0; }
test_that it_ends ended

## Tenants. A tenant's processes start in its group.
test_that it_serves serve
group_of() { echo $groups/pagetide/$1; }
# Each page once, those of programs' files, too, which are in memory for all (a guest has no disk).
counted() {
    group=$(group_of $1)
    near resident "$(($(word $dir/$1/memory.stat anon) + $(word $dir/$1/memory.stat file)))" "$(all_rollups Pss)" 2 1048576
}
# By what is written, as some of it is back in memory at once. Since Linux 6.11 pages of zeroes are in swap and written nowhere, and a database's shared
# memory has many: there up to a fifth may be less.
case $(uname -r) in 6.1.*) zeroes=5 ;; *) zeroes=20 ;; esac
taken() {
    before=$(out)
    steal=$(word $dir/$1/memory.stat pgsteal_anon)
    echo "$2" >$dir/$1/memory.reclaim 2>/dev/null
    steal=$(($(word $dir/$1/memory.stat pgsteal_anon) - steal))
    written=$(($(out) - before))
    echo "$1: $steal pages stolen, $written written" >&3
    at_least stolen $steal $3 && near stolen $steal $written $zeroes 64
}
held() { at_most current "$(cat $(group_of $1)/memory.current)" "$(cat $1.limit)"; }
stands() { is "$(cat $(group_of $1)/memory.max)" "$(cat $1.limit)" && held $1; }
limited() {
    limit=$(($(cat $(group_of $1)/memory.current) * 3 / 4 / 4096 * 4096))
    echo $limit >$1.limit
    echo $limit >$dir/$1/memory.max && wait_for 30 stands $1
}
alive_all() { is "$(word $(group_of $1)/memory.events oom_kill)" 0; }

begin db "exec su -s /bin/sh nobody -c \"$server\""
test_that a_database_is_a_tenant up
web_ready() { grep -q ^ready web.out; }
begin web "exec workers 4 24 1000"
test_that a_pre_fork_server_is_a_tenant wait_for 60 web_ready
begin build "while :; do sh compile.sh >build.now 2>&1 && mv build.now build.last; done"
works() {
    pgbench_by -n -S -c 2 -t 30 && booked 60 || return 1
    kill -0 $(cat web.pid) && is "$(wc -w <$(group_of web)/cgroup.procs)" 5 || { cat web.out; return 1; }
    rm -f build.last
    wait_for 100 test -e build.last && cmp build.last compile.alone
}
test_that all_work works
for one in db web; do
    test_that ${one}_is_counted_as_by_the_kernel wait_for 30 counted $one
done
# The server goes through all of its memory each second: it gives what it has not come by since the last look.
test_that db_gives_what_the_kernel_has taken db 8m 500
test_that web_gives_what_the_kernel_has taken web 8m 1
# (Who is over a limit gives while others are asked.)
for one in db web; do
    test_that ${one}_is_limited limited $one
done
build_limited() { echo 16m >$dir/build/memory.max; }
test_that build_is_limited build_limited
test_that all_work_in_less works
again() { kill -9 $(cat serve.pid) && umount -l $dir && works; }
test_that all_work_without_a_manager again
test_that it_serves_again serve
kept() { is "$(cat $dir/db/memory.max)" "$(cat db.limit)" && is "$(cat $dir/web/memory.max)" "$(cat web.limit)" && held db && held web; }
test_that limits_are_in_force wait_for 10 kept
test_that all_work_still works
for one in db web build; do
    test_that nobody_was_killed_in_$one alive_all $one
done
kill -INT $(cat db.pid)
cd /
exit 0
