/* Time, random numbers, messages, and waits with a time limit. */
#include "hostile.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t rnd(struct worker *w, uint64_t below)
{
    w->rng += 0x9e3779b97f4a7c15u;
    return below ? mix(w->rng) % below : 0;
}

bool chance(struct worker *w, unsigned percent)
{
    return rnd(w, 100) < percent;
}

void sleep_us(uint64_t us)
{
    struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

/* Prints a message by one write(2), without the lock of a stream: forked children of a process with threads
 * call this function, too. */
void say(const char *format, ...)
{
    char line[512];
    int head = snprintf(line, sizeof line, "hostile[%d]: ", (int)getpid());
    va_list args;
    va_start(args, format);
    int body = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, args);
    va_end(args);
    size_t len = (size_t)head + (size_t)body;
    if (len > sizeof line - 1)
        len = sizeof line - 1;
    line[len++] = '\n';
    if (write(2, line, len) < 0)
        return;
}

_Noreturn void die_syscall(const struct worker *w, const char *what)
{
    say("seed %lu slot %u: %s: %s", config.seed, w ? w->slot : 0, what, strerror(errno));
    _exit(EXIT_SYSCALL);
}

_Noreturn void die_hang(const struct worker *w, const char *what)
{
    say("seed %lu slot %u: %s took more than %d s", config.seed, w ? w->slot : 0, what, WAIT_LIMIT);
    print_status();
    _exit(EXIT_HANG);
}

void wait_child(struct worker *w, pid_t pid, const char *what)
{
    uint64_t end = now_ns() + (WAIT_LIMIT + 5) * 1000000000ull;
    for (uint64_t pause_us = 50;; pause_us = pause_us < 5000 ? pause_us * 2 : pause_us) {
        int status = 0;
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got < 0 && errno != EINTR)
            die_syscall(w, what);
        if (got == pid) {
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return;
            if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
                die_hang(w, what);
            say("%s: child %d ended with wait status 0x%x", what, (int)pid, status);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_WRONG);
        }
        if (now_ns() > end)
            die_hang(w, what);
        sleep_us(pause_us);
    }
}

/* Prints where a thread waits in the kernel, for the message about a hang. */
static void print_wchan(uint32_t pid, uint32_t tid)
{
    char path[64], text[128] = "?";
    snprintf(path, sizeof path, "/proc/%u/task/%u/wchan", pid, tid);
    FILE *f = fopen(path, "re");
    if (f) {
        if (!fgets(text, sizeof text, f))
            text[0] = '\0';
        fclose(f);
    }
    say("    tid %u waits in %s", tid, text);
}

void print_status(void)
{
    for (unsigned i = 0; i < MAX_WORKERS; i++) {
        struct status *s = &shared->status[i];
        if (!s->tid)
            continue;
        say("  slot %u: %lu ops, last %s, region %u page %lu", i, s->ops,
            ops[s->op < ops_count ? s->op : 0].name, s->region, s->page);
        print_wchan(s->pid, s->tid);
    }
}

/* Number of pages verified so far. It shows progress during the last check of all memory, which is a single
 * operation. */
static uint64_t pages_seen(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < MAX_WORKERS; i++)
        sum += mix(atomic_load(&shared->status[i].page) + ((uint64_t)shared->status[i].region << 32));
    return sum;
}

static void watchdog_run(pid_t parent)
{
    uint64_t seen = 0, since = now_ns();
    uint64_t overall = now_ns() + (config.seconds + 4 * WAIT_LIMIT) * 1000000000ull;
    for (;;) {
        sleep_us(200000);
        if (atomic_load(&shared->finished))
            _exit(0);
        uint64_t ops_now = atomic_load(&shared->ops) + pages_seen();
        if (ops_now != seen) {
            seen = ops_now;
            since = now_ns();
        }
        bool stuck = now_ns() - since > WAIT_LIMIT * 1000000000ull;
        bool late = config.seconds && now_ns() > overall;
        if (!stuck && !late)
            continue;
        say("%s after %lu ops", stuck ? "no progress" : "the end did not come",
            atomic_load(&shared->ops));
        print_status();
        /* The handler of SIGALRM ends the process with status 98; a process that cannot even run a
         * handler is killed. */
        kill(parent, SIGALRM);
        sleep_us(10000000);
        kill(parent, SIGKILL);
        _exit(EXIT_HANG);
    }
}

/* Starts the watchdog as a separate process, so that it can report a hang even if all threads of the
 * workload hang in a page fault. */
pid_t watchdog_start(void)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(0);
        watchdog_run(parent);
    }
    return pid;
}
