/* A pre-fork server: several processes share memory after a fork, and each also has memory of its own.
 *
 *   workers N MIB SECONDS [--half]
 *
 * The parent fills MIB of private anonymous memory, forks N workers and then touches none of it. Once a
 * second each worker reads a word of every page, and writes to 4 MiB, of which the kernel makes copies for
 * it (copy on write). The 4 MiB are different for each worker as long as MIB suffices. When all workers
 * have done this once, the server prints
 *   ready pid=P workers=P1,P2,... start=0x... pages=N private_pages=1024
 * The resident size of all processes together is a little more than MIB + N * 4 MiB. No worker outlives the
 * parent.
 *
 * With --half the workers read only the pages for which the lowest bit of mix(page) is set, about half of
 * them, all at the same time and every 4 seconds, and write to none: private_pages=0. */
#include "schedule.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define OWN (4 * MIB / PAGE)

static const char usage[] = "usage: workers N MIB SECONDS [--half]    (N to 256, MIB from 4)";
static uint64_t *memory, pages;
static int half;

static void worker(uint64_t which, uint64_t workers, pid_t parent, int done)
{
    uint64_t first = which * OWN % (pages / OWN * OWN), sum = 0, begin = now_ns();
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (uint64_t round = 1;; round++) {
        for (uint64_t page = 0; page < pages; page++)
            if (!half || (mix(page) & 1))
                sum += *(volatile uint64_t *)(memory + page * WORDS);
        for (uint64_t page = first; !half && page < first + OWN; page++)
            *(volatile uint64_t *)(memory + page * WORDS + 1) = sum + round;
        if (round == 1 && (write(done, "", 1) != 1 || close(done) != 0))
            _exit(1);
        /* The workers begin at different times. With --half they begin at the same time, so that the pages
         * are idle in between. */
        if (half)
            sleep_until(begin + round * 4 * SECOND);
        else
            sleep_until(begin + round * SECOND + which * SECOND / workers);
    }
}

static void stop(pid_t *pids, uint64_t workers)
{
    for (uint64_t i = 0; i < workers; i++)
        kill(pids[i], SIGKILL);
    for (uint64_t i = 0; i < workers; i++)
        waitpid(pids[i], NULL, 0);
}

int main(int argc, char **argv)
{
    static pid_t pids[256];
    int done[2], ended = 0;
    char byte;
    half = argc == 5 && strcmp(argv[4], "--half") == 0;
    if (argc != 4 && !half)
        FAIL(2, "%s", usage);
    uint64_t workers = number(argv[1], 1, 256, usage), mib = number(argv[2], 4, 1 << 20, usage);
    uint64_t seconds = number(argv[3], 1, 1000000, usage);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pages = mib * MIB / PAGE;
    memory = map_anon(pages * PAGE);
    for (uint64_t page = 0; page < pages; page++)
        page_fill(memory + page * WORDS, page, 1);
    if (pipe(done) != 0)
        FAIL(97, "pipe: %s", strerror(errno));
    pid_t parent = getpid();
    for (uint64_t i = 0; i < workers; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            FAIL(97, "fork: %s", strerror(errno));
        if (pids[i] == 0)
            worker(i, workers, parent, done[1]);
    }
    close(done[1]);
    for (uint64_t i = 0; i < workers; i++)
        if (read(done[0], &byte, 1) != 1)
            FAIL(99, "a worker ended before its first round");
    printf("ready pid=%d workers=", (int)getpid());
    for (uint64_t i = 0; i < workers; i++)
        printf("%s%d", i ? "," : "", (int)pids[i]);
    printf(" start=%#lx pages=%lu private_pages=%lu\n", (unsigned long)memory, (unsigned long)pages,
           half ? 0 : (unsigned long)OWN);
    fflush(stdout);
    struct timespec left = {(time_t)seconds, 0};
    int signal = sigtimedwait(&set, NULL, &left);
    if (signal == SIGCHLD)
        ended = 1;
    stop(pids, workers);
    if (ended)
        FAIL(99, "a worker ended early");
    if (signal > 0)
        FAIL(128 + signal, "signal %d", signal);
    return 0;
}
