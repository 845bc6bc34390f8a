/* Two processes in one address space (CLONE_VM without CLONE_THREAD). The second process keeps the address
 * space alive.
 *
 *   twins MIB SECONDS
 *
 * Fills MIB of private anonymous memory, starts the second process, prints `ready pid=...`, and then
 * touches no memory. After SECONDS, or at SIGUSR1, it reads VmSwap, checks all memory, and prints `swapped
 * KIB` (the VmSwap before the check). It fails (`page_check`) if a byte is wrong. */
#include "schedule.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static const char usage[] = "usage: twins MIB SECONDS";

static int second(void *unused)
{
    (void)unused;
    while (pause() < 0)
        ;
    return 0;
}

static long swapped(void)
{
    char line[200];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "VmSwap: %ld", &kib);
    if (status)
        fclose(status);
    return kib;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        FAIL(2, "%s", usage);
    uint64_t pages = number(argv[1], 1, 1 << 20, usage) * MIB / PAGE;
    struct timespec most = {.tv_sec = number(argv[2], 1, 1000000, usage)};
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGUSR1);
    sigprocmask(SIG_BLOCK, &end, NULL);
    uint64_t *memory = map_anon(pages * PAGE);
    for (uint64_t page = 0; page < pages; page++)
        page_fill(memory + page * WORDS, page, 1);
    char *stack = malloc(65536);
    int child = clone(second, stack + 65536, CLONE_VM | SIGCHLD, NULL);
    if (child < 0)
        FAIL(97, "clone: %s", strerror(errno));
    printf("ready pid=%d\n", getpid());
    fflush(stdout);
    sigtimedwait(&end, NULL, &most);
    printf("swapped %ld\n", swapped());
    for (uint64_t page = 0; page < pages; page++)
        page_check(memory + page * WORDS, page, 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}
