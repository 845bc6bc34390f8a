/* Behaves as a daemon does at its start: it fills its memory, forks, prints the pid of its child, and ends
 * after SECONDS. The child has inherited all of its memory, writes to none of it, and sleeps until it is
 * killed.
 *
 *   orphan MIB SECONDS */
#include "schedule.h"

static const char usage[] = "usage: orphan MIB SECONDS";

int main(int argc, char **argv)
{
    if (argc != 3)
        FAIL(2, "%s", usage);
    size_t pages = number(argv[1], 1, 1 << 20, usage) * MIB / PAGE;
    uint64_t seconds = number(argv[2], 0, 3600, usage);
    uint64_t *memory = map_anon(pages * PAGE);
    for (size_t page = 0; page < pages; page++)
        page_fill(memory + page * WORDS, page, 1);
    pid_t child = fork();
    if (child < 0)
        FAIL(97, "fork: %s", strerror(errno));
    while (child == 0)
        pause();
    printf("%d\n", (int)child);
    fflush(stdout);
    sleep_us(seconds * 1000000);
    return 0;
}
