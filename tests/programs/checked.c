/* Uses its memory, and checks each word that it reads; a test can read its progress from a file.
 *
 *   checked MIB PROGRESS [WORKERS]
 *
 * PROGRESS is a file of three words: the number of touches, nanoseconds of processor time of this process,
 * and 1 once the program is ready. The program touches the first tenth of its pages in random order; it
 * checks each word of a touched page, and at every second touch rewrites the page. At SIGTERM it checks all
 * pages, prints `right PAGES` and ends with 7. After a wrong word it ends with 99.
 *
 * With WORKERS it is a pre-fork server. The workers inherit its memory by fork and do the work, each on
 * copies of its own; the first worker writes the progress. The server waits for SIGTERM, ends the workers,
 * and checks its own memory. No worker outlives the server. */
#include "common.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MOST 16

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

static uint64_t *memory, *versions;
static size_t pages, hot;

/* Touches pages until SIGTERM, and then checks every page. */
static void work(volatile uint64_t *told)
{
    for (uint64_t at = 0; !over; at++) {
        uint64_t page = mix(at) % hot;
        page_check(memory + page * WORDS, page, versions[page]);
        if (at & 1)
            page_fill(memory + page * WORDS, page, ++versions[page]);
        if (told && at % 64 == 0) {
            told[0] = at;
            told[1] = cpu_ns();
        }
    }
    for (size_t page = 0; page < pages; page++)
        page_check(memory + page * WORDS, page, page < hot ? versions[page] : 0);
}

static void serve(uint64_t workers, volatile uint64_t *told)
{
    pid_t pids[MOST], parent = getpid();
    sigset_t term;
    int signal, status;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    for (uint64_t i = 0; i < workers; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            FAIL(97, "fork: %s", strerror(errno));
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(0);
            sigprocmask(SIG_UNBLOCK, &term, NULL);
            work(i == 0 ? told : NULL);
            _exit(0);
        }
    }
    told[2] = 1;
    sigwait(&term, &signal);
    for (uint64_t i = 0; i < workers; i++)
        if (kill(pids[i], SIGTERM) != 0 || waitpid(pids[i], &status, 0) != pids[i] || status != 0)
            FAIL(99, "worker %lu is wrong", (unsigned long)i);
    over = 1;
    work(NULL);
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4)
        FAIL(2, "usage: checked MIB PROGRESS [WORKERS]");
    signal(SIGTERM, end);
    uint64_t workers = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
    if (workers > MOST)
        FAIL(2, "no more than %d workers", MOST);
    pages = strtoull(argv[1], NULL, 10) * MIB / PAGE;
    hot = pages / 10 + 1;
    int file = open(argv[2], O_RDWR | O_CREAT, 0666);
    if (file < 0 || ftruncate(file, PAGE) != 0)
        FAIL(98, "%s: %s", argv[2], strerror(errno));
    volatile uint64_t *told = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (told == MAP_FAILED)
        FAIL(98, "%s: %s", argv[2], strerror(errno));
    memory = map_anon(pages * PAGE);
    versions = map_anon((hot * 8 + PAGE - 1) / PAGE * PAGE);
    for (size_t page = 0; page < pages; page++)
        page_fill(memory + page * WORDS, page, 0);
    if (workers > 0) {
        serve(workers, told);
    } else {
        told[2] = 1;
        work(told);
    }
    printf("right %zu\n", pages);
    return 7;
}
