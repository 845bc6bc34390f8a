/* Operations that start children: by fork, with exec, by vfork and by posix_spawn. */
#include "hostile.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
unsigned fork_depth;

/* A child reports its operations in a slot of its own, so that the parent's slot still shows where the
 * parent hangs. */
static void child_begin(struct worker *w)
{
    fork_depth++;
    w->slot = w->slot % (MAX_WORKERS / 2) + MAX_WORKERS / 2;
    shared->status[w->slot].pid = shared->status[w->slot].tid = (uint32_t)getpid();
    signal(SIGALRM, SIG_DFL);
    alarm(WAIT_LIMIT);
    io_reset_after_fork();
}

/* Starts a child for which its parent does not wait; the parent may end before it. */
static void child_orphan(struct worker *w)
{
    atomic_fetch_add(&shared->orphans, 1);
    pid_t pid = fork();
    if (pid < 0)
        die_syscall(w, "fork of an orphan");
    if (pid > 0)
        return;
    child_begin(w);
    sleep_us(rnd(w, 20000));
    worker_verify(w);
    atomic_fetch_sub(&shared->orphans, 1);
    _exit(0);
}

static void child_grandchild(struct worker *w)
{
    pid_t pid = fork();
    if (pid < 0)
        die_syscall(w, "fork of a grandchild");
    if (pid == 0) {
        child_begin(w);
        worker_verify(w);
        _exit(0);
    }
    ops_run_some(w, (unsigned)rnd(w, 20));
    wait_child(w, pid, "a grandchild");
}

static _Noreturn void child_run(struct worker *w)
{
    child_begin(w);
    unsigned how = (unsigned)rnd(w, 100);
    if (how < 30)
        sleep_us(rnd(w, 10000));
    worker_verify(w);
    if (how >= 40 && how < 80) {
        for (int i = 0; i < 8; i++)
            op_rewrite(w);
        worker_verify(w);
    }
    if (how >= 80 && fork_depth < 3) {
        /* The child runs operations of its own. */
        ops_run_some(w, 50 + (unsigned)rnd(w, 200));
        worker_verify(w);
    }
    if (how % 10 == 3 && fork_depth < 3)
        child_grandchild(w);
    if (how % 10 == 7 && fork_depth < 3)
        child_orphan(w);
    _exit(0);
}

/* After the fork the parent goes on to change its pages at once. The child must not see these changes. */
void op_fork(struct worker *w)
{
    if (fork_depth >= 3)
        return;
    uint64_t child_rng = mix(w->rng + 1);
    pid_t pid = fork();
    if (pid < 0)
        die_syscall(w, "fork");
    if (pid == 0) {
        w->rng = child_rng;
        child_run(w);
    }
    atomic_fetch_add(&shared->children, 1);
    unsigned meanwhile = (unsigned)rnd(w, 30);
    for (unsigned i = 0; i < meanwhile; i++) {
        op_rewrite(w);
        if (i % 8 == 7)
            ops_run(w);
    }
    wait_child(w, pid, "a forked child");
}

/* Executes this program again as a short workload, or a program that ends at once. */
void op_exec(struct worker *w)
{
    char seed[32];
    snprintf(seed, sizeof seed, "%lu", mix(w->rng) >> 1);
    char *self[] = {"hostile", "--exec-child", seed, NULL};
    char *nothing[] = {"true", NULL};
    bool again = chance(w, 60);
    pid_t pid = fork();
    if (pid < 0)
        die_syscall(w, "fork to exec");
    if (pid == 0) {
        alarm(WAIT_LIMIT);
        execve(again ? "/proc/self/exe" : "/bin/true", again ? self : nothing, environ);
        _exit(EXIT_SYSCALL);
    }
    atomic_fetch_add(&shared->children, 1);
    ops_run_some(w, (unsigned)rnd(w, 10));
    wait_child(w, pid, "fork and exec");
}

/* vfork: the child uses this process's memory until it calls execve or ends. */
void op_vfork(struct worker *w)
{
    char *nothing[] = {"true", NULL};
    bool exec = chance(w, 50);
    struct region *r = pick_region(w);
    size_t page = rnd(w, r->pages);
    pid_t pid = vfork();
    if (pid < 0)
        die_syscall(w, "vfork");
    if (pid == 0) {
        if (exec)
            execve("/bin/true", nothing, environ);
        _exit(exec ? EXIT_SYSCALL : 0);
    }
    atomic_fetch_add(&shared->children, 1);
    wait_child(w, pid, "vfork");
    if (page < r->pages)
        page_verify(w, r, page);
}

void op_spawn(struct worker *w)
{
    char *nothing[] = {"true", NULL};
    pid_t pid;
    if (posix_spawn(&pid, "/bin/true", NULL, NULL, nothing, environ) != 0)
        die_syscall(w, "posix_spawn");
    atomic_fetch_add(&shared->children, 1);
    ops_run_some(w, (unsigned)rnd(w, 4));
    wait_child(w, pid, "posix_spawn");
}
