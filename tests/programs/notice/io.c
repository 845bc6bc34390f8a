/* Scenarios in which system calls read and write paged-out memory: they must find the same content as the
 * program. */
#include "notice.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static int unnamed(int flags)
{
    int fd = open(".", O_TMPFILE | O_RDWR | flags, 0600);
    if (fd < 0)
        FAIL(97, "a file in the working directory: %s", strerror(errno));
    return fd;
}

void scenario_direct(void)
{
    uint64_t *at = filled(PAGES, 1), *to = filled(PAGES, 2);
    int fd = unnamed(O_DIRECT);
    leaves("source", at, PAGES);
    leaves("destination", to, PAGES);
    for (size_t page = 0; page < PAGES; page += 256)
        tell("pwrite", pwrite(fd, at + page * WORDS, 256 * PAGE, (off_t)(page * PAGE)));
    leaves("source again", at, PAGES);
    for (size_t page = 0; page < PAGES; page += 256)
        tell("pread", pread(fd, to + page * WORDS, 256 * PAGE, (off_t)(page * PAGE)));
    verify(to, PAGES, 1);
    leaves("what was read", to, PAGES);
    verify(to, PAGES, 1);
    verify(at, PAGES, 1);
}

/* An io_uring with one request at a time, without liburing. */
static struct {
    int fd;
    unsigned *sq_tail, *sq_array, *cq_head, *cq_tail, mask, cq_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *results;
} ring;

static int ring_open(void)
{
    struct io_uring_params p = {0};
    ring.fd = (int)syscall(SYS_io_uring_setup, 8, &p);
    if (ring.fd < 0)
        return -1;
    char *sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
                    IORING_OFF_SQ_RING);
    char *cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE,
                    MAP_SHARED, ring.fd, IORING_OFF_CQ_RING);
    ring.entries = mmap(NULL, p.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE, MAP_SHARED,
                        ring.fd, IORING_OFF_SQES);
    ring.sq_tail = (unsigned *)(sq + p.sq_off.tail);
    ring.sq_array = (unsigned *)(sq + p.sq_off.array);
    ring.mask = *(unsigned *)(sq + p.sq_off.ring_mask);
    ring.cq_head = (unsigned *)(cq + p.cq_off.head);
    ring.cq_tail = (unsigned *)(cq + p.cq_off.tail);
    ring.cq_mask = *(unsigned *)(cq + p.cq_off.ring_mask);
    ring.results = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
    return 0;
}

static int ring_do(int what, int fd, void *at, unsigned bytes, uint64_t offset)
{
    unsigned tail = *ring.sq_tail, slot = tail & ring.mask;
    ring.entries[slot] = (struct io_uring_sqe){.opcode = (uint8_t)what,
                                               .fd = fd,
                                               .addr = (uint64_t)(uintptr_t)at,
                                               .len = bytes,
                                               .off = offset};
    ring.sq_array[slot] = slot;
    __atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
        FAIL(97, "io_uring_enter: %s", strerror(errno));
    unsigned head = *ring.cq_head;
    if (head == __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE))
        FAIL(97, "io_uring: no result");
    int result = ring.results[head & ring.cq_mask].res;
    __atomic_store_n(ring.cq_head, head + 1, __ATOMIC_RELEASE);
    return result;
}

/* Registered buffers are pinned, so they stay in memory; the pages beside them are paged out. */
void scenario_uring(void)
{
    uint64_t *fixed = filled(PAGES / 4, 1), *loose = filled(PAGES / 4, 2);
    int fd = unnamed(0);
    leaves("before", fixed, PAGES / 4);
    if (ring_open() != 0)
        FAIL(97, "io_uring_setup: %s", strerror(errno));
    struct iovec buffer = {fixed, PAGES / 4 * PAGE};
    tell("registered", syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &buffer, 1));
    stays("fixed", fixed, PAGES / 4);
    leaves("loose", loose, PAGES / 4);
    say("write fixed: %d", ring_do(IORING_OP_WRITE_FIXED, fd, fixed, PAGES / 4 * PAGE, 0));
    say("write loose: %d", ring_do(IORING_OP_WRITE, fd, loose, PAGES / 4 * PAGE, PAGES / 4 * PAGE));
    leaves("loose again", loose, PAGES / 4);
    stays("fixed", fixed, PAGES / 4);
    say("read fixed: %d", ring_do(IORING_OP_READ_FIXED, fd, fixed, PAGES / 4 * PAGE, PAGES / 4 * PAGE));
    say("read loose: %d", ring_do(IORING_OP_READ, fd, loose, PAGES / 4 * PAGE, 0));
    verify(fixed, PAGES / 4, 2);
    verify(loose, PAGES / 4, 1);
    close(ring.fd);
}

void scenario_pipes(void)
{
    uint64_t *at = filled(16, 1), *to = filled(16, 2), *more = filled(PAGES, 3);
    int ends[2];
    channel(ends);
    for (unsigned round = 0; round < 3; round++) {
        leaves("source", at, 16);
        leaves("destination", to, 16);
        struct iovec part = {at, 16 * PAGE};
        tell("vmsplice", vmsplice(ends[1], &part, 1, 0));
        leaves("beside", more, PAGES);
        tell("read", read(ends[0], to, 16 * PAGE));
        verify(to, 16, 1);
        fill(to, 16, 2);
    }
    verify(at, 16, 1);
    verify(more, PAGES, 3);
}

/* Another process reads and writes paged-out memory (process_vm_readv, process_vm_writev). */
void scenario_process_vm(void)
{
    uint64_t *at = filled(PAGES, 1), *copy = map_anon(PAGES * PAGE);
    leaves("before", at, PAGES);
    pid_t pid = child(), parent = getppid();
    if (pid == 0) {
        parent = getppid();
        struct iovec local = {copy, PAGES * PAGE}, remote = {at, PAGES * PAGE};
        tell("process_vm_readv", process_vm_readv(parent, &local, 1, &remote, 1, 0));
        verify(copy, PAGES, 1);
        fill(copy, PAGES, 2);
        leaves_of(parent, "the parent's", at, PAGES / 100);
        tell("process_vm_writev", process_vm_writev(parent, &local, 1, &remote, 1, 0));
        _exit(0);
    }
    reap(pid);
    leaves("after", at, PAGES);
    verify(at, PAGES, 2);
}
