/* Does a fixed amount of work on memory by a pattern; for benchmarks that measure the time to its end.
 *
 *   patterns PATTERN MIB THOUSANDS
 *
 * Fills MIB, and then makes THOUSANDS thousand touches. A touch computes a hash of the whole page (about
 * half a microsecond); every fourth touch also writes to the page. At the end the program prints a
 * checksum, which is always the same unless a byte is wrong.
 *   zipf      by a law like 1/rank, ranks spread over the memory
 *   hotcold   evenly within the first two fifths
 *   scanhot   evenly within the first quarter, and every tenth touch the next page of all the rest
 *   moving    evenly within a quarter that moves on by an eighth of the memory, 16 times
 *   loop      one page after the other, around and around */
#include "schedule.h"

static const char usage[] = "usage: patterns zipf|hotcold|scanhot|moving|loop MIB THOUSANDS";
static uint64_t *memory, pages, octaves, total, state = 88172645463325252u, sum;

/* Returns a random rank below `pages`: all octaves of ranks are equally likely. */
static uint64_t like_zipf(uint64_t random)
{
    uint64_t low = (uint64_t)1 << below(random << 32, octaves);
    uint64_t high = 2 * low < pages + 1 ? 2 * low : pages + 1;
    return (low + below(random, high - low) - 1) * 2654435761u % pages;
}

static uint64_t pick(char pattern, uint64_t number)
{
    static uint64_t scan;
    uint64_t random = mix(xorshift(&state)), quarter = pages / 4;
    switch (pattern) {
    case 'z': return like_zipf(random);
    case 'h': return below(random, pages * 2 / 5);
    case 's': return number % 10 ? below(random, quarter) : quarter + scan++ % (pages - quarter);
    case 'm': return (below(random, quarter) + number * 16 / total * (pages / 8)) % pages;
    default: return number % pages;
    }
}

static void touch(uint64_t page, uint64_t number)
{
    uint64_t *at = memory + page * WORDS, hash = 0;
    for (size_t i = 0; i < WORDS; i++)
        hash = (hash ^ at[i]) * 0x9e3779b97f4a7c15u;
    sum = mix(sum ^ hash);
    if (number % 4 == 0)
        at[number % WORDS] ^= number;
}

int main(int argc, char **argv)
{
    if (argc != 4 || !strchr("zhsml", argv[1][0]) || !*argv[1])
        FAIL(2, "%s", usage);
    pages = number(argv[2], 1, 1 << 20, usage) * MIB / PAGE;
    total = number(argv[3], 1, 1 << 30, usage) * 1000;
    memory = map_anon(pages * PAGE);
    while ((uint64_t)1 << octaves <= pages)
        octaves++;
    for (uint64_t page = 0; page < pages; page++)
        page_fill(memory + page * WORDS, page, 1);
    for (uint64_t i = 0; i < total; i++)
        touch(pick(argv[1][0], i), i);
    printf("OK %016lx\n", (unsigned long)sum);
    return 0;
}
