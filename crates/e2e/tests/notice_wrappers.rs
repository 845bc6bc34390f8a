//! Wrappers, shims, other users, debuggers and sanitizers around a program while its cold memory is
//! paged out.
#![forbid(unsafe_code)]

use e2e::guard::Run;
use e2e::notice::{Pair, beside, each, notice};
use e2e::programs;
use e2e::temp::{TempDir, serial};
use e2e::zram::Swap;

/// Runs the shell script `script`, in which `$P` is the program, unmanaged and managed. The program
/// ends with 7 if all was right. Every user may run it.
fn run_wrapped(program: &str, script: &str) -> Pair {
    let folder = TempDir::public();
    let copy = folder.file("notice");
    std::fs::copy(program, &copy).expect("room for a copy");
    // The program also prints its mappings, so addresses must not be randomised (`setarch -R`).
    let run = Run::new(["setarch", "-R", "sh", "-c", script]).env("P", &copy);
    let pair = beside(&run);
    assert_eq!(
        pair.alone.status.code(),
        Some(7),
        "{script} alone: {}",
        pair.alone.stderr
    );
    pair.assert_same(script);
    pair.assert_paged_out(script);
    pair
}

/// Runs each script around the program, unmanaged and managed; checks that the results are equal.
fn check_wrapped(program: &str, scripts: &[&str]) {
    let _swap = Swap::shared();
    each(scripts, |script| {
        let reported = run_wrapped(program, script).alone.stdout;
        // No mappings are printed if a script filters them or the file has the set-user-id bit.
        let may_tell = !script.starts_with("gdb ") && !script.starts_with("su ");
        assert_eq!(reported.contains("VmFlags:"), may_tell, "{script}");
    });
}

#[test]
fn programs_below_shells_and_shims_notice_nothing() {
    let _serial = serial();
    let scripts = [
        "$P hold",
        "exec $P hold",
        "sh -c 'sh -c \"$P hold; exit \\$?\"; exit $?'",
        "exec sh -c 'exec env -u X sh -c \"exec $P hold\"'",
        "$P exec_twice",
        "setsid -w $P hold",
        "timeout 60 nice -n 1 env X=1 $P hold",
        "x=$($P hold; echo $?); echo \"$x\"; exit ${x##*[!0-9]}",
        "$P hold & wait $!",
        "python3 -c 'import os; os.execv(os.environ[\"P\"], [\"x\", \"hold\"])'",
        "python3 -c 'import os, subprocess, sys; sys.exit(subprocess.call([os.environ[\"P\"], \"hold\"]))'",
        "perl -e 'exec $ENV{P}, \"hold\"'",
    ];
    check_wrapped(&notice(), &scripts);
}

#[test]
fn programs_of_other_users_and_namespaces_notice_nothing() {
    let _serial = serial();
    let scripts = [
        "su nobody -s /bin/sh -c '$P hold'",
        "setpriv --reuid=65534 --regid=65534 --clear-groups -- $P hold",
        "setpriv --no-new-privs --bounding-set=-all --inh-caps=-all -- $P hold",
        "unshare --fork --pid --mount-proc --ipc --net --uts $P hold",
        "unshare --user --map-root-user --fork --pid --mount-proc $P hold",
        "unshare --time --boottime 100000 --fork $P hold",
        "ulimit -v 400000; ulimit -n 20; ulimit -l 0; $P hold",
    ];
    check_wrapped(&notice(), &scripts);
}

/// An ordinary user, which may not trace the program, starts a file of root's with the set-user-id
/// bit.
#[test]
fn a_set_user_id_program_notices_nothing() {
    let _serial = serial();
    let _swap = Swap::shared();
    let script = "cp $P $P.$$ && chmod 4755 $P.$$ && \
                  exec setpriv --reuid=65534 --regid=65534 --clear-groups -- $P.$$ hold";
    let pair = run_wrapped(&notice(), script);
    let said = &pair.alone.stdout;
    assert!(said.contains("euid 0\n"), "no rights were gained: {said}");
}

#[test]
fn programs_below_debuggers_notice_nothing() {
    let _serial = serial();
    let scripts = [
        "strace -f -o /dev/null $P hold",
        // gdb passes the exit status on; its own output has addresses and times.
        "gdb -q -batch -ex run -ex 'quit $_exitcode' --args $P hold >$P.$$ 2>&1; s=$?; grep -o '^held.*' $P.$$; exit $s",
    ];
    check_wrapped(&notice(), &scripts);
}

/// `strace -p` and `gdb -p` attach to a process with all memory swapped out; page-out goes on while
/// they are attached.
#[test]
fn debuggers_can_attach_to_swapped_out_programs() {
    let _serial = serial();
    const ATTACHED: &str = "export NOTICE_READY=$P.$$; $P attached & p=$!; \
                            until [ -e $P.$$ ]; do kill -0 $p || exit 1; sleep .02; done;";
    let traced = format!(
        "{ATTACHED} strace -f -o $P.$$.log -p $p 2>/dev/null & wait $p; s=$?; wait; \
         grep -c 'exit_group(7)' $P.$$.log; exit $s"
    );
    // The debugger reads all memory of the program, and stays attached.
    let read = format!(
        "{ATTACHED} at='*(long*)&attached_memory'; \
         gdb -q -batch -p $p -ex \"dump binary memory $P.$$.dump $at $at+8388608\" -ex continue >/dev/null 2>&1 & \
         wait $p; s=$?; sha256sum <$P.$$.dump; exit $s"
    );
    check_wrapped(&notice(), &[&traced, &read]);
}

#[test]
fn programs_with_sanitizers_notice_nothing() {
    let _serial = serial();
    let _swap = Swap::shared();
    each(&["address", "thread"], |name| {
        let flag = format!("-fsanitize={name}");
        let program = programs::folder_as("notice", &format!("notice-{name}"), &["-g", &flag]);
        drop(run_wrapped(&program, "$P hold"));
    });
}

#[test]
fn static_programs_notice_nothing() {
    let _serial = serial();
    let program = programs::folder_as("notice", "notice-static", &["-static"]);
    check_wrapped(&program, &["$P hold"]);
}
