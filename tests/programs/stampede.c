/* Threads that free ranges of their memory without a pause (MADV_DONTNEED, MADV_FREE), while another thread
 * uses memory that was paged out.
 *
 *   stampede [--threads 8] [--mib 4] [--ms 3000] [--remap 0] [--fork 0] [--child 0]
 *            [--waiters 0]
 *
 * Each thread frees ranges of its own memory again and again, and touches none of it: with eight threads
 * some range is being freed at nearly every instant. Meanwhile the first thread reads and writes memory
 * that was paged out. With --remap N each thread also moves its memory to and fro, every N ranges. With
 * --fork N the first thread forks every N pages, and the child checks the pages, too. With --child all of
 * this happens in a child, which inherits paged-out memory. With --waiters N, N more threads read paged-out
 * memory. */
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>

#define THREADS_MAX 64

static size_t pages, remap_every, fork_every, milliseconds;
static const uint64_t *looked_at;
static _Atomic bool begun, over;
static _Atomic uint64_t given;
/* Two addresses for the memory of each thread, where the kernel places no other mapping. */
static char *places[THREADS_MAX][2];

static void *give_back(void *argument)
{
    size_t number = (size_t)argument, bytes = pages * PAGE;
    char **place = places[number], *memory = place[0];
    /* Threads begin only when all stacks are mapped: otherwise a stack might be placed at an address from
     * which memory has just been moved. */
    while (!begun)
        sleep_us(1000);
    uint64_t state = number + 1;
    for (uint64_t n = 1; !over; n++) {
        size_t first = mix(state++) % pages, count = 1 + mix(state++) % 16;
        if (count > pages - first)
            count = pages - first;
        int advice = n % 2 ? MADV_DONTNEED : MADV_FREE;
        if (madvise(memory + first * PAGE, count * PAGE, advice) != 0)
            FAIL(97, "madvise: %s", strerror(errno));
        if (remap_every && n % remap_every == 0) {
            memory = mremap(memory, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                            memory == place[0] ? place[1] : place[0]);
            if (memory == MAP_FAILED)
                FAIL(97, "mremap: %s", strerror(errno));
        }
        given++;
    }
    return NULL;
}

static void *look(void *argument)
{
    size_t page = (size_t)argument * 7 % pages;
    for (const uint64_t *at = looked_at + page * WORDS; !over; sleep_us(20000))
        page_check(at, page, 1);
    return NULL;
}

static void start(pthread_t *id, size_t stack, void *(*run)(void *), size_t number)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, stack);
    int error = pthread_create(id, &attr, run, (void *)number);
    if (error != 0)
        FAIL(97, "pthread_create: %s", strerror(error));
}

static void check_in_child(const uint64_t *memory)
{
    pid_t pid = fork();
    if (pid < 0)
        FAIL(97, "fork: %s", strerror(errno));
    if (pid == 0) {
        alarm(240);
        for (size_t page = 0; page < pages; page += 7)
            page_check(memory + page * WORDS, page, 1);
        _exit(0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        FAIL(98, "a child ended with wait status 0x%x", status);
}

/* Continues in a forked child. The parent waits for the child, and ends with its status. */
static void become_child(void)
{
    pid_t pid = fork();
    if (pid == 0)
        return;
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        FAIL(98, "the child ended with wait status 0x%x", status);
    exit(WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
    size_t threads = option(argc, argv, "--threads", 8);
    if (threads > THREADS_MAX)
        FAIL(97, "at most %d threads", THREADS_MAX);
    pages = option(argc, argv, "--mib", 4) * MIB / PAGE;
    milliseconds = option(argc, argv, "--ms", 3000);
    remap_every = option(argc, argv, "--remap", 0);
    fork_every = option(argc, argv, "--fork", 0);
    uint64_t *memory = map_anon(pages * PAGE);
    for (size_t page = 0; page < pages; page++)
        page_fill(memory + page * WORDS, page, 1);
    for (size_t i = 0; i < threads; i++) {
        for (size_t k = 0; k < 2; k++)
            places[i][k] = map_anon(pages * PAGE);
        for (size_t page = 0; page < pages; page++)
            page_fill((uint64_t *)(places[i][0] + page * PAGE), page, i);
    }
    /* Meanwhile all memory is paged out. */
    sleep_us(1500000);
    if (option(argc, argv, "--child", 0))
        become_child();
    /* If the program hangs, SIGALRM kills it, and its exit status shows that. */
    alarm(240);
    looked_at = memory;
    size_t waiters = option(argc, argv, "--waiters", 0), all = waiters + threads;
    pthread_t *ids = calloc(all, sizeof *ids);
    for (size_t i = 0; i < waiters; i++)
        start(&ids[i], 64 << 10, look, i);
    for (size_t i = 0; i < threads; i++)
        start(&ids[waiters + i], 64 << 10, give_back, i);
    begun = true;
    printf("begun\n");
    fflush(stdout);
    uint64_t end = now_ns() + milliseconds * 1000000, longest = 0, checked = 0;
    for (size_t page = 0; now_ns() < end; page = (page + 1) % pages) {
        uint64_t begin = now_ns();
        page_check(memory + page * WORDS, page, 1);
        uint64_t took = now_ns() - begin;
        longest = took > longest ? took : longest;
        checked++;
        if (fork_every && checked % fork_every == 0)
            check_in_child(memory);
        sleep_us(1000);
    }
    over = true;
    for (size_t i = 0; i < all; i++)
        pthread_join(ids[i], NULL);
    for (size_t page = 0; page < pages; page++)
        page_check(memory + page * WORDS, page, 1);
    fprintf(stderr, "given back %lu times, checked %lu pages, waited %lu us at most\n",
            (unsigned long)given, (unsigned long)checked, (unsigned long)longest / 1000);
    printf("OK\n");
    return 0;
}
