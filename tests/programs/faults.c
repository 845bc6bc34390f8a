/* Measures how long the first touch of a page takes if the page must be brought into memory.
 *
 *   faults [--mib 96] [--count 4000] [--gap-us 0] [--spin 0] [--rounds 5] bare|stored
 *
 * `bare`: the program has a userfaultfd, whose faults one thread answers by copying a prepared page; with
 * --spin 1 this thread never sleeps. `stored`: pages of mixed content, which the caller pages out before it
 * sends SIGUSR1; the program checks each page. Pages are touched in a fixed random order, --gap-us apart,
 * --count pages in each of --rounds rounds. Prints a JSON object for each round: faults, p50_ns, p99_ns. A
 * touch of less than 700 ns was no fault (the page was brought together with a neighbour), and is counted
 * separately. */
#include "common.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define NO_FAULT_NS 700

static uint64_t *memory;
static size_t pages;
static int uffd = -1;
static int spin;
static char source[4096] __attribute__((aligned(4096)));

/* A quarter of a page is random, and the remainder repeats; lz4 compresses it to about half. */
static uint64_t word_of(size_t page, size_t word)
{
    return word % 8 < 3 ? mix(page * WORDS + word) : page;
}

static void *answer(void *unused)
{
    (void)unused;
    for (;;) {
        struct uffd_msg msg;
        struct pollfd wait = {.fd = uffd, .events = POLLIN};
        if (!spin)
            poll(&wait, 1, -1);
        if (read(uffd, &msg, sizeof msg) != sizeof msg)
            continue;
        struct uffdio_copy copy = {.dst = msg.arg.pagefault.address & ~(PAGE - 1),
                                   .src = (uintptr_t)source,
                                   .len = PAGE};
        if (ioctl(uffd, UFFDIO_COPY, &copy) != 0 && errno != EEXIST)
            FAIL(1, "faults: UFFDIO_COPY: %s", strerror(errno));
    }
    return NULL;
}

static void serve_ourselves(void)
{
    uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.range = {(uintptr_t)memory, pages * PAGE},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) != 0 ||
        ioctl(uffd, UFFDIO_REGISTER, &range) != 0)
        FAIL(1, "faults: no userfaultfd: %s", strerror(errno));
    memset(source, 7, sizeof source);
    pthread_t thread;
    if (pthread_create(&thread, NULL, answer, NULL) != 0)
        FAIL(1, "faults: no thread");
}

static void wait_until_out(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (size_t page = 0; page < pages; page++)
        for (size_t word = 0; word < WORDS; word++)
            memory[page * WORDS + word] = word_of(page, word);
    printf("filled\n");
    fflush(stdout);
    int number;
    sigwait(&set, &number);
}

static int less(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Touches the pages order[from..from + count]. Stores the times of the touches that were faults, and
 * returns their number. */
static size_t touch(const uint32_t *order, size_t count, uint64_t gap, int check, uint32_t *times)
{
    size_t faults = 0;
    for (size_t i = 0; i < count; i++) {
        size_t page = order[i];
        if (gap)
            sleep_us(gap);
        uint64_t before = now_ns();
        uint64_t value = *(volatile uint64_t *)(memory + page * WORDS);
        uint64_t took = now_ns() - before;
        if (took >= NO_FAULT_NS)
            times[faults++] = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
        if (check && (value != word_of(page, 0) ||
                      memory[page * WORDS + WORDS - 1] != word_of(page, WORDS - 1)))
            FAIL(99, "faults: page %zu has wrong bytes", page);
    }
    return faults;
}

int main(int argc, char **argv)
{
    const char *mode = argv[argc - 1];
    int stored = strcmp(mode, "stored") == 0;
    if (!stored && strcmp(mode, "bare") != 0)
        FAIL(2, "faults: the last argument is bare or stored, not %s", mode);
    pages = option(argc, argv, "--mib", 96) * MIB / PAGE;
    size_t rounds = option(argc, argv, "--rounds", 5), count = option(argc, argv, "--count", 4000);
    uint64_t gap = option(argc, argv, "--gap-us", 0);
    spin = (int)option(argc, argv, "--spin", 0);
    if (rounds * count > pages)
        FAIL(2, "faults: %zu rounds of %zu do not fit in %zu pages", rounds, count, pages);
    memory = map_anon(pages * PAGE);
    madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
    uint32_t *order = map_anon(pages * sizeof *order), *times = map_anon(count * sizeof *times);
    for (size_t i = 0; i < pages; i++) {
        size_t j = mix(i) % (i + 1);
        order[i] = order[j];
        order[j] = (uint32_t)i;
    }
    memset(times, 1, count * sizeof *times);
    stored ? wait_until_out() : serve_ourselves();
    /* Other memory of the program that was paged out, too, is read back before the measurement. */
    touch(order, 0, 0, stored, times);
    for (size_t i = 0; i < pages; i++)
        ((volatile uint32_t *)order)[i];
    memset(times, 1, count * sizeof *times);
    for (size_t round = 0; round < rounds; round++) {
        size_t n = touch(order + round * count, count, gap, stored, times);
        qsort(times, n, sizeof *times, less);
        printf("{\"touches\":%zu,\"faults\":%zu,\"p50_ns\":%u,\"p99_ns\":%u}\n", count, n,
               n ? times[n / 2] : 0, n ? times[n * 99 / 100] : 0);
        fflush(stdout);
    }
    return 0;
}
