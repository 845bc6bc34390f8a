/* A fork server. Children check the memory that they inherited, and change it; the parent's memory must not
 * change by that. A child must not see what the parent changes after the fork.
 *
 *   forkserver [--mib 128] [--forks 60] [--alive 4] [--rest-ms 0]     prints a checksum
 *
 * The server sleeps after each fourth fork; otherwise none of its memory would ever be cold. */
#include "common.h"

#include <sys/wait.h>

static uint64_t *memory, *versions;
static size_t pages;

/* Each child checks all memory in an order of its own, so that swapped-out pages are swapped in one by one. */
static uint64_t check_all(uint64_t seed)
{
    uint64_t sum = 0;
    size_t step = (mix(seed) % pages) | 1, at = mix(seed + 1) % pages;
    while (pages % step == 0 && step > 1)
        step -= 2;
    for (size_t i = 0; i < pages; i++) {
        size_t page = seed % 3 == 0 ? i : (at + i * step) % pages;
        page_check(memory + page * WORDS, page, versions[page]);
        sum += memory[page * WORDS + i % WORDS];
    }
    return sum;
}

static void change(uint64_t seed, size_t count, uint64_t version)
{
    for (size_t i = 0; i < count; i++) {
        size_t page = mix(seed * 65537 + i) % pages;
        versions[page] = version;
        page_fill(memory + page * WORDS, page, version);
    }
}

static void child(uint64_t number)
{
    alarm(120);
    check_all(number);
    change(number, pages / 8, 1000000 + number);
    check_all(number + 1);
    if (number % 4 == 0) {
        pid_t pid = fork();
        int status = 1;
        if (pid == 0) {
            check_all(number + 2);
            _exit(0);
        }
        change(number + 7, pages / 16, 2000000 + number);
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            FAIL(99, "grandchild of child %lu: wait status 0x%x", (unsigned long)number, status);
        check_all(number);
    }
    _exit(0);
}

static void reap(unsigned *alive)
{
    int status;
    if (waitpid(-1, &status, 0) < 0)
        FAIL(97, "waitpid: %s", strerror(errno));
    if (status != 0)
        FAIL(99, "a child ended with wait status 0x%x", status);
    --*alive;
}

int main(int argc, char **argv)
{
    pages = option(argc, argv, "--mib", 128) * MIB / PAGE;
    uint64_t forks = option(argc, argv, "--forks", 60), most = option(argc, argv, "--alive", 4);
    uint64_t rest = option(argc, argv, "--rest-ms", 0);
    memory = map_anon(pages * PAGE);
    versions = map_anon(pages * sizeof *versions);
    for (size_t page = 0; page < pages; page++)
        page_fill(memory + page * WORDS, page, 0);
    unsigned alive = 0;
    uint64_t sum = 0;
    for (uint64_t number = 1; number <= forks; number++) {
        alarm(180);
        pid_t pid = fork();
        if (pid < 0)
            FAIL(97, "fork: %s", strerror(errno));
        if (pid == 0)
            child(number);
        alive++;
        change(number + 500, pages / 32, number);
        while (alive >= most)
            reap(&alive);
        if (number % 4 == 0)
            sleep_us(rest * 1000);
        if (number % 8 == 0)
            sum += check_all(number);
    }
    while (alive > 0)
        reap(&alive);
    printf("OK forks=%lu checksum=%016lx\n", (unsigned long)forks,
           (unsigned long)(sum + check_all(3)));
    return 0;
}
