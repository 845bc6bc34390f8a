/* An idle program: it fills its memory, prints `ready`, and sleeps. On SIGUSR1 it checks every page, and
 * prints how many seconds that took. On SIGUSR2 it does the same with randomly chosen pages, twelve times
 * as many as it has.
 *
 *   sleeper MIB [WORKERS]
 *
 * With WORKERS it is an idle pre-fork server: each worker inherits its memory by fork, writes a part of it
 * anew, and on these signals checks all of it, too. No worker outlives the server. */
#include "schedule.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MOST 16

static const char usage[] = "usage: sleeper MIB [WORKERS]    (WORKERS to 16)";
static uint64_t *memory;
static size_t pages;
static pid_t pids[MOST];
static uint64_t workers;

/* Checks one word of each page, so that the time is not mainly that of reading. The pages from..to have
 * another version. */
static void check(int by_chance, size_t from, size_t to)
{
    size_t touches = by_chance ? 12 * pages : pages;
    for (size_t touch = 0; touch < touches; touch++) {
        size_t page = by_chance ? mix(touch) % pages : touch;
        uint64_t key = mix(page * 1000003 + (page >= from && page < to ? 2 : 1));
        if (memory[page * WORDS] != (page % 4 < 2 ? key : mix(key)))
            FAIL(99, "page %zu is wrong", page);
    }
}

static void worker(uint64_t which, pid_t parent, const sigset_t *wanted, int done)
{
    size_t from = pages / workers * which, to = from + pages / workers;
    int signal;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    for (size_t page = from; page < to; page++)
        page_fill(memory + page * WORDS, page, 2);
    for (;;) {
        if (write(done, "", 1) != 1)
            _exit(1);
        sigwait(wanted, &signal);
        check(signal == SIGUSR2, from, to);
    }
}

/* Waits until all workers have reported that they are done. */
static void await(int done)
{
    char byte;
    for (uint64_t i = 0; i < workers; i++)
        if (read(done, &byte, 1) != 1)
            FAIL(99, "a worker has ended");
}

int main(int argc, char **argv)
{
    int done[2];
    pid_t parent = getpid();
    if (argc != 2 && argc != 3)
        FAIL(2, "%s", usage);
    pages = number(argv[1], 1, 1 << 20, usage) * MIB / PAGE;
    workers = argc == 3 ? number(argv[2], 1, MOST, usage) : 0;
    memory = map_anon(pages * PAGE);
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    sigaddset(&wanted, SIGUSR2);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    for (size_t page = 0; page < pages; page++)
        page_fill(memory + page * WORDS, page, 1);
    if (pipe(done) != 0)
        FAIL(97, "pipe: %s", strerror(errno));
    for (uint64_t i = 0; i < workers; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            FAIL(97, "fork: %s", strerror(errno));
        if (pids[i] == 0)
            worker(i, parent, &wanted, done[1]);
    }
    close(done[1]);
    await(done[0]);
    printf("ready\n");
    for (int signal;;) {
        fflush(stdout);
        sigwait(&wanted, &signal);
        uint64_t begin = now_ns();
        for (uint64_t i = 0; i < workers; i++)
            kill(pids[i], signal);
        check(signal == SIGUSR2, 0, 0);
        await(done[0]);
        printf("%.4f\n", (double)(now_ns() - begin) / 1e9);
    }
}
