/* Touches memory by a pattern, and measures the speed; it does not check the content of its memory.
 *
 *   toucher [--mib 256] [--seconds 10] [--warm 0] [--hot 10] [--write 0] [--think-us 0] PATTERN
 *
 * PATTERN: hot (the first --hot percent), cold (nothing after the fill), zipf, scan, uniform. Prints one
 * JSON object: the number of touches, touches per second, major faults since the fill, and percentiles of
 * the time of a touch in ns, from second --warm on. A touch reads one word of one page; --write percent of
 * the touches also write it. */
#include "common.h"

#include <math.h>
#include <sys/resource.h>

#define BUCKETS 4096

static size_t pages;
static uint64_t hot_percent, state;
static uint64_t histogram[BUCKETS]; /* 64 steps an octave: 1.1% wide */

static uint64_t next(void)
{
    return mix(state++);
}

static double unit(void)
{
    return (double)(next() >> 11) / 9007199254740992.0;
}

/* Returns a random page by a bounded power law with exponent 0.99 (by inversion). Ranks are spread over the
 * memory, so that hot pages are not neighbours. */
static size_t zipf(void)
{
    const double exponent = 0.01;
    double top = pow((double)pages, exponent);
    size_t rank = (size_t)pow(unit() * (top - 1) + 1, 1 / exponent) - 1;
    return (rank * 2654435761u) % pages;
}

static size_t pick(const char *pattern, uint64_t number)
{
    switch (pattern[0]) {
    case 'h': return next() % (pages * hot_percent / 100 < 1 ? 1 : pages * hot_percent / 100);
    case 'z': return zipf() % pages;
    case 's': return number % pages;
    default: return next() % pages;
    }
}

static uint64_t majors(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        FAIL(1, "toucher: getrusage fails");
    return (uint64_t)usage.ru_majflt;
}

static size_t bucket(uint64_t ns)
{
    if (ns < 64)
        return ns;
    unsigned octave = 63 - (unsigned)__builtin_clzll(ns);
    size_t at = (size_t)(octave - 5) * 64 + ((ns >> (octave - 6)) & 63);
    return at < BUCKETS ? at : BUCKETS - 1;
}

static double bucket_ns(size_t at)
{
    return at < 128 ? (double)at : ldexp(64.0 + (double)(at % 64), (int)(at / 64) - 1);
}

static double percentile(uint64_t total, double percent)
{
    uint64_t seen = 0;
    for (size_t at = 0; at < BUCKETS; at++)
        if ((seen += histogram[at]) >= (uint64_t)((double)total * percent / 100) && seen)
            return bucket_ns(at);
    return 0;
}

static void check_pattern(const char *pattern)
{
    static const char *const known[] = {"hot", "cold", "zipf", "scan", "uniform"};
    for (size_t i = 0; i < 5; i++)
        if (strcmp(pattern, known[i]) == 0)
            return;
    FAIL(2, "toucher: the last argument is hot, cold, zipf, scan or uniform, not %s", pattern);
}

int main(int argc, char **argv)
{
    const char *pattern = argv[argc - 1];
    check_pattern(pattern);
    pages = option(argc, argv, "--mib", 256) * MIB / PAGE;
    hot_percent = option(argc, argv, "--hot", 10);
    uint64_t write_percent = option(argc, argv, "--write", 0);
    uint64_t think_us = option(argc, argv, "--think-us", 0);
    uint64_t *memory = map_anon(pages * PAGE);
    for (size_t page = 0; page < pages; page++)
        page_fill(memory + page * WORDS, page, 1);
    uint64_t begin = now_ns(), warm = begin + option(argc, argv, "--warm", 0) * 1000000000;
    uint64_t end = warm + option(argc, argv, "--seconds", 10) * 1000000000;
    uint64_t touches = 0, number = 0, before = begin, majors_before = majors();
    if (pattern[0] == 'c')
        sleep_us((end - begin) / 1000);
    while (before < end) {
        size_t page = pick(pattern, number++);
        volatile uint64_t *word = memory + page * WORDS + 1;
        before = now_ns();
        uint64_t value = *word;
        if (write_percent && next() % 100 < write_percent)
            *word = value;
        uint64_t after = now_ns();
        if (before >= warm) {
            histogram[bucket(after - before)]++;
            touches++;
        }
        if (think_us)
            sleep_us(think_us);
    }
    double seconds = (double)(end - warm) / 1e9;
    printf("{\"pattern\":\"%s\",\"touches\":%lu,\"per_second\":%.0f,\"majors\":%lu,\"p50_ns\":%.0f,\"p99_ns\":%.0f,"
           "\"p999_ns\":%.0f,\"max_ns\":%.0f}\n",
           pattern, (unsigned long)touches, (double)touches / seconds,
           (unsigned long)(majors() - majors_before), percentile(touches, 50),
           percentile(touches, 99), percentile(touches, 99.9), percentile(touches, 100));
    return 0;
}
