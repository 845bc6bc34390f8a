/* Touches memory at a steady rate by a pattern, and can write each touch to a trace: for tests that compare
 * a curve with the full trace.
 *
 *   paced PATTERN MIB PER_SECOND SECONDS [TRACE [anon|huge|file|shared]]
 *
 * Fills MIB, and prints `ready pid=P`. Then it touches PER_SECOND pages a second, in batches each hundredth
 * of a second, for SECONDS or until its standard input ends. If it is late, it catches up. At the end it
 * prints `touched N`. PATTERN is one of patterns.c, or one of these:
 *   even      evenly within all of it
 *   zipf0.8   by the law of zipf with this exponent
 *   phases    evenly within one half of the memory, then the other, changing every 20 s (phases60: every 60 s)
 *   grow      evenly within a quarter of it that grows by a MiB each second
 *   keep      evenly within a quarter, and every hundredth touch a page that was not touched before
 *   tail      nine of ten touches within the first tenth, the others by the law of zipf over all
 *   rare      evenly within the first half, and every 60,000th touch anywhere
 * The memory is anonymous in pages of 4 KiB (`anon`), in huge pages (`huge`), of a file beside the trace
 * (`file`), or shared (`shared`). Each touch is written to TRACE, the touches of the fill first, as a
 * record of libCacheSim's format oracleGeneral: second, page, 4096, -1. The trace is written by write(2)
 * and not mapped, so it is no part of this program's memory. */
#include "schedule.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>

static const char usage[] =
    "usage: paced even|zipf|hotcold|scanhot|moving|loop|phases|tail|rare|grow|keep MIB PER_SECOND SECONDS "
    "[TRACE [anon|huge|file|shared]]";
static double exponent;
static uint64_t filled, every = 20;
static uint64_t *memory, pages, octaves, total, state = 88172645463325252u, begin;

struct record { uint32_t second; uint64_t page; uint32_t size; int64_t next; } __attribute__((packed));
static struct record held[4096];
static size_t holding;
static int trace = -1;

static void flush_trace(void)
{
    const char *at = (const char *)held;
    size_t left = holding * sizeof *held;
    while (left > 0) {
        ssize_t n = write(trace, at, left);
        if (n <= 0)
            FAIL(97, "paced: the trace: %s", strerror(errno));
        at += n;
        left -= (size_t)n;
    }
    holding = 0;
}

/* Returns a random rank below `pages`: all octaves of ranks are equally likely. */
static uint64_t like_zipf(uint64_t random)
{
    uint64_t low = (uint64_t)1 << below(random << 32, octaves);
    uint64_t high = 2 * low < pages + 1 ? 2 * low : pages + 1;
    return (low + below(random, high - low) - 1) * 2654435761u % pages;
}

/* Returns a random page below `pages` by a continuous power law with the set exponent; ranks are spread
 * over all pages. */
static uint64_t like_zipf_of(uint64_t random)
{
    double even = (double)(random >> 11) / 9007199254740992.0, power = 1 - exponent;
    double rank = fabs(power) < 1e-9 ? pow((double)pages + 1, even)
                                     : pow(even * (pow((double)pages + 1, power) - 1) + 1, 1 / power);
    uint64_t at = (uint64_t)rank - 1;
    return (at < pages ? at : pages - 1) * 2654435761u % pages;
}

static uint64_t pick(const char *pattern, uint64_t number, uint64_t seconds)
{
    static uint64_t scan;
    uint64_t random = mix(xorshift(&state)), quarter = pages / 4;
    uint64_t grown = quarter + seconds * (MIB / PAGE);
    switch (pattern[0]) {
    case 'e': return below(random, pages);
    case 'g': return below(random, grown < pages ? grown : pages);
    case 'k': return number % 100 || quarter + scan == pages ? below(random, quarter) : quarter + scan++;
    case 'z': return exponent > 0 ? like_zipf_of(random) : like_zipf(random);
    case 'h': return below(random, pages * 2 / 5);
    case 's': return number % 10 ? below(random, quarter) : quarter + scan++ % (pages - quarter);
    case 'm': return (below(random, quarter) + number * 16 / total * (pages / 8)) % pages;
    case 'p': return below(random, pages / 2) + (seconds / every % 2) * (pages / 2);
    case 'r': return below(random, number % 60000 ? pages / 2 : pages);
    case 't': return number % 10 ? below(random, pages / 10) : like_zipf(random);
    default: return number % pages;
    }
}

