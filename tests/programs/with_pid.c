/* Runs a command in a process with a chosen pid, which must be free: for tests of what happens when a pid
 * is used again.
 *
 *   with_pid PID COMMAND...
 *
 * Waits for the end of the command. Needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN. If the pid is not free
 * yet, waits up to a second for it. */
#include "schedule.h"

#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const char usage[] = "usage: with_pid PID COMMAND...";

int main(int argc, char **argv)
{
    if (argc < 3)
        FAIL(2, "%s", usage);
    pid_t wanted = (pid_t)number(argv[1], 2, 1 << 22, usage);
    struct clone_args args = {
        .exit_signal = SIGCHLD,
        .set_tid = (uint64_t)(uintptr_t)&wanted,
        .set_tid_size = 1,
    };
    long child = -1;
    for (uint64_t end = now_ns() + SECOND; child < 0 && now_ns() < end; sleep_us(child < 0 ? 1000 : 0)) {
        child = syscall(SYS_clone3, &args, sizeof args);
        if (child < 0 && errno != EEXIST)
            FAIL(1, "clone3: %s", strerror(errno));
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            execvp(argv[2], argv + 2);
            FAIL(127, "%s: %s", argv[2], strerror(errno));
        }
    }
    if (child < 0)
        FAIL(1, "number %d is somebody's", (int)wanted);
    int status = 0;
    waitpid((pid_t)child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
