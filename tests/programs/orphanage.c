/* A child that needs its parent's keepers while they are gone.
 *
 *   orphanage [--mib 48] [--wait-ms 1200]
 *
 * Fills memory, says so, and waits until it has been put out and SIGUSR1 comes; then forks. The child
 * says so, waits, and checks all that it inherited; the parent changes half of its own meanwhile,
 * checks it all, and ends as the child did. */
#include "common.h"

#include <signal.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
    size_t pages = option(argc, argv, "--mib", 48) * MIB / PAGE;
    uint64_t *memory = map_anon(pages * PAGE);
    for (size_t page = 0; page < pages; page++)
        page_fill(memory + page * WORDS, page, 1);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("filled\n");
    fflush(stdout);
    int number;
    sigwait(&set, &number);
    pid_t pid = fork();
    if (pid < 0)
        FAIL(97, "fork: %s", strerror(errno));
    alarm(120);
    if (pid == 0) {
        printf("forked\n");
        fflush(stdout);
        sleep_us(option(argc, argv, "--wait-ms", 1200) * 1000);
        for (size_t page = 0; page < pages; page++)
            page_check(memory + page * WORDS, page, 1);
        _exit(0);
    }
    for (size_t page = 0; page < pages; page += 2)
        page_fill(memory + page * WORDS, page, 2);
    for (size_t page = 0; page < pages; page++)
        page_check(memory + page * WORDS, page, page % 2 == 0 ? 2 : 1);
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        FAIL(98, "the child ended with wait status 0x%x", status);
    return WEXITSTATUS(status);
}
