/* A program with nothing to do: fills its memory, says `ready`, and sleeps. On SIGUSR1 it checks every page and
 * prints how many seconds that took; on SIGUSR2 it does so with pages picked by chance, twelve times as many.
 *
 *   sleeper MIB */
#include "schedule.h"

#include <signal.h>

static const char usage[] = "usage: sleeper MIB";

int main(int argc, char **argv)
{
    if (argc != 2)
        FAIL(2, "%s", usage);
    size_t pages = number(argv[1], 1, 1 << 20, usage) * MIB / PAGE;
    uint64_t *memory = map_anon(pages * PAGE);
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    sigaddset(&wanted, SIGUSR2);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    for (size_t page = 0; page < pages; page++)
        page_fill(memory + page * WORDS, page, 1);
    printf("ready\n");
    for (int signal;;) {
        fflush(stdout);
        sigwait(&wanted, &signal);
        uint64_t begin = now_ns();
        /* One word a page: how long reading all of it takes is not what is asked. */
        size_t touches = signal == SIGUSR2 ? 12 * pages : pages;
        for (size_t touch = 0; touch < touches; touch++) {
            size_t page = signal == SIGUSR2 ? mix(touch) % pages : touch;
            uint64_t key = mix(page * 1000003 + 1);
            if (memory[page * WORDS] != (page % 4 < 2 ? key : mix(key)))
                FAIL(99, "page %zu is wrong", page);
        }
        printf("%.4f\n", (double)(now_ns() - begin) / 1e9);
    }
}
