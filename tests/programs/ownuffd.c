/* A program that uses userfaultfd on a part of its memory, and has an ordinary heap beside it. pagetide
 * must not touch the first part, and may manage the heap.
 *
 *   ownuffd [--mib 96] [--own-mib 16] [--rounds 6]     prints a checksum; 96: no userfaultfd here */
#include "common.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

static int uffd;
static uint64_t *own, served;
static size_t own_pages;

/* Handles the faults of the userfaultfd: it fills a page that was dropped earlier with version 2 of its
 * content. */
static void *handler(void *argument)
{
    uint64_t *buffer = map_anon(PAGE);
    (void)argument;
    for (;;) {
        struct uffd_msg message;
        ssize_t n = read(uffd, &message, sizeof message);
        if (n < 0 && errno == EINTR)
            continue;
        if (n != sizeof message || message.event != UFFD_EVENT_PAGEFAULT)
            FAIL(97, "read of the own userfaultfd: %zd, event %d", n, message.event);
        uint64_t at = message.arg.pagefault.address & ~(PAGE - 1);
        size_t page = (at - (uint64_t)(uintptr_t)own) / PAGE;
        if (page >= own_pages)
            FAIL(99, "a fault at %lx, which is not the own range", (unsigned long)at);
        page_fill(buffer, page, 2);
        struct uffdio_copy copy = {.dst = at, .src = (uint64_t)(uintptr_t)buffer, .len = PAGE};
        if (ioctl(uffd, UFFDIO_COPY, &copy) != 0 && errno != EEXIST)
            FAIL(97, "UFFDIO_COPY: %s", strerror(errno));
        served++;
    }
    return NULL;
}

static void own_create(void)
{
    uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API};
    if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) != 0)
        FAIL(96, "userfaultfd: %s", strerror(errno));
    own = map_anon(own_pages * PAGE);
    struct uffdio_register range = {.range = {(uint64_t)(uintptr_t)own, own_pages * PAGE},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (ioctl(uffd, UFFDIO_REGISTER, &range) != 0)
        FAIL(97, "the own registration: %s", strerror(errno));
}

int main(int argc, char **argv)
{
    size_t pages = option(argc, argv, "--mib", 96) * MIB / PAGE;
    uint64_t rounds = option(argc, argv, "--rounds", 6), sum = 0;
    own_pages = option(argc, argv, "--own-mib", 16) * MIB / PAGE;
    alarm(300);
    uint64_t *heap = map_anon(pages * PAGE);
    for (size_t page = 0; page < pages; page++)
        page_fill(heap + page * WORDS, page, 1);
    own_create();
    pthread_t thread;
    pthread_create(&thread, NULL, handler, NULL);
    for (uint64_t round = 0; round < rounds; round++) {
        for (size_t page = 0; page < own_pages; page++)
            page_check(own + page * WORDS, page, 2);
        for (size_t page = 0; page < pages; page++)
            page_check(heap + page * WORDS, page, 1);
        sum += heap[round * WORDS] ^ own[round * WORDS];
        if (madvise(own, own_pages * PAGE, MADV_DONTNEED) != 0)
            FAIL(97, "madvise: %s", strerror(errno));
        sleep_us(200000);
    }
    /* There must be one fault for each page and round. There would be fewer if another process had answered
     * some of the faults. */
    printf("OK served=%lu checksum=%016lx\n", (unsigned long)served, (unsigned long)sum);
    return 0;
}
