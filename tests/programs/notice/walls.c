/* Scenarios with restricted programs: with system call filters, root directories, users and namespaces of
 * their own; stopped and undumpable programs. */
#include "notice.h"

#include <linux/seccomp.h>
#include <sched.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* The scenario that the tests of wrappers run: memory is paged out and checked, then the mappings are
 * printed, and the exit status is fixed. Mappings are not printed if addresses are random (a program that
 * gains rights always has random addresses), or if a sanitizer makes mappings of its own. */
void scenario_hold(void)
{
    uint64_t *at = filled(2 * PAGES, 1);
    say("euid %d", (int)geteuid());
    for (unsigned round = 0; round < 3; round++) {
        leaves("held", at, 2 * PAGES);
        verify(at, 2 * PAGES, 1);
    }
    say("held %d", (int)(at[5] & 0xff));
#if !defined __SANITIZE_THREAD__ && !defined __SANITIZE_ADDRESS__
    if (personality(0xffffffff) & ADDR_NO_RANDOMIZE)
        say_mappings();
#endif
    exit(7);
}

/* The program execs a shell, which execs env, which execs the program again. */
void scenario_exec_twice(void)
{
    uint64_t *at = filled(PAGES, 1);
    leaves("before", at, PAGES);
    char self[4096] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        FAIL(97, "/proc/self/exe: %s", strerror(errno));
    execl("/bin/sh", "sh", "-c", "exec /usr/bin/env X=1 \"$0\" hold", self, (char *)NULL);
    FAIL(97, "execl: %s", strerror(errno));
}

/* Under seccomp's strict mode only read, write, exit and sigreturn are allowed. */
void scenario_seccomp_strict(void)
{
    uint64_t *at = filled(PAGES, 1);
    int ends[2];
    char byte;
    channel(ends);
    pid_t pid = child();
    if (pid == 0) {
        fill(at, PAGES, 2);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        for (unsigned round = 0; round < 3; round++) {
            if (read(ends[0], &byte, 1) != 1)
                syscall(SYS_exit, 1);
            verify(at, PAGES, 2);
        }
        syscall(SYS_exit, 0);
    }
    for (unsigned round = 0; round < 3; round++) {
        leaves_of(pid, "behind the filter", at, PAGES);
        if (write(ends[1], "", 1) != 1)
            FAIL(97, "write: %s", strerror(errno));
        sleep_us(50000);
    }
    reap(pid);
    verify(at, PAGES, 1);
}

static void hold_three_times(const char *what, uint64_t *at)
{
    for (unsigned round = 0; round < 3; round++) {
        leaves(what, at, PAGES);
        verify(at, PAGES, 1);
    }
}

void scenario_chroot_setuid(void)
{
    pid_t pid = child();
    if (pid == 0) {
        uint64_t *at = filled(PAGES, 1);
        figures_prepare();
        tell("chroot", chroot("."));
        tell("chdir", chdir("/"));
        tell("setgid", setgid(65534));
        tell("setuid", setuid(65534));
        tell("getuid", getuid());
        tell("no /proc", access("/proc/self", F_OK));
        hold_three_times("another root and user", at);
        _exit(0);
    }
    reap(pid);
}

void scenario_namespaces(void)
{
    pid_t pid = child();
    if (pid == 0) {
        tell("unshare", unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWTIME | CLONE_NEWUTS
                                | CLONE_NEWIPC | CLONE_NEWNET));
        /* New pid and time namespaces apply only to children that are started after this, so a child is
         * started. */
        pid_t inner = child();
        if (inner == 0) {
            uint64_t *at = filled(PAGES, 1);
            say("pid %d, uid %d", (int)getpid(), (int)getuid());
            hold_three_times("in namespaces", at);
            _exit(0);
        }
        reap(inner);
        _exit(0);
    }
    reap(pid);
}

void scenario_undumpable(void)
{
    uint64_t *at = filled(PAGES, 1);
    figures_prepare();
    tell("PR_SET_DUMPABLE", prctl(PR_SET_DUMPABLE, 0));
    hold_three_times("undumpable", at);
    tell("PR_GET_DUMPABLE", prctl(PR_GET_DUMPABLE));
    prctl(PR_SET_DUMPABLE, 1);
}

/* All memory of a stopped process becomes cold. It must be right when the process goes on. */
void scenario_stopped(void)
{
    uint64_t *at = filled(PAGES, 1);
    pid_t pid = child();
    if (pid == 0) {
        fill(at, PAGES, 2);
        for (unsigned round = 0; round < 3; round++) {
            raise(SIGSTOP);
            verify(at, PAGES, 2);
        }
        _exit(0);
    }
    for (unsigned round = 0; round < 3; round++) {
        await_stop(pid);
        leaves_of(pid, "of a stopped one", at, PAGES);
        kill(pid, SIGCONT);
    }
    reap(pid);
    verify(at, PAGES, 1);
}

static void tell_file(const char *folder, const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        FAIL(97, "%s: %s", path, strerror(errno));
    close(fd);
}

/* The same for a process in a frozen control group, by cgroup.freeze (version 2) or the freezer controller
 * (version 1). */
void scenario_frozen(void)
{
    char folder[96], text[16];
    /* The alarm must come after the longest time of three waits, because a program that ends in the middle
     * would leave a frozen child. */
    alarm(200 * patience());
    int is_v2 = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
    uint64_t *at = filled(PAGES, 1);
    snprintf(folder, sizeof folder, "/sys/fs/cgroup/%snotice-%d", is_v2 ? "" : "freezer/", (int)getpid());
    tell("mkdir", mkdir(folder, 0755));
    int ends[2], written[2];
    char byte;
    channel(ends);
    channel(written);
    pid_t pid = child();
    if (pid == 0) {
        fill(at, PAGES, 2);
        if (write(written[1], "", 1) != 1)
            _exit(1);
        for (unsigned round = 0; round < 3; round++) {
            if (read(ends[0], &byte, 1) != 1)
                _exit(1);
            verify(at, PAGES, 2);
        }
        _exit(0);
    }
    /* Wait until the child has pages of its own. (Regression: in a slow guest the child was frozen before
     * that, and pages that it shares with its parent stay in memory.) */
    if (read(written[0], &byte, 1) != 1)
        FAIL(97, "read: %s", strerror(errno));
    snprintf(text, sizeof text, "%d", (int)pid);
    tell_file(folder, "cgroup.procs", text);
    for (unsigned round = 0; round < 3; round++) {
        sleep_us(50000);
        tell_file(folder, is_v2 ? "cgroup.freeze" : "freezer.state", is_v2 ? "1" : "FROZEN");
        leaves_of(pid, "of a frozen one", at, PAGES);
        tell_file(folder, is_v2 ? "cgroup.freeze" : "freezer.state", is_v2 ? "0" : "THAWED");
        if (write(ends[1], "", 1) != 1)
            FAIL(97, "write: %s", strerror(errno));
    }
    reap(pid);
    verify(at, PAGES, 1);
    for (unsigned i = 0; i < 100 && rmdir(folder) != 0; i++)
        sleep_us(20000);
    tell("it is gone", access(folder, F_OK) != 0);
}

/* The core dump must also contain paged-out memory; the caller of this program compares it. */
void scenario_dump(void)
{
    uint64_t *at = filled(PAGES, 1), *without = filled(PAGES, 2);
    tell("MADV_DONTDUMP", madvise(without, PAGES * PAGE, MADV_DONTDUMP));
    leaves("dumped", at, PAGES);
    leaves("not dumped", without, PAGES);
    say("%p", (void *)at);
    say("%p", (void *)without);
    abort();
}
