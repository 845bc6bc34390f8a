/* A program watches its own writes by userfaultfd (write protection). Each write must be reported, and no
 * write may be reported that was not made. */
#include "notice.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

static int uffd;
static uint64_t *memory;
static unsigned reported[PAGES];

static void *handler(void *argument)
{
    (void)argument;
    for (;;) {
        struct uffd_msg message;
        if (read(uffd, &message, sizeof message) != sizeof message)
            FAIL(97, "the own userfaultfd: %s", strerror(errno));
        uint64_t at = message.arg.pagefault.address & ~(PAGE - 1);
        reported[(at - (uint64_t)(uintptr_t)memory) / PAGE]++;
        struct uffdio_writeprotect open = {.range = {at, PAGE}};
        if (ioctl(uffd, UFFDIO_WRITEPROTECT, &open) != 0)
            FAIL(97, "UFFDIO_WRITEPROTECT: %s", strerror(errno));
    }
    return NULL;
}

void scenario_wp_uffd(void)
{
    pthread_t thread;
    memory = filled(PAGES, 1);
    uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};
    struct uffdio_register range = {.range = {(uint64_t)(uintptr_t)memory, PAGES * PAGE},
                                    .mode = UFFDIO_REGISTER_MODE_WP};
    struct uffdio_writeprotect protect = {.range = range.range, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
    if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) != 0 || ioctl(uffd, UFFDIO_REGISTER, &range) != 0
        || ioctl(uffd, UFFDIO_WRITEPROTECT, &protect) != 0)
        FAIL(97, "userfaultfd with write protection: %s", strerror(errno));
    pthread_create(&thread, NULL, handler, NULL);
    leaves("protected", memory, PAGES);
    verify(memory, PAGES, 1);
    leaves("protected, read", memory, PAGES);
    for (size_t page = 0; page < PAGES; page += 2)
        page_fill(memory + page * WORDS, page, 2);
    leaves("half of it open", memory, PAGES);
    unsigned wrong = 0;
    for (size_t page = 0; page < PAGES; page++) {
        page_check(memory + page * WORDS, page, page % 2 ? 1 : 2);
        wrong += reported[page] != (page % 2 ? 0 : 1);
    }
    say("wrongly reported: %u", wrong);
}
