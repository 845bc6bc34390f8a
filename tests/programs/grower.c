/* Allocates as fast as it can up to a size, then checks all of it: a limit must hold meanwhile.
 *
 *   grower [--mib 256] [--passes 2]     prints a checksum */
#include "common.h"

int main(int argc, char **argv)
{
    size_t pages = option(argc, argv, "--mib", 256) * MIB / PAGE;
    uint64_t passes = option(argc, argv, "--passes", 2), sum = 0, begin = now_ns();
    uint64_t *memory = map_anon(pages * PAGE);
    alarm(300);
    for (size_t page = 0; page < pages; page++)
        page_fill(memory + page * WORDS, page, 1);
    uint64_t grown = now_ns();
    for (uint64_t pass = 0; pass < passes; pass++)
        for (size_t page = 0; page < pages; page++) {
            page_check(memory + page * WORDS, page, 1);
            sum += memory[page * WORDS + pass];
        }
    fprintf(stderr, "grown in %lu ms, checked in %lu ms\n", (unsigned long)(grown - begin) / 1000000,
            (unsigned long)(now_ns() - grown) / 1000000);
    printf("OK pages=%zu checksum=%016lx\n", pages, (unsigned long)sum);
    return 0;
}
