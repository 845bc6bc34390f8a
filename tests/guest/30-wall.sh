#!/bin/sh
# Walls of version 2, by the example `hard_limit` of crate host: where they are made for whom, what their limits do by
# the kernel's files, and who lifts them. `busctl` below stands in for systemd: it does what a scope's start does
# to control groups, and no more.
. /suite/lib
# Other scripts may have left groups.
before=$(ls -d $groups/*/ 2>/dev/null)

# manage COMMAND...: runs it as a manager, up to `hard_limit manage ./fill`; sets dir, guard, pid and manager.
manage() {
    rm -f orders
    mkfifo orders && chmod 666 orders
    : >said
    "$@" <orders >said 2>said.err &
    exec 9>orders
    for try in $(seq 100); do
        [ -s said ] && break
        sleep 0.1
    done
    set -- $(head -n 1 said)
    dir=$2 guard=$4 pid=$6
    [ -n "$pid" ] || { cat said.err; return 1; }
    manager=$(awk '/^PPid/ { print $2 }' /proc/$pid/status)
    lines=$(wc -l <said)
    for try in $(seq 100); do
        [ "$(awk '/^RssAnon/ { print $2 }' /proc/$pid/status)" -gt 49000 ] && return
        sleep 0.1
    done
    echo "it does not fill its memory"
    return 1
}
# ask ORDER: sets said to the answer.
ask() {
    before=$(wc -l <said)
    echo "$1" >&9
    for try in $(seq 100); do
        [ "$(wc -l <said)" -gt "$before" ] && break
        sleep 0.1
    done
    answer=$(tail -n 1 said)
}
ok() { ask "$1" && is "$answer" ok; }
value() { cat $dir/$1; }
alive() { [ -e /proc/$1 ] && ! grep -q '^State:.Z' /proc/$1/status; }
gone() {
    for try in $(seq 20); do
        alive $1 || return 0
        sleep 0.1
    done
    echo "$1 is still there"
    return 1
}
# Its manager ends in good order.
end() {
    gone $manager && gone $guard && [ ! -d $dir ] || { echo "$dir is left"; cat said.err; return 1; }
}
printf '#!/bin/sh\nexec mem anon 48 >/dev/null\n' >fill
chmod 755 fill .
# begin NAME COMMAND...: a test that such a manager is there; not in a subshell, for what `manage` sets.
begin() {
    name=$1
    shift
    manage "$@" >why 2>&1 && test_that $name true || test_that $name eval 'cat why; false'
}
# wall_ends NAME
wall_ends() {
    exec 9>&-
    test_that $1 end
}
inside() { is "$(value cgroup.procs)" $pid && is "$(dirname $dir)" "$1"; }

## The story: in a container, where the mount is read-only, root was told to run as root.
read_only() {
    unshare -m sh -c "mount -o remount,bind,ro $groups && hard_limit manage ./fill" </dev/null >said 2>&1
    grep -q "mounted read-only" said && grep -q "remount,rw" said || { cat said; return 1; }
}
test_that what_is_read_only_is_called_so read_only

## Below the root, which may have processes and groups.
begin a_wall_below_the_root hard_limit manage ./fill
test_that the_program_is_in_it inside $groups
limits() {
    ok "max 67108864" && is "$(value memory.max)" 67108864 && ok "high 60000000" &&
        is "$(value memory.high)" 59998208 && ok "swap 33554432" && is "$(value memory.swap.max)" 33554432 &&
        ok lift && is "$(value memory.max) $(value memory.high) $(value memory.swap.max)" "max max max"
}
test_that limits_are_set_and_lifted limits
figures() {
    ask get && set -- $answer && near charged $2 $(value memory.current) 2 262144 &&
        at_least charged $2 50000000 && is "$6 $8 ${10} ${12}" "0 0 none 1" || { echo "$answer"; return 1; }
    [ ! -e $dir/memory.peak ] || at_least peak $4 $2
}
[ -e $dir/memory.peak ] && test_that figures_are_the_kernels figures
if [ "$GUEST_ZRAM_MIB" -gt 0 ]; then
    # Linux 6.1 takes up to a third more than it is asked for.
    reclaim() {
        ask "reclaim 20971520 100" && set -- $answer && at_least fell $2 18000000 && at_most fell $2 31457280 &&
            at_least memory.swap.current "$(value memory.swap.current)" 18000000 || { echo "$answer"; return 1; }
        echo "$answer" >>reclaim.out
    }
    test_that reclaim_takes_so_much reclaim
    cat reclaim.out
    below() { ok "max 20971520" && at_most memory.current $(value memory.current) 20971520 && alive $pid; }
    test_that a_limit_below_what_is_charged below
    test_that nothing_is_killed is "$(awk '$1 == "oom_kill" { print $2 }' $dir/memory.events)" 0
fi
killed() {
    ok "max 67108864" && kill -9 $manager && sleep 1 && is "$(value memory.max)" max && gone $guard && alive $pid
}
test_that the_guard_of_a_killed_manager_lifts killed
exec 9>&-
taken() { hard_limit left $dir >left.out && grep -q "^left $dir pids 1 max none gone false" left.out || { cat left.out; return 1; }; }
test_that the_next_start_finds_it taken
kill -9 $pid
removed() { gone $pid && hard_limit left $dir >left.out && [ ! -d $dir ]; }
test_that the_next_start_removes_it removed

begin another hard_limit manage ./fill
stays() {
    ok "max 67108864" && kill -9 $guard && gone $guard && kill -9 $manager && sleep 1 &&
        is "$(value memory.max)" 67108864 && hard_limit left $dir >left.out && is "$(value memory.max)" max && alive $pid
}
test_that without_its_guard_it_stays_until_the_next_start stays
exec 9>&-
kill -9 $pid
test_that and_is_removed removed

begin a_third hard_limit manage ./fill
wall_ends in_good_order_nothing_is_left

## Beside a group that has other processes, too: its limits hold all the same.
group=$groups/service
mkdir $group
echo 100M >$group/memory.max
sleep 1000 &
other=$!
echo $other >$group/cgroup.procs
within() { sh -c "echo 0 >$group/cgroup.procs; exec $*"; }
begin a_wall_beside_a_service within hard_limit manage ./fill
test_that it_is_beside inside $groups
ceiling() {
    is "$(value memory.max)" 104857600 && ok "max none" && is "$(value memory.max)" 104857600 &&
        ok "max 200000000" && is "$(value memory.max)" 104857600 && ask get && has_word "$answer" 104857600 &&
        is "$(cat $group/cgroup.procs | wc -l)" 3 && kill -9 $manager && sleep 1 &&
        is "$(value memory.max)" 104857600
}
test_that the_services_limit_is_its_ceiling ceiling
exec 9>&-
kill -9 $pid
test_that and_it_is_removed removed
kill $other

## Alone in a group: below it.
begin a_wall_in_a_group_of_our_own within hard_limit manage ./fill
test_that it_is_below inside $group
leaf() {
    is "$(cat $dir.manager/cgroup.procs | tr '\n' ' ')" "$manager $guard " && is "$(cat $group/cgroup.procs)" "" &&
        is "$(cat $group/memory.max) $(value memory.max)" "104857600 max"
}
test_that the_manager_stands_beside_it leaf
wall_ends it_ends_in_good_order
as_before() { is "$(ls -d $group/*/ 2>/dev/null)$(cat $group/cgroup.subtree_control)" ""; }
test_that the_group_is_as_before as_before

