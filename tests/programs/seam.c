/* Stored pages on both sides of a seam between two mappings. A run of them that is brought back as one
 * does not end where the mapping ends; the kernel then refuses all of it. Parent and child read across
 * the seam, in order, so that runs grow; one child waits until it has a keeper of its own.
 *
 *   seam [--pages 512] [--rounds 6]     prints a checksum */
#include "common.h"

#include <sys/wait.h>

static uint64_t *memory;
static size_t pages;

static uint64_t read_all(uint64_t version)
{
    uint64_t sum = 0;
    for (size_t page = 0; page < pages; page++) {
        page_check(memory + page * WORDS, page, version);
        sum = mix(sum + memory[page * WORDS + page % WORDS]);
    }
    return sum;
}

/* Two mappings with a seam after `first` pages; they stay apart as long as one is read-only. */
static void seam(size_t first, int protection)
{
    if (mprotect(memory + first * WORDS, (pages - first) * PAGE, protection) != 0)
        FAIL(97, "mprotect: %s", strerror(errno));
}

static pid_t reader(uint64_t version, uint64_t wait_us)
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(120);
        sleep_us(wait_us);
        read_all(version);
        _exit(0);
    }
    return pid;
}

static void judge(pid_t pid)
{
    int status = 1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        FAIL(99, "a reading child: wait status 0x%x", (unsigned)status);
}

int main(int argc, char **argv)
{
    uint64_t rounds = option(argc, argv, "--rounds", 6), sum = 0;
    pages = option(argc, argv, "--pages", 512);
    memory = map_anon(pages * PAGE);
    alarm(240);
    for (uint64_t round = 1; round <= rounds; round++) {
        size_t first = pages / 4 + 7 * round;
        for (size_t page = 0; page < pages; page++)
            page_fill(memory + page * WORDS, page, round);
        sleep_us(400000); /* all of it goes out as one */
        seam(first, PROT_READ);
        pid_t soon = reader(round, 0), late = reader(round, round == 1 ? 5000000 : 100000);
        sum += read_all(round);
        judge(soon);
        judge(late);
        seam(first, PROT_READ | PROT_WRITE);
    }
    printf("%016lx\n", (unsigned long)sum);
    return 0;
}
