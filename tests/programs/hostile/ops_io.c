/* System calls that read and write pages that may be paged out: here the kernel takes the page faults, not
 * the program.
 *
 * An operation opens its descriptors itself, and holds the lock in shared mode meanwhile. close_range holds
 * the lock exclusively, so that no descriptor number is closed and used again during an operation. */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_rwlock_t io_lock = PTHREAD_RWLOCK_INITIALIZER;

/* The child of a fork has one thread, so no thread holds the lock, although its memory may say so. The lock
 * is made anew. */
void io_reset_after_fork(void)
{
    pthread_rwlock_init(&io_lock, NULL);
}

static void move_bytes(struct worker *w, int fd, char *at, size_t len, off_t offset, bool out)
{
    while (len > 0) {
        ssize_t n;
        if (offset < 0)
            n = out ? write(fd, at, len) : read(fd, at, len);
        else
            n = out ? pwrite(fd, at, len, offset) : pread(fd, at, len, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            die_syscall(w, out ? "write from managed pages" : "read into managed pages");
        at += n;
        len -= (size_t)n;
        offset += offset < 0 ? 0 : n;
    }
}

/* Writes a run of pages to the descriptor `out`, reads them from `in` into scratch memory, and checks them
 * there. Then transfers new versions from scratch memory to the pages. */
static void through(struct worker *w, struct region *r, size_t first, size_t count, int in, int out,
                    off_t offset)
{
    char *pages = (char *)(r->base + first * WORDS), *scratch = (char *)w->scratch;
    move_bytes(w, in, pages, count * PAGE, offset, true);
    move_bytes(w, out, scratch, count * PAGE, offset, false);
    for (size_t i = 0; i < count; i++)
        page_check(w, r, first + i, scratch + i * PAGE);
    for (size_t i = 0; i < count; i++) {
        r->versions[first + i] = ++r->next_version;
        page_fill(scratch + i * PAGE, r, first + i, r->next_version);
    }
    move_bytes(w, in, scratch, count * PAGE, offset, true);
    move_bytes(w, out, pages, count * PAGE, offset, false);
    for (size_t i = 0; i < count; i++)
        page_verify(w, r, first + i);
}

void op_pipe(struct worker *w)
{
    struct region *r = pick_region(w);
    size_t first, count;
    int fds[2];
    /* At most 8 pages: a pipe has space for 16, or for only 2 if all pipes of the user take too much
     * memory. */
    if (!pick_run(w, r, 8, &first, &count))
        return;
    pthread_rwlock_rdlock(&io_lock);
    if (pipe2(fds, O_CLOEXEC) != 0)
        die_syscall(w, "pipe");
    size_t capacity = (size_t)fcntl(fds[1], F_GETPIPE_SZ) / PAGE;
    through(w, r, first, count < capacity ? count : capacity, fds[1], fds[0], -1);
    close(fds[0]);
    close(fds[1]);
    pthread_rwlock_unlock(&io_lock);
}

static void file_op(struct worker *w, int flags)
{
    struct region *r = pick_region(w);
    size_t first, count;
    char path[512];
    if (!pick_run(w, r, SCRATCH_PAGES, &first, &count))
        return;
    snprintf(path, sizeof path, "%s/hostile-%d-%u", config.dir, (int)getpid(), w->slot);
    pthread_rwlock_rdlock(&io_lock);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0600);
    int error = errno;
    unlink(path);
    if (fd < 0 && (flags & O_DIRECT) && error == EINVAL) {
        atomic_fetch_add(&shared->odirect_refused, 1);
    } else if (fd < 0) {
        errno = error;
        die_syscall(w, path);
    } else {
        through(w, r, first, count, fd, fd, (off_t)(rnd(w, 4) * PAGE));
        close(fd);
    }
    pthread_rwlock_unlock(&io_lock);
}

void op_file(struct worker *w)
{
    file_op(w, 0);
}

/* Direct I/O: the device writes into pinned pages, which must not be paged out meanwhile. */
void op_direct(struct worker *w)
{
    file_op(w, O_DIRECT);
}

void op_close_all(struct worker *w)
{
    pthread_rwlock_wrlock(&io_lock);
    if (syscall(SYS_close_range, 3u, ~0u, 0u) != 0 && errno != ENOSYS)
        die_syscall(w, "close_range");
    pthread_rwlock_unlock(&io_lock);
    op_verify(w);
}