static void note(uint64_t page, uint64_t second)
{
    if (trace < 0)
        return;
    held[holding++] = (struct record){(uint32_t)second, page, PAGE, -1};
    if (holding == sizeof held / sizeof *held)
        flush_trace();
}

static void touch(uint64_t page, uint64_t number, uint64_t second)
{
    volatile uint64_t *at = memory + page * WORDS;
    if (number % 4 == 0 || page >= filled)
        at[1] = number;
    else
        (void)at[1];
    note(page, second);
}

static int input_ended(void)
{
    struct pollfd input = {0, POLLIN, 0};
    char byte;
    return poll(&input, 1, 0) > 0 && read(0, &byte, 1) <= 0;
}

/* Maps the memory; `kind` is `anon`, `huge`, `file` or `shared`. */
static uint64_t *made(const char *kind, const char *beside)
{
    size_t bytes = pages * PAGE, huge = 2 * MIB;
    if (kind[0] == 'f') {
        char name[4096];
        snprintf(name, sizeof name, "%s.data", beside);
        int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
            FAIL(97, "paced: %s: %s", name, strerror(errno));
        void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (at == MAP_FAILED)
            FAIL(97, "paced: mmap: %s", strerror(errno));
        return at;
    }
    if (kind[0] == 's') {
        void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            FAIL(97, "paced: mmap: %s", strerror(errno));
        return at;
    }
    char *at = map_anon(bytes + huge);
    at += huge - (uintptr_t)at % huge;
    madvise(at, bytes, kind[0] == 'h' ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return (uint64_t *)at;
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 7 || !*argv[1] || !strchr("ezhsmlptrgk", argv[1][0]))
        FAIL(2, "%s", usage);
    if (argv[1][0] == 'z' && argv[1][4])
        exponent = atof(argv[1] + 4);
    if (argv[1][0] == 'p' && argv[1][6])
        every = number(argv[1] + 6, 1, 3600, usage);
    pages = number(argv[2], 1, 1 << 20, usage) * MIB / PAGE;
    uint64_t rate = number(argv[3], 100, 100000000, usage);
    uint64_t seconds = number(argv[4], 1, 1 << 20, usage);
    total = rate * seconds;
    if (argc >= 6 && (trace = open(argv[5], O_WRONLY | O_CREAT | O_TRUNC, 0644)) < 0)
        FAIL(97, "paced: %s: %s", argv[5], strerror(errno));
    memory = made(argc == 7 ? argv[6] : "anon", argv[5]);
    filled = strchr("gk", argv[1][0]) ? pages / 4 : pages;
    while ((uint64_t)1 << octaves <= pages)
        octaves++;
    for (uint64_t page = 0; page < filled; page++) {
        page_fill(memory + page * WORDS, page, 1);
        note(page, 0);
    }
    printf("ready pid=%d\n", (int)getpid());
    fflush(stdout);
    begin = now_ns();
    uint64_t done = 0;
    for (uint64_t tick = 0; tick < seconds * 100 && !input_ended(); tick++) {
        sleep_until(begin + tick * (SECOND / 100));
        for (uint64_t due = (tick + 1) * rate / 100; done < due; done++)
            touch(pick(argv[1], done, tick / 100), done, tick / 100);
    }
    if (trace >= 0)
        flush_trace();
    printf("touched %lu\n", (unsigned long)done);
    return 0;
}
