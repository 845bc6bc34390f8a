/* Measures the cost of paging out another process's memory, from the processor on which that process runs
 * and from another one.
 *
 *   cc -O2 -o /tmp/outsider tests/programs/outsider.c && sudo /tmp/outsider      (with swap on zram; some seconds)
 *
 * A child counts in a loop on processor 0, while its parent pages out 64 MiB of the child's memory, 512
 * pages a call. The pages are clean (only read since they were swapped in) or dirty (written). The program
 * prints the child's speed meanwhile, relative to its undisturbed speed. By these figures pagetide chooses
 * the processor from which it pages out (crates/host/src/manage/affinity.rs). */
#include "common.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#define PAGES ((size_t)16384)
#define STEP ((size_t)512)

enum order { NOTHING, READ, WRITE };

static struct { _Atomic int order; _Atomic uint64_t count; } *shared;

static void pin(int processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        FAIL(1, "there is no processor %d", processor);
}

static void obey(uint64_t *at)
{
    pin(0);
    for (;;) {
        enum order order = shared->order;
        for (size_t page = 0; order != NOTHING && page < PAGES; page++) {
            volatile uint64_t *word = at + page * WORDS;
            if (order == WRITE)
                ++*word;
            else
                (void)*word;
        }
        if (order != NOTHING)
            shared->order = NOTHING;
        shared->count++;
    }
}

static void order(enum order order)
{
    shared->order = order;
    while (shared->order != NOTHING)
        sleep_us(1000);
}

static void page_out(int pidfd, uint64_t *at, size_t pages)
{
    struct iovec range = {at, pages * PAGE};
    if (syscall(SYS_process_madvise, pidfd, &range, 1, MADV_PAGEOUT, 0) < 0)
        FAIL(1, "process_madvise: %s", strerror(errno));
}

static double speed(uint64_t count, uint64_t begin)
{
    return (double)(shared->count - count) / (double)(now_ns() - begin);
}

int main(void)
{
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t *at = map_anon(PAGES * PAGE);
    /* Only a third of each page is random, so that the page can be compressed. */
    for (size_t i = 0; i < PAGES * WORDS; i++)
        at[i] = i % WORDS < WORDS / 3 ? mix(i) : 7;
    pid_t child = fork();
    if (child == 0)
        obey(at);
    int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    /* The child writes all pages, so that it has copies of its own. */
    order(WRITE);
    for (int round = 0; round < 6; round++)
        for (enum order how = READ; how <= WRITE; how++)
            for (int processor = 0; processor < 2; processor++) {
                pin(1);
                page_out(pidfd, at, PAGES);
                order(READ);
                page_out(pidfd, at, PAGES);
                order(how);
                pin(processor);
                uint64_t count = shared->count, begin = now_ns();
                for (size_t page = 0; page < PAGES; page += STEP)
                    page_out(pidfd, at + page * WORDS, STEP);
                double took = (double)(now_ns() - begin), during = speed(count, begin);
                count = shared->count, begin = now_ns();
                sleep_us(200000);
                printf("%s, from %s processor: %5.1f us a page, the program at %3.0f%%\n",
                       how == READ ? "clean" : "dirty", processor ? "another" : "its own  ",
                       took / 1000 / PAGES, 100 * during / speed(count, begin));
            }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}