## The same as an ordinary user, whose group it is.
chown -R nobody $group
chmod 777 .
user() { sh -c "echo 0 >$group/cgroup.procs; exec su nobody -s /bin/sh -c \"exec $*\""; }
begin a_users_wall_in_its_own_group user hard_limit manage ./fill
test_that the_users_is_below inside $group
test_that the_users_limit ok "max 67108864"
users_guard() { kill -9 $manager && sleep 1 && is "$(value memory.max)" max && gone $guard; }
test_that the_users_guard_lifts users_guard
exec 9>&-
# Of another user: root leaves it alone.
others() { hard_limit left $dir >left.out && is "$(cat left.out)" "" && [ -d $dir ]; }
test_that root_leaves_it_alone others
kill -9 $pid
users_next() { gone $pid; su nobody -s /bin/sh -c "hard_limit left $dir" >left.out && [ ! -d $dir ] && [ ! -d $dir.manager ]; }
test_that the_users_next_start_removes_it users_next
echo -memory >$group/cgroup.subtree_control 2>/dev/null

## An ordinary user without one.
nowhere() {
    su nobody -s /bin/sh -c "hard_limit manage touch started" >out 2>&1
    is $? 3 && grep -q Delegate=yes out && [ ! -e started ] || { cat out; return 1; }
}
test_that a_user_without_a_group_is_told nowhere

## A scope of systemd's.
chown -R root $group
sleep 1000 &
other=$!
echo $other >$group/cgroup.procs
mkdir -p /run/systemd/system bin $groups/system.slice
echo +memory >$groups/system.slice/cgroup.subtree_control
cat >bin/busctl <<'END'
#!/bin/sh
echo "$*" >>/tmp/busctl.out
while [ "$1" != StartTransientUnit ]; do shift; done
name=$3
while [ "$1" != PIDs ]; do shift; done
mkdir /sys/fs/cgroup/system.slice/$name && shift 3
( sleep 0.2; for one; do case $one in [0-9]*) [ -e /proc/$one ] && echo $one >/sys/fs/cgroup/system.slice/$name/cgroup.procs;; *) break;; esac; done ) &
END
chmod +x bin/busctl
path=$PATH
PATH=$PWD/bin:$PATH
begin a_wall_in_a_scope within hard_limit manage ./fill
in_scope() {
    case $dir in $groups/system.slice/pagetide-*.scope/pagetide-*) ;; *) echo "$dir"; return 1 ;; esac
    # The service's limit does not reach there by itself.
    is "$(value memory.max)" 104857600 && is "$(cat $group/cgroup.procs)" $other
}
test_that it_is_in_the_scope in_scope
wall_ends the_scopes_wall_ends
printf '#!/bin/sh\nexit 1\n' >bin/busctl
begin without_a_scope_there_is_one within hard_limit manage ./fill
test_that beside_again inside $groups
wall_ends that_ends
PATH=$path
rm -r /run/systemd/system
kill $other
sleep 0.2
rmdir $groups/system.slice/*.scope $groups/system.slice $group

test_that no_group_is_left is "$(ls -d $groups/*/ 2>/dev/null)" "$before"
exit 0
