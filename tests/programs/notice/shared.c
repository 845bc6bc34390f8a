/* Scenarios with memory that other processes see, too: files, shared memory, memory shared with children. */
#include "notice.h"

#include <fcntl.h>

static uint64_t *map_fd(int fd, size_t pages, int flags)
{
    void *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (at == MAP_FAILED)
        FAIL(97, "mmap of a file: %s", strerror(errno));
    return at;
}

static int unnamed(void)
{
    int fd = open(".", O_TMPFILE | O_RDWR, 0600);
    if (fd < 0)
        FAIL(97, "a file in the working directory: %s", strerror(errno));
    return fd;
}

void scenario_memfd(void)
{
    int fd = memfd_create("notice", 0);
    tell("ftruncate", ftruncate(fd, PAGES * PAGE));
    uint64_t *at = map_fd(fd, PAGES, MAP_SHARED), page[WORDS];
    fill(at, PAGES, 1);
    leaves_shared("memfd", at, PAGES);
    for (size_t i = 0; i < PAGES; i += 3) {
        if (pread(fd, page, PAGE, (off_t)(i * PAGE)) != (ssize_t)PAGE)
            FAIL(97, "pread: %s", strerror(errno));
        page_check(page, i, 1);
    }
    verify(at, PAGES, 1);
    uint64_t *own = map_fd(fd, PAGES, MAP_PRIVATE);
    fill(own, PAGES, 2);
    /* Some pages may stay in memory (docs/known-gaps.md), so only half of them must be paged out. */
    leaves_share("private over it", own, PAGES, 50);
    verify(at, PAGES, 1);
    tell("F_ADD_SEALS", fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
    tell("punched", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGES / 2 * PAGE));
    verify_zero(at, PAGES / 2);
    verify(own, PAGES, 2);
}

void scenario_shared_anon(void)
{
    uint64_t *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fill(at, PAGES, 1);
    for (uint64_t round = 1; round < 4; round++) {
        leaves_shared("shared", at, PAGES);
        pid_t pid = child();
        if (pid == 0) {
            verify(at, PAGES, round);
            fill(at, PAGES, round + 1);
            _exit(0);
        }
        reap(pid);
        verify(at, PAGES, round + 1);
    }
}

void scenario_private_file(void)
{
    int fd = unnamed();
    uint64_t page[WORDS];
    for (size_t i = 0; i < PAGES; i++) {
        page_fill(page, i, 1);
        if (write(fd, page, PAGE) != (ssize_t)PAGE)
            FAIL(97, "write: %s", strerror(errno));
    }
    uint64_t *at = map_fd(fd, PAGES, MAP_PRIVATE);
    verify(at, PAGES, 1);
    fill(at, PAGES / 2, 2);
    leaves("written", at, PAGES / 2);
    verify(at, PAGES / 2, 2);
    for (size_t i = PAGES / 2; i < PAGES; i++)
        page_check(at + i * WORDS, i, 1);
    tell("MADV_DONTNEED", madvise(at, PAGES * PAGE, MADV_DONTNEED));
    verify(at, PAGES, 1);
}

/* Dirty pages of a file: read(2) must return what was written through the mapping. */
void scenario_shared_file(void)
{
    int fd = unnamed();
    tell("ftruncate", ftruncate(fd, PAGES * PAGE));
    uint64_t *at = map_fd(fd, PAGES, MAP_SHARED), *beside = filled(PAGES, 9), page[WORDS];
    for (uint64_t round = 1; round < 4; round++) {
        fill(at, PAGES, round);
        leaves("beside", beside, PAGES);
        for (size_t i = 0; i < PAGES; i++) {
            if (pread(fd, page, PAGE, (off_t)(i * PAGE)) != (ssize_t)PAGE)
                FAIL(97, "pread: %s", strerror(errno));
            page_check(page, i, round);
        }
        tell("msync", msync(at, PAGES * PAGE, MS_SYNC));
    }
    verify(beside, PAGES, 9);
    tell("truncated", ftruncate(fd, PAGES / 2 * PAGE));
    say("behind the end: signal %d", faults(at + PAGES / 2 * WORDS));
    verify(at, PAGES / 2, 3);
}
