/* A bystander that needs a known share of its memory: meant to run in a control group that is limited to
 * a little less, so that it swaps at a steady rate, and suffers from whoever else uses the swap.
 *
 *   swapper MIB HOT_PERCENT SECONDS [--zipf]
 *
 * Fills MIB, says `ready pid=...` on standard error, then touches pages of the first HOT_PERCENT in random
 * order, a third of the touches writes: evenly, or (--zipf) by a law like 1/rank, the ranks spread over
 * the memory. At the end one line of JSON with its throughput and its own faults. */
#include "schedule.h"

#include <sys/resource.h>

static const char usage[] = "usage: swapper MIB HOT_PERCENT SECONDS [--zipf]";
static uint64_t *memory, hot_pages, octaves, state = 88172645463325252u, sum;

/* A rank below hot_pages: each octave of ranks is as likely as any other. */
static uint64_t like_zipf(uint64_t random)
{
    uint64_t low = (uint64_t)1 << below(random << 32, octaves);
    uint64_t high = 2 * low < hot_pages + 1 ? 2 * low : hot_pages + 1;
    return low + below(random, high - low) - 1;
}

static void touch(int zipf)
{
    uint64_t random = mix(xorshift(&state));
    uint64_t page = zipf ? like_zipf(random) * 2654435761u % hot_pages : below(random, hot_pages);
    volatile uint64_t *word = memory + page * WORDS + (random & 511);
    uint64_t value = *word;
    if (random % 3 == 0)
        *word = value + 1;
    sum += value;
}

int main(int argc, char **argv)
{
    if (argc != 4 && !(argc == 5 && strcmp(argv[4], "--zipf") == 0))
        FAIL(2, "%s", usage);
    uint64_t mib = number(argv[1], 1, 1 << 20, usage), percent = number(argv[2], 1, 100, usage);
    uint64_t seconds = number(argv[3], 1, 1000000, usage);
    int zipf = argc == 5;
    memory = map_anon(mib * MIB);
    hot_pages = mib * MIB / PAGE * percent / 100;
    while ((uint64_t)1 << octaves <= hot_pages)
        octaves++;
    for (uint64_t page = 0; page < mib * MIB / PAGE; page++)
        page_fill(memory + page * WORDS, page, 1);
    fprintf(stderr, "ready pid=%d\n", (int)getpid());
    struct rusage before, after;
    struct rates rates = {0};
    getrusage(RUSAGE_SELF, &before);
    uint64_t begin = now_ns(), until = begin + seconds * SECOND, now = begin, touches = 0;
    rates_begin(&rates, begin, seconds);
    while (now < until) {
        /* Few between two looks at the clock: each may wait for the disk. */
        for (int i = 0; i < 32; i++)
            touch(zipf);
        touches += 32;
        now = now_ns();
        rates_note(&rates, now, touches);
    }
    getrusage(RUSAGE_SELF, &after);
    double wall = (double)(now - begin) / 1e9;
    long major = after.ru_majflt - before.ru_majflt, minor = after.ru_minflt - before.ru_minflt;
    printf("{\"mib\":%lu,\"hot_percent\":%lu,\"zipf\":%s,\"touches\":%lu,\"seconds\":%.3f,"
           "\"touches_per_second\":%.0f,\"window_median_per_second\":%.0f,\"window_p5_per_second\":%.0f,"
           "\"major_faults\":%ld,\"major_faults_per_second\":%.1f,\"minor_faults\":%ld}\n",
           (unsigned long)mib, (unsigned long)percent, zipf ? "true" : "false", (unsigned long)touches,
           wall, (double)touches / wall, rates_percentile(&rates, 50), rates_percentile(&rates, 5), major,
           (double)major / wall, minor);
    return 0;
}
