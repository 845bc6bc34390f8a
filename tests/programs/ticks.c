/* A small program that uses all of its memory once a second. Benchmarks start very many of it, to measure
 * what scans cost.
 *
 *   ticks MIB SECONDS
 *
 * Prints `ready` when it has filled its memory. The time within a second at which it wakes follows from its
 * pid, so that not all programs wake at the same time. */
#include "schedule.h"

static const char usage[] = "usage: ticks MIB SECONDS";

int main(int argc, char **argv)
{
    if (argc != 3)
        FAIL(2, "%s", usage);
    uint64_t pages = number(argv[1], 1, 1 << 20, usage) * MIB / PAGE;
    uint64_t seconds = number(argv[2], 1, 1000000, usage);
    volatile uint64_t *memory = map_anon(pages * PAGE);
    uint64_t begin = now_ns() + SECOND * ((uint64_t)getpid() % 1000) / 1000;
    for (uint64_t turn = 0; turn <= seconds; turn++) {
        for (uint64_t page = 0; page < pages; page++)
            memory[page * WORDS] = turn + 1;
        if (turn == 0 && (puts("ready") == EOF || fflush(stdout) == EOF))
            return 1;
        sleep_until(begin + turn * SECOND);
    }
    return 0;
}
