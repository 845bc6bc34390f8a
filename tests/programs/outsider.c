/* What it costs to page out another process's memory, from its processor and from another.
 *
 *   cc -O2 -o /tmp/outsider tests/programs/outsider.c && sudo /tmp/outsider      (with swap on zram; some seconds)
 *
 * A child spins on processor 0 and counts; its parent pages 64 MiB of it out, 512 pages a call. Pages are clean (read
 * after they came back) or dirty (written). How fast the child goes meanwhile is told of its speed undisturbed.
 * pagetide chooses by it where it pages out from (manage/near.rs). */
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
    /* A third of each page is noise: so it compresses. */
    for (size_t i = 0; i < PAGES * WORDS; i++)
        at[i] = i % WORDS < WORDS / 3 ? mix(i) : 7;
    pid_t child = fork();
    if (child == 0)
        obey(at);
    int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    /* Its own copies. */
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
