/* Programs behind walls: filters, roots, users and namespaces of their own; stopped and undumpable ones. */
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

/* What `notice hold` is run by wrappers for: memory that leaves and is right, mappings, and a status. Where addresses are chance
 * (who gains rights gets them so, whatever was asked for), or a sanitizer maps as it goes, the mappings are not told. */
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

/* A shim: it becomes a shell, that becomes env, that becomes the program. */
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

/* Mode strict: read, write, exit and sigreturn are all that is left to it. */
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
        /* Threads and mappings enter namespaces of pids and times with the next child. */
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

/* Everything of a stopped process is cold; it must be right when it goes on. */
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

/* The same of one whose control group is frozen: version 2's own file, version 1's freezer. */
void scenario_frozen(void)
{
    char folder[96], text[16];
    /* The longest that three waits take: ended in the middle, it would leave a frozen child. */
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
    /* (In a slow guest it was frozen before it had a page of its own: what it shares with its parent stays.) */
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

/* The core has what is out as well. The caller compares. */
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
