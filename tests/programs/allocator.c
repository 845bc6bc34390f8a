/* Measures how long each page fault, mmap and munmap of a program takes, while another program (pagetide)
 * may hold the lock of its memory map.
 *
 *   allocator RESIDENT_MIB SECONDS [--hot MIB]
 *
 * Fills RESIDENT_MIB of anonymous memory, and prints `ready pid=...` on standard error. One thread touches
 * the first --hot MIB (default: 64, or all if that is less) page by page in a loop. Another thread measures
 * in a loop:
 *   fault     the first touch of a page in a ring of 16 MiB
 *   dontneed  the MADV_DONTNEED that takes 64 pages back, before the ring comes to them again
 *   mmap      of 64 KiB;  munmap  of these, of which one page was touched
 * At the end the program prints one line of JSON. A percentile is the upper edge of its bucket, so it is at
 * most 1/16 octave (4.4%) too high; max is exact. clock_p50_ns is the median time of an empty measurement;
 * all other times include it. */
#include "schedule.h"

#include <pthread.h>

#define STEPS 16            /* buckets an octave; below 16 ns each ns has its own */
#define BUCKETS (64 * STEPS)
#define RING (16 * MIB / PAGE)
#define PIECE 64

static const char usage[] = "usage: allocator RESIDENT_MIB SECONDS [--hot MIB]";

enum op { FAULT, DONTNEED, MMAP, MUNMAP, CLOCK, OPS };
static const char *const names[OPS] = {"fault", "dontneed", "mmap", "munmap", "clock"};
static struct { uint64_t count, max, at[BUCKETS]; } seen[OPS];

static uint64_t *memory, *ring, hot_pages, hot_touches;
static int stop;

static void note(enum op op, uint64_t ns)
{
    unsigned octave = 63 - (unsigned)__builtin_clzll(ns | 1);
    size_t at = ns < STEPS ? ns : (octave - 3) * STEPS + ((ns >> (octave - 4)) & (STEPS - 1));
    seen[op].count++;
    seen[op].at[at]++;
    if (ns > seen[op].max)
        seen[op].max = ns;
}

/* The largest value of a bucket. */
static uint64_t edge(size_t at)
{
    return at < STEPS ? at : (((STEPS + 1 + at % STEPS) << (at / STEPS - 1)) - 1);
}

static uint64_t percentile(enum op op, double percent)
{
    uint64_t below = 0, rank = (uint64_t)((double)seen[op].count * percent / 100);
    for (size_t at = 0; at < BUCKETS; at++)
        if ((below += seen[op].at[at]) > rank)
            return edge(at) < seen[op].max ? edge(at) : seen[op].max;
    return seen[op].max;
}

static void *keep_hot(void *argument)
{
    uint64_t touches = 0, sum = 0;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        for (uint64_t page = 0; page < hot_pages; page++) {
            volatile uint64_t *word = memory + page * WORDS + page % WORDS;
            if (page & 1)
                *word = sum;
            else
                sum += *word;
        }
        touches += hot_pages;
    }
    hot_touches = touches;
    return argument;
}

static void measure_map(void)
{
    uint64_t begin = now_ns();
    void *at = mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    note(MMAP, now_ns() - begin);
    if (at == MAP_FAILED)
        FAIL(97, "mmap: %s", strerror(errno));
    *(volatile char *)at = 1;
    begin = now_ns();
    munmap(at, 64 << 10);
    note(MUNMAP, now_ns() - begin);
}

static void measure_fault(uint64_t number)
{
    volatile uint64_t *page = ring + number % RING * WORDS;
    uint64_t begin;
    if (number % PIECE == 0) {
        begin = now_ns();
        madvise((void *)page, PIECE * PAGE, MADV_DONTNEED);
        /* In the first round of the ring there is no earlier page to drop, so it is not measured. */
        if (number >= RING)
            note(DONTNEED, now_ns() - begin);
    }
    begin = now_ns();
    *page = number;
    note(FAULT, now_ns() - begin);
}

static void measure(uint64_t until)
{
    for (uint64_t number = 0; now_ns() < until; number++) {
        measure_fault(number);
        measure_map();
        uint64_t begin = now_ns();
        note(CLOCK, now_ns() - begin);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3 && !(argc == 5 && strcmp(argv[3], "--hot") == 0))
        FAIL(2, "%s", usage);
    uint64_t mib = number(argv[1], 1, 1 << 20, usage), seconds = number(argv[2], 1, 1000000, usage);
    uint64_t hot = argc == 5 ? number(argv[4], 1, mib, usage) : mib < 64 ? mib : 64;
    memory = map_anon(mib * MIB);
    ring = map_anon(RING * PAGE);
    madvise(ring, RING * PAGE, MADV_NOHUGEPAGE);
    hot_pages = hot * MIB / PAGE;
    for (uint64_t page = 0; page < mib * MIB / PAGE; page++)
        page_fill(memory + page * WORDS, page, 1);
    fprintf(stderr, "ready pid=%d\n", (int)getpid());
    pthread_t thread;
    uint64_t begin = now_ns();
    if (pthread_create(&thread, NULL, keep_hot, NULL) != 0)
        FAIL(97, "no thread");
    measure(begin + seconds * SECOND);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    double wall = (double)(now_ns() - begin) / 1e9;
    printf("{\"resident_mib\":%lu,\"hot_mib\":%lu,\"seconds\":%.3f", (unsigned long)mib,
           (unsigned long)hot, wall);
    for (int op = FAULT; op < CLOCK; op++)
        printf(",\"%s\":{\"count\":%lu,\"p50_ns\":%lu,\"p99_ns\":%lu,\"p999_ns\":%lu,\"p9999_ns\":%lu,"
               "\"max_ns\":%lu}", names[op], (unsigned long)seen[op].count,
               (unsigned long)percentile(op, 50), (unsigned long)percentile(op, 99),
               (unsigned long)percentile(op, 99.9), (unsigned long)percentile(op, 99.99),
               (unsigned long)seen[op].max);
    printf(",\"clock_p50_ns\":%lu,\"hot\":{\"touches\":%lu,\"touches_per_second\":%.0f}}\n",
           (unsigned long)percentile(CLOCK, 50), (unsigned long)hot_touches, (double)hot_touches / wall);
    return 0;
}
