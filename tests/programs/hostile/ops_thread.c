/* Operations with futexes, threads that start and exit, and signals: the kernel writes to memory that may
 * be paged out. */
#include "hostile.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Without FUTEX_PRIVATE_FLAG the kernel must look up the page to find the futex's queue. */
static long futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    struct timespec limit = {1, 0};
    return syscall(SYS_futex, word, op, value, op == FUTEX_WAIT ? &limit : NULL, NULL, 0);
}

static void futex_wait_for(struct worker *w, _Atomic uint32_t *word, uint32_t value)
{
    uint64_t end = now_ns() + WAIT_LIMIT * 1000000000ull;
    uint32_t seen;
    while ((seen = atomic_load(word)) != value) {
        if (futex(word, FUTEX_WAIT, seen) != 0 && errno != EAGAIN && errno != EINTR
            && errno != ETIMEDOUT)
            die_syscall(w, "futex wait in a managed page");
        if (now_ns() > end)
            die_hang(w, "a futex in a managed page");
    }
}

struct pair {
    struct worker *w;
    _Atomic uint32_t *word;
    uint32_t rounds;
};

/* The worker's partner. An even value of the futex means that it is the worker's turn, an odd value that it
 * is the partner's. */
static void *partner_run(void *argument)
{
    struct pair *pair = argument;
    for (uint32_t i = 0; i < pair->rounds; i++) {
        futex_wait_for(pair->w, pair->word, 2 * i + 1);
        atomic_store(pair->word, 2 * i + 2);
        futex(pair->word, FUTEX_WAKE, INT_MAX);
    }
    return NULL;
}

static pthread_t thread_start(struct worker *w, void *(*run)(void *), void *argument,
                              const pthread_attr_t *attr)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_t thread;
    int error = pthread_create(&thread, attr, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        errno = error;
        die_syscall(w, "pthread_create");
    }
    atomic_fetch_add(&shared->threads, 1);
    return thread;
}

void op_futex(struct worker *w)
{
    size_t at = rnd(w, SCRATCH_PAGES) * PAGE + rnd(w, PAGE / 4) * 4;
    struct pair pair = {w, (_Atomic uint32_t *)(void *)(w->scratch + at), 1 + (uint32_t)rnd(w, 8)};
    bool slow = chance(w, 30);
    uint64_t pause_us = rnd(w, 4000);
    atomic_store(pair.word, 0);
    pthread_t thread = thread_start(w, partner_run, &pair, NULL);
    for (uint32_t i = 0; i < pair.rounds; i++) {
        if (slow)
            sleep_us(pause_us);
        atomic_store(pair.word, 2 * i + 1);
        futex(pair.word, FUTEX_WAKE, INT_MAX);
        futex_wait_for(w, pair.word, 2 * i + 2);
    }
    pthread_join(thread, NULL);
}

static _Thread_local uint64_t tls_words[64];

struct short_lived {
    struct worker *w;
    size_t page;
    _Atomic uint32_t *done; /* the detached one says so itself */
};

static void *short_lived_run(void *argument)
{
    struct short_lived *job = argument;
    _Atomic uint32_t *done = job->done;
    for (size_t i = 0; i < 64; i++)
        tls_words[i] = mix(i ^ job->page);
    struct region *r = &job->w->regions[1];
    if (job->page < r->pages)
        page_check(job->w, r, job->page, r->base + job->page * WORDS);
    for (size_t i = 0; i < 64; i++)
        if (tls_words[i] != mix(i ^ job->page)) {
            say("thread-local word %zu is wrong", i);
            _exit(EXIT_WRONG);
        }
    if (done) {
        atomic_store(done, 1); /* job may be gone from here on */
        futex(done, FUTEX_WAKE, INT_MAX);
    }
    return NULL;
}

/* Starts a thread that is joined, one that is detached, and one whose stack is in a region. This stack
 * contains the thread control block, the rseq area, and the word that the kernel clears at the thread's
 * exit. */
void op_thread(struct worker *w)
{
    uint64_t how = rnd(w, 3);
    struct short_lived job = {w, rnd(w, w->regions[1].pages), NULL};
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    void *stack = NULL;
    size_t bytes = 128 * 1024 + rnd(w, 8) * 64 * 1024;
    if (how == 0) {
        _Atomic uint32_t *done = (_Atomic uint32_t *)(void *)(w->scratch + rnd(w, SCRATCH_PAGES) * PAGE);
        atomic_store(done, 0);
        job.done = done;
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        thread_start(w, short_lived_run, &job, &attr);
        futex_wait_for(w, done, 1);
    } else {
        if (how == 1) {
            stack = map_anon(bytes);
            pthread_attr_setstack(&attr, stack, bytes);
        } else {
            pthread_attr_setstacksize(&attr, bytes);
        }
        pthread_t thread = thread_start(w, short_lived_run, &job, &attr);
        pthread_join(thread, NULL);
    }
    pthread_attr_destroy(&attr);
    if (stack)
        munmap(stack, bytes);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    int error = errno;
    volatile uint64_t words[WORDS];
    for (size_t i = 0; i < WORDS; i++)
        words[i] = mix(i + (uint64_t)signal);
    for (size_t i = 0; i < WORDS; i++)
        if (words[i] != mix(i + (uint64_t)signal)) {
            say("alternate stack: word %zu at %p is wrong", i, (void *)&words[i]);
            _exit(EXIT_WRONG);
        }
    atomic_fetch_add(&shared->signals, 1);
    errno = error;
}

static void on_alarm(int signal)
{
    (void)signal;
    say("time is up");
    print_status();
    _exit(EXIT_HANG);
}

void signals_install(void)
{
    struct sigaction action = {.sa_sigaction = on_signal,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    struct sigaction late = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &late, NULL);
    signal(SIGPIPE, SIG_IGN);
}

void altstack_install(struct worker *w)
{
    stack_t stack = {.ss_sp = w->altstack, .ss_size = ALTSTACK_SIZE};
    if (sigaltstack(&stack, NULL) != 0)
        die_syscall(w, "sigaltstack");
}

/* Sends a signal to this thread, and one to another worker of this process, at any moment of its operation. */
void op_signal(struct worker *w)
{
    pid_t pid = getpid();
    unsigned other = (unsigned)rnd(w, config.threads);
    bool self = chance(w, 40);
    uint32_t tid = self ? (uint32_t)gettid() : atomic_load(&shared->status[other].tid);
    if (!self && atomic_load(&shared->status[other].pid) != (uint32_t)pid)
        return;
    if (syscall(SYS_tgkill, pid, (pid_t)tid, SIGUSR1) != 0 && errno != ESRCH && errno != EAGAIN)
        die_syscall(w, "tgkill");
}
