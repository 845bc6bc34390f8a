/* A small program that uses all of its memory once a second: of very many, what looks at them cost.
 *
 *   ticks MIB SECONDS
 *
 * Says `ready` when all is filled. Its seconds begin at an instant by its number, so that many do not wake at once. */
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
