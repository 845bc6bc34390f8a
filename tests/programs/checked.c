/* Memory that is checked as it is used, with its progress to be read from outside.
 *
 *   checked MIB PROGRESS
 *
 * PROGRESS: a file of three words: touches, nanoseconds of processor time of this process, whether it is ready.
 * Touches the first tenth of its pages in random order, each word checked and every other one rewritten. At
 * SIGTERM it checks all pages, says `right PAGES` and ends with 7; a wrong word ends it with 99. */
#include "common.h"

#include <fcntl.h>
#include <signal.h>

static volatile sig_atomic_t over;

static void end(int signal)
{
    (void)signal;
    over = 1;
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        FAIL(2, "usage: checked MIB PROGRESS");
    signal(SIGTERM, end);
    size_t pages = strtoull(argv[1], NULL, 10) * MIB / PAGE, hot = pages / 10 + 1;
    int file = open(argv[2], O_RDWR | O_CREAT, 0666);
    if (file < 0 || ftruncate(file, PAGE) != 0)
        FAIL(98, "%s: %s", argv[2], strerror(errno));
    volatile uint64_t *told = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (told == MAP_FAILED)
        FAIL(98, "%s: %s", argv[2], strerror(errno));
    uint64_t *memory = map_anon(pages * PAGE), *versions = map_anon((hot * 8 + PAGE - 1) / PAGE * PAGE);
    for (size_t page = 0; page < pages; page++)
        page_fill(memory + page * WORDS, page, 0);
    told[2] = 1;
    for (uint64_t at = 0; !over; at++) {
        uint64_t page = mix(at) % hot;
        page_check(memory + page * WORDS, page, versions[page]);
        if (at & 1)
            page_fill(memory + page * WORDS, page, ++versions[page]);
        if (at % 64 == 0) {
            told[0] = at;
            told[1] = cpu_ns();
        }
    }
    for (size_t page = 0; page < pages; page++)
        page_check(memory + page * WORDS, page, page < hot ? versions[page] : 0);
    printf("right %zu\n", pages);
    return 7;
}
