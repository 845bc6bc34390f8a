#!/bin/sh
# programs: notice
# Nothing to notice on version 2: shells, shims, other users, namespaces and limits around a program whose cold memory leaves, beside the same alone.
# (There is no nice, perl, Python, strace or gdb in here.)
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
disk && cd $where # a setuid bit counts there
[ -e /usr/bin/env ] || { mkdir -p /usr/bin && ln -s /bin/env /usr/bin/env; }
export NOTICE_PATIENCE=4 P=$where/notice
cp /files/notice $P && chmod 755 $P
begin=$(out)

# wrapped NAME SCRIPT [NONE]: with mappings, where addresses are as they are without randomness.
wrapped() { test_that "$1" tells "$2" "$3"; }
tells() {
    beside 7 "" linux64 -R sh -c "$1" || return 1
    grep -q '^held ' managed && { [ -n "$2" ] || grep -q VmFlags: managed; } || { head -n 5 managed; return 1; }
}
wrapped a_shell '$P hold'
wrapped a_shell_that_becomes_it 'exec $P hold'
wrapped shells_in_shells 'sh -c "sh -c \"$P hold; exit \\\$?\"; exit \$?"'
wrapped exec_and_env "exec sh -c 'exec env -u X sh -c \"exec \$P hold\"'"
wrapped a_shim_that_execs_twice '$P exec_twice'
wrapped a_session_of_its_own 'setsid $P hold'
wrapped timeout_nice_env 'renice -n 1 -p $$ >/dev/null && exec timeout 300 ionice -c 3 env X=1 $P hold'
wrapped a_substitution 'x=$($P hold; echo $?); echo "$x"; exit ${x##*[!0-9]}'
wrapped in_the_background '$P hold & wait $!'
wrapped a_pipe_behind_it '{ $P hold; echo $? >status$NOTICE_MANAGED; } | cat; exit $(cat status$NOTICE_MANAGED)'
wrapped another_user "su nobody -s /bin/sh -c '\$P hold'" none
wrapped without_new_rights 'setpriv --nnp $P hold'
wrapped namespaces 'unshare -f -p --mount-proc -i -n -u $P hold'
wrapped a_user_namespace 'unshare -r -f -p --mount-proc $P hold'
wrapped little_of_everything 'ulimit -v 400000; ulimit -n 20; ulimit -l 0; $P hold'
is_root() { tells 'cp $P setuid$NOTICE_MANAGED && chmod 4755 setuid$NOTICE_MANAGED && exec su nobody -s /bin/sh -c "./setuid$NOTICE_MANAGED hold"' none && grep -q '^euid 0$' managed; }
test_that a_setuid_program is_root
test_that shells_in_a_wall beside 7 "--memory-max 8M" sh -c 'sh -c "$P hold; exit \$?"; exit $?'
told $begin
cd /
exit 0
