/* Reads and writes random pages of a hot part of its memory; for benchmarks that measure by how much a
 * program slows down.
 *
 *   hotset MIB HOT_MIB SECONDS [--rate N]
 *
 * Fills MIB, and prints `ready pid=...` on standard error. Then one thread touches pages of the first
 * HOT_MIB in random order, as fast as it can or N times a second; every second touch writes. At the end the
 * program prints one line of JSON. With --rate the program catches up if it is late, so a slowdown shows
 * only in cpu_seconds. */
#include "schedule.h"

#include <sys/resource.h>

#define BURST 256       /* touches between two looks at the clock */
#define TICK (SECOND / 100)

static const char usage[] = "usage: hotset MIB HOT_MIB SECONDS [--rate TOUCHES_PER_SECOND]";
static uint64_t *memory, hot_pages, state = 88172645463325252u, sum;

static void touch(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t random = xorshift(&state);
        volatile uint64_t *word = memory + below(random, hot_pages) * WORDS + (random & 511);
        if (i & 1)
            *word = random;
        else
            sum += *word;
    }
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Returns the number of touches; sets *end to the time of the last touch. */
static uint64_t work(uint64_t begin, uint64_t *end, uint64_t rate, struct rates *rates)
{
    uint64_t until = *end, touches = 0, now = begin;
    for (uint64_t tick = 1; now < until; tick++) {
        uint64_t due = rate ? (uint64_t)((double)rate * (double)(tick * TICK) / 1e9) : touches + BURST;
        for (uint64_t some; touches < due && now < until; touches += some, now = now_ns()) {
            some = due - touches < BURST ? due - touches : BURST;
            touch(some);
        }
        if (rate)
            sleep_until(begin + tick * TICK < until ? begin + tick * TICK : until);
        now = now_ns();
        rates_note(rates, now, touches);
    }
    *end = now;
    return touches;
}

int main(int argc, char **argv)
{
    if (argc != 4 && !(argc == 6 && strcmp(argv[4], "--rate") == 0))
        FAIL(2, "%s", usage);
    uint64_t mib = number(argv[1], 1, 1 << 20, usage), hot = number(argv[2], 1, mib, usage);
    uint64_t seconds = number(argv[3], 1, 1000000, usage);
    uint64_t rate = argc == 6 ? number(argv[5], 100, 1000000000, usage) : 0;
    memory = map_anon(mib * MIB);
    hot_pages = hot * MIB / PAGE;
    for (uint64_t page = 0; page < mib * MIB / PAGE; page++)
        page_fill(memory + page * WORDS, page, 1);
    fprintf(stderr, "ready pid=%d\n", (int)getpid());
    struct rusage before, after;
    struct rates rates = {0};
    double cpu = cpu_seconds();
    getrusage(RUSAGE_SELF, &before);
    uint64_t begin = now_ns(), end = begin + seconds * SECOND;
    rates_begin(&rates, begin, seconds);
    uint64_t touches = work(begin, &end, rate, &rates);
    cpu = cpu_seconds() - cpu;
    getrusage(RUSAGE_SELF, &after);
    double wall = (double)(end - begin) / 1e9;
    printf("{\"mib\":%lu,\"hot_mib\":%lu,\"rate\":%lu,\"touches\":%lu,\"seconds\":%.3f,"
           "\"touches_per_second\":%.0f,\"window_median_per_second\":%.0f,\"window_p5_per_second\":%.0f,"
           "\"cpu_seconds\":%.3f,\"cpu_ns_per_touch\":%.1f,\"major_faults\":%ld,\"minor_faults\":%ld}\n",
           (unsigned long)mib, (unsigned long)hot, (unsigned long)rate, (unsigned long)touches, wall,
           (double)touches / wall, rates_percentile(&rates, 50), rates_percentile(&rates, 5), cpu,
           cpu * 1e9 / (double)touches, after.ru_majflt - before.ru_majflt,
           after.ru_minflt - before.ru_minflt);
    return 0;
}
