/* Memory of one kind, for reports to be compared with what the kernel says of it.
 *
 *   mem KIND MIB [PERIOD_MS [flush]]
 *
 * KIND:
 *   anon      private anonymous, 4 KiB pages          thp       the same in 2 MiB pages
 *   high      anon above the 47 bits of 4 levels      protnone  anon, then PROT_NONE
 *   file      a shared mapping of ./file, all read    cow       a private one of ./cow, half of it written
 *   memfd     shared memory, and 4 pages never touched
 *   lazymemfd shared memory that was written by write(2), and is not mapped in (nor touched later)
 *   zero      only read: the zero page                hugezero  the same by the huge zero page
 *   hugetlb   pages of the pool                       poison    anon, 4 pages poisoned (MADV_HWPOISON)
 *   guard     anon, every fourth page a guard (MADV_GUARD_INSTALL)
 *   forked    anon and memfd, filled before 4 children that read it, and write a quarter of it
 *   frag      anon, every other page given back: what a compaction has to move
 *   ages      anon, the first half touched every PERIOD_MS, the second never again
 *   quick     anon that the kernel fills with zeros, in one go
 *   ksm       anon, all pages the same (MADV_MERGEABLE)
 *   churn     anon, given back or mapped anew, and filled again, every PERIOD_MS
 *   kept      anon, untouched until SIGUSR1, which has all of its contents checked: it prints `right`
 *   sweep     anon, written from begin to end and again, with its contents checked
 * flush: before each pass of `ages` this processor's TLB is emptied, by a change of other pages' rights.
 * Prints `ready pid=P at=0x...` when all is there, then sleeps or does as above until it is killed.
 * Ends with 77 and says why if this kernel has no such memory; with 99 if memory did not keep its contents. */
#include "../programs/common.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define HUGE_BYTES ((size_t)2 * MIB)
#define CHILDREN 4

static size_t bytes;
static uint64_t period_us;
static int flush;
static uint64_t sum;

static void *map(void *at, size_t length, int flags, int fd)
{
    void *mapped = mmap(at, length, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (mapped == MAP_FAILED)
        FAIL(77, "no mapping: %s", strerror(errno));
    return mapped;
}

/* Private anonymous memory at a multiple of 2 MiB, with a gap behind it. */
static char *anonymous(int advice)
{
    char *room = map(NULL, bytes + 2 * HUGE_BYTES, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    size_t skip = -(uintptr_t)room % HUGE_BYTES;
    munmap(room + skip + bytes, 2 * HUGE_BYTES - skip);
    if (skip)
        munmap(room, skip);
    if (madvise(room + skip, bytes, advice) != 0)
        FAIL(77, "no huge pages: %s", strerror(errno));
    return room + skip;
}

static void fill(char *at, size_t length, uint64_t version)
{
    for (size_t page = 0; page < length / PAGE; page++)
        page_fill((uint64_t *)(at + page * PAGE), page, version);
}

static char *filled(int advice)
{
    char *at = anonymous(advice);
    fill(at, bytes, 1);
    return at;
}

static void read_all(const char *at, size_t length)
{
    for (size_t i = 0; i < length; i += PAGE)
        sum += *(const volatile uint64_t *)(at + i);
}

static void touch_all(char *at, size_t length, uint64_t value)
{
    for (size_t i = 0; i < length; i += PAGE)
        *(volatile uint64_t *)(at + i) = value;
}

static void ksm(char *at)
{
    if (madvise(at, bytes, MADV_MERGEABLE) != 0)
        FAIL(77, "MADV_MERGEABLE: %s", strerror(errno));
    touch_all(at, bytes, 1);
}

static void ready(const char *at)
{
    printf("ready pid=%d at=%p\n", (int)getpid(), (const void *)at);
    fflush(stdout);
}

static void ready_for_ever(const char *at)
{
    ready(at);
    for (;;)
        pause();
}

/* Who poisons a page is told so by a signal that may not be ignored. */
static void survive(int number)
{
    (void)number;
}

static void advised(char *at, size_t step, size_t length, int advice, const char *what)
{
    for (size_t i = 0; i + length <= bytes; i += step)
        if (madvise(at + i, length, advice) != 0)
            FAIL(77, "%s: %s", what, strerror(errno));
}

static void high(void)
{
    char *at = map((char *)((uintptr_t)1 << 52), bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if ((uintptr_t)at >> 47 == 0)
        FAIL(77, "the tables have four levels: nothing is above 47 bits");
    fill(at, bytes, 1);
    ready_for_ever(at);
}

static int with_contents(int fd)
{
    static uint64_t page[WORDS];
    for (size_t number = 0; number < bytes / PAGE; number++) {
        page_fill(page, number, 1);
        if (write(fd, page, PAGE) != (ssize_t)PAGE)
            FAIL(97, "write: %s", strerror(errno));
    }
    return fd;
}

static void file(const char *name, int flags)
{
    char *at = map(NULL, bytes, flags, with_contents(open(name, O_RDWR | O_CREAT | O_TRUNC, 0600)));
    read_all(at, bytes);
    if (flags & MAP_PRIVATE)
        fill(at, bytes / 2, 2);
    ready_for_ever(at);
}

static void memfd(int lazy)
{
    int fd = memfd_create("mem", 0);
    size_t more = lazy ? 0 : 4 * PAGE;
    if (lazy)
        with_contents(fd);
    else if (ftruncate(fd, (off_t)(bytes + more)) != 0)
        FAIL(97, "ftruncate: %s", strerror(errno));
    char *at = map(NULL, bytes + more, MAP_SHARED, fd);
    if (!lazy)
        fill(at, bytes, 1);
    ready_for_ever(at);
}

static void hugetlb(void)
{
    char *at = map(NULL, bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
    fill(at, bytes, 1);
    ready_for_ever(at);
}

static void forked(void)
{
    char *own = filled(MADV_NOHUGEPAGE);
    int fd = memfd_create("mem", 0);
    char *shared = map(NULL, bytes, MAP_SHARED, with_contents(fd));
    int done[2];
    char byte;
    if (pipe(done) != 0)
        FAIL(97, "pipe: %s", strerror(errno));
    for (int child = 0; child < CHILDREN; child++) {
        if (fork() != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        read_all(own, bytes);
        read_all(shared, bytes);
        fill(own, bytes / 4, 3 + (uint64_t)child);
        if (write(done[1], "", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    read_all(shared, bytes);
    for (int child = 0; child < CHILDREN; child++)
        if (read(done[0], &byte, 1) != 1)
            FAIL(97, "a child is gone");
    ready_for_ever(own);
}

/* Taking rights from more pages than the kernel drops one by one makes it drop the whole TLB. */
static void empty_tlb(char *other, size_t length)
{
    mprotect(other, length, PROT_READ);
    mprotect(other, length, PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < length; i += PAGE)
        *(volatile char *)(other + i) = 1;
}

static void ages(void)
{
    char *at = filled(MADV_NOHUGEPAGE);
    size_t length = 64 * PAGE;
    char *other = map_anon(length);
    memset(other, 1, length);
    ready(at);
    for (uint64_t value = 1;; value++) {
        if (flush)
            empty_tlb(other, length);
        touch_all(at, bytes / 2, value);
        sleep_us(period_us);
    }
}

static void churn(void)
{
    char *at = filled(MADV_NOHUGEPAGE);
    ready(at);
    for (uint64_t version = 2;; version++) {
        if (version % 2)
            madvise(at, bytes, MADV_DONTNEED);
        else
            map(at, bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
        fill(at, bytes, version);
        sleep_us(period_us);
    }
}

static void kept(void)
{
    sigset_t asked;
    int number;
    sigemptyset(&asked);
    sigaddset(&asked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &asked, NULL);
    char *at = filled(MADV_NOHUGEPAGE);
    ready(at);
    for (;;) {
        sigwait(&asked, &number);
        for (size_t page = 0; page < bytes / PAGE; page++)
            page_check((uint64_t *)(at + page * PAGE), page, 1);
        printf("right\n");
        fflush(stdout);
    }
}

static void sweep(void)
{
    char *at = anonymous(MADV_NOHUGEPAGE);
    ready(at);
    fill(at, bytes, 0);
    for (uint64_t version = 1;; version++)
        for (size_t page = 0; page < bytes / PAGE; page++) {
            page_check((uint64_t *)(at + page * PAGE), page, version - 1);
            page_fill((uint64_t *)(at + page * PAGE), page, version);
        }
}

static void run(const char *kind)
{
#define IS(name) (strcmp(kind, name) == 0)
    char *at = NULL;
    if (IS("high"))
        high();
    else if (IS("file") || IS("cow"))
        file(kind, IS("file") ? MAP_SHARED : MAP_PRIVATE);
    else if (IS("memfd") || IS("lazymemfd"))
        memfd(IS("lazymemfd"));
    else if (IS("hugetlb"))
        hugetlb();
    else if (IS("forked"))
        forked();
    else if (IS("ages"))
        ages();
    else if (IS("churn"))
        churn();
    else if (IS("kept"))
        kept();
    else if (IS("sweep"))
        sweep();
    else if (IS("zero") || IS("hugezero"))
        read_all(at = anonymous(IS("zero") ? MADV_NOHUGEPAGE : MADV_HUGEPAGE), bytes);
    else if (IS("quick"))
        advised(at = anonymous(MADV_NOHUGEPAGE), bytes, bytes, MADV_POPULATE_WRITE, "MADV_POPULATE_WRITE");
    else if (IS("ksm"))
        ksm(at = anonymous(MADV_NOHUGEPAGE));
    else
        at = filled(IS("thp") ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    if (IS("protnone"))
        mprotect(at, bytes, PROT_NONE);
    else if (IS("guard"))
        advised(at, 4 * PAGE, PAGE, MADV_GUARD_INSTALL, "MADV_GUARD_INSTALL (since Linux 6.13)");
    else if (IS("frag"))
        advised(at, 2 * PAGE, PAGE, MADV_DONTNEED, "MADV_DONTNEED");
    else if (IS("poison") && signal(SIGBUS, survive) != SIG_ERR)
        advised(at, bytes / 4, PAGE, MADV_HWPOISON, "MADV_HWPOISON");
    ready_for_ever(at);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        FAIL(2, "usage: mem KIND MIB [PERIOD_MS [flush]]");
    bytes = strtoull(argv[2], NULL, 10) * MIB;
    period_us = argc > 3 ? strtoull(argv[3], NULL, 10) * 1000 : 0;
    flush = argc > 4;
    run(argv[1]);
    return 0;
}
