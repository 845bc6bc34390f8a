/* Scenarios with each advice of madvise(2) that changes the state of memory, applied to paged-out memory. */
#include "notice.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif

#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif

#define HUGE ((size_t)512)

void scenario_wipeonfork(void)
{
    uint64_t *at = filled(PAGES, 1);
    tell("MADV_WIPEONFORK", madvise(at, PAGES * PAGE, MADV_WIPEONFORK));
    leaves("parent", at, PAGES);
    pid_t pid = child();
    if (pid == 0) {
        verify_zero(at, PAGES);
        fill(at, PAGES / 4, 2);
        leaves("child", at, PAGES / 4);
        verify(at, PAGES / 4, 2);
        verify_zero(at + PAGES / 4 * WORDS, PAGES - PAGES / 4);
        _exit(0);
    }
    reap(pid);
    verify(at, PAGES, 1);
    tell("MADV_KEEPONFORK", madvise(at, PAGES * PAGE, MADV_KEEPONFORK));
    leaves("again", at, PAGES);
    if ((pid = child()) == 0) {
        verify(at, PAGES, 1);
        _exit(0);
    }
    reap(pid);
}

void scenario_dontfork(void)
{
    uint64_t *at = filled(PAGES, 1);
    tell("MADV_DONTFORK", madvise(at, PAGES / 2 * PAGE, MADV_DONTFORK));
    leaves("parent", at, PAGES);
    pid_t pid = child();
    if (pid == 0) {
        say("child: signal %d", faults(at));
        for (size_t page = PAGES / 2; page < PAGES; page++)
            page_check(at + page * WORDS, page, 1);
        _exit(0);
    }
    reap(pid);
    verify(at, PAGES, 1);
    tell("MADV_DOFORK", madvise(at, PAGES / 2 * PAGE, MADV_DOFORK));
    leaves("again", at, PAGES);
    if ((pid = child()) == 0) {
        verify(at, PAGES, 1);
        _exit(0);
    }
    reap(pid);
}

void scenario_lazyfree(void)
{
    uint64_t *at = filled(PAGES, 1);
    leaves("before", at, PAGES);
    tell("MADV_FREE of what is out", madvise(at, PAGES / 2 * PAGE, MADV_FREE));
    verify_or_zero(at, PAGES / 2, 1);
    fill(at, PAGES / 2, 1);
    tell("MADV_FREE of what is in", madvise(at, PAGES / 2 * PAGE, MADV_FREE));
    /* Pages that are written after the advice must keep their content. */
    fill(at, PAGES / 4, 1);
    sleep_us(500000);
    leaves("the rest", at, PAGES / 4);
    verify(at, PAGES / 4, 1);
    verify_or_zero(at, PAGES / 2, 1);
    for (size_t page = PAGES / 2; page < PAGES; page++)
        page_check(at + page * WORDS, page, 1);
}

/* A child marks memory that it has inherited as free (MADV_FREE), and ends. At the next MADV_PAGEOUT Linux
 * 6.18 drops the parent's pages, too: after a read from zram neither the page table entry nor the folio is
 * dirty, so the kernel takes the content for unused. */
void scenario_freed_by_child(void)
{
    uint64_t *at = filled(PAGES, 1);
    leaves("before", at, PAGES);
    verify(at, PAGES, 1);
    pid_t pid = child();
    if (pid == 0) {
        tell("child: MADV_FREE", madvise(at, PAGES / 2 * PAGE, MADV_FREE));
        /* If pagetide checks a page before the child marks it, and pages it out after the child has ended,
         * the page is lost (docs/known-gaps.md). This was seen once, for the last page. */
        sleep_us(100000);
        _exit(0);
    }
    reap(pid);
    leaves("what it did not give back", at + PAGES / 2 * WORDS, PAGES / 2);
    sleep_us(500000);
    verify(at, PAGES, 1);
}

void scenario_guard(void)
{
    uint64_t *at = filled(PAGES, 1);
    leaves("before", at, PAGES);
    tell("MADV_GUARD_INSTALL", madvise(at + PAGES / 4 * WORDS, PAGES / 4 * PAGE, MADV_GUARD_INSTALL));
    say("guarded: signal %d", faults(at + PAGES / 4 * WORDS));
    verify(at, PAGES / 4, 1);
    leaves("around", at, PAGES / 4);
    say("last guarded: signal %d", faults(at + (PAGES / 2 - 1) * WORDS));
    tell("MADV_GUARD_REMOVE", madvise(at, PAGES * PAGE, MADV_GUARD_REMOVE));
    verify(at, PAGES / 4, 1);
    for (size_t page = PAGES / 2; page < PAGES; page++)
        page_check(at + page * WORDS, page, 1);
    /* A kernel without guard pages has removed nothing. */
    say("unguarded: signal %d", faults(at + PAGES / 4 * WORDS));
}

void scenario_collapse(void)
{
    uint64_t *map = map_anon(5 * HUGE * PAGE);
    uint64_t *at = map + (HUGE - (uintptr_t)map / PAGE % HUGE) % HUGE * WORDS;
    fill(at, 4 * HUGE, 1);
    leaves("before", at, 4 * HUGE);
    verify(at, HUGE, 1);
    /* Whether the kernel can make huge pages may depend on free memory; the content must not. */
    (void)!madvise(at, 4 * HUGE * PAGE, MADV_COLLAPSE);
    verify(at, 4 * HUGE, 1);
    tell("MADV_HUGEPAGE", madvise(at, 4 * HUGE * PAGE, MADV_HUGEPAGE));
    /* The call may fail while a page is just being paged out, so it is repeated. */
    for (unsigned i = 0; i < 100 && madvise(at, 4 * HUGE * PAGE, MADV_COLLAPSE) != 0; i++)
        sleep_us(20000);
    is_huge("collapsed", at, 4 * HUGE);
    leaves("huge", at, 4 * HUGE);
    tell("MADV_DONTNEED", madvise(at + HUGE / 2 * WORDS, HUGE / 2 * PAGE, MADV_DONTNEED));
    verify(at, HUGE / 2, 1);
    verify_zero(at + HUGE / 2 * WORDS, HUGE / 2);
    for (size_t page = HUGE; page < 4 * HUGE; page++)
        page_check(at + page * WORDS, page, 1);
}

/* Punches a hole (MADV_REMOVE) into shared memory that is paged out. */
void scenario_removed(void)
{
    uint64_t *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        FAIL(97, "mmap: %s", strerror(errno));
    fill(at, PAGES, 1);
    leaves_shared("before", at, PAGES);
    tell("MADV_REMOVE", madvise(at, PAGES / 2 * PAGE, MADV_REMOVE));
    verify_zero(at, PAGES / 2);
    leaves_shared("the rest", at + PAGES / 2 * WORDS, PAGES / 2);
    for (size_t page = PAGES / 2; page < PAGES; page++)
        page_check(at + page * WORDS, page, 1);
}

/* Each kind of advice that changes no byte, applied to paged-out memory. */
void scenario_hints(void)
{
    static const struct {
        const char *name;
        int advice;
    } all[] = {
        {"MADV_SEQUENTIAL", MADV_SEQUENTIAL}, {"MADV_RANDOM", MADV_RANDOM}, {"MADV_NORMAL", MADV_NORMAL},
        {"MADV_WILLNEED", MADV_WILLNEED}, {"MADV_MERGEABLE", MADV_MERGEABLE}, {"MADV_UNMERGEABLE", MADV_UNMERGEABLE},
        {"MADV_DONTDUMP", MADV_DONTDUMP}, {"MADV_DODUMP", MADV_DODUMP}, {"MADV_NOHUGEPAGE", MADV_NOHUGEPAGE},
        {"MADV_COLD", MADV_COLD},
    };
    uint64_t *at = filled(PAGES, 1);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        leaves("before", at, PAGES);
        tell(all[i].name, madvise(at, PAGES * PAGE, all[i].advice));
        verify(at, PAGES, 1);
    }
    leaves("after all", at, PAGES);
    verify(at, PAGES, 1);
}

/* A program calls process_madvise(2) for itself, as pagetide does from outside. */
void scenario_own_advice(void)
{
    static const struct {
        const char *name;
        int advice;
    } all[] = {{"MADV_COLD", MADV_COLD}, {"MADV_PAGEOUT", MADV_PAGEOUT}, {"MADV_WILLNEED", MADV_WILLNEED},
               {"MADV_DONTNEED", MADV_DONTNEED}};
    uint64_t *at = filled(PAGES, 1);
    struct iovec range = {at, PAGES * PAGE};
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (self < 0)
        FAIL(97, "pidfd_open: %s", strerror(errno));
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        leaves("before", at, PAGES);
        long done = syscall(SYS_process_madvise, self, &range, 1, all[i].advice, 0);
        tell(all[i].name, done);
        if (all[i].advice == MADV_DONTNEED && done >= 0)
            fill(at, PAGES, 1);
        verify(at, PAGES, 1);
    }
    close(self);
}

/* A simulated memory error: MADV_SOFT_OFFLINE moves a page to another frame, and the kernel never uses the
 * old frame again. So this is done only if NOTICE_OFFLINE is set, on machines that can lose a frame.
 * Without CONFIG_MEMORY_FAILURE the call returns EINVAL. */
void scenario_offline(void)
{
    uint64_t *at = filled(PAGES, 1);
    leaves("before", at, PAGES);
    if (!has_memory_failure() || getenv("NOTICE_OFFLINE")) {
        tell("MADV_SOFT_OFFLINE", madvise(at, PAGE, MADV_SOFT_OFFLINE));
        verify(at, PAGES, 1);
        leaves("after", at, PAGES);
        tell("MADV_HWPOISON", madvise(at + WORDS, PAGE, MADV_HWPOISON));
        say("poisoned: signal %d", faults(at + WORDS));
        leaves("around", at + 2 * WORDS, PAGES - 2);
    }
    page_check(at, 0, 1);
    for (size_t page = 2; page < PAGES; page++)
        page_check(at + page * WORDS, page, 1);
}

void scenario_pageout(void)
{
    uint64_t *at = filled(PAGES, 1);
    for (unsigned round = 0; round < 20; round++) {
        madvise(at, PAGES * PAGE, round % 2 ? MADV_COLD : MADV_PAGEOUT);
        sleep_us(17000);
        madvise(at + round * WORDS, PAGES / 2 * PAGE, MADV_WILLNEED);
        verify(at, PAGES, 1);
    }
    leaves("in the end", at, PAGES);
    verify(at, PAGES, 1);
}

/* Memory that the kernel may drop at any time (MAP_DROPPABLE): it has its content or zeros, and is never
 * swapped out. */
void scenario_droppable(void)
{
    uint64_t *beside = filled(PAGES, 2);
    uint64_t *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0);
    say("MAP_DROPPABLE: %s", at == MAP_FAILED ? strerrorname_np(errno) : "mapped");
    if (at != MAP_FAILED) {
        fill(at, PAGES, 1);
        stays("droppable", at, PAGES);
        verify_or_zero(at, PAGES, 1);
        tell("mlock", mlock(at, PAGES * PAGE));
    }
    leaves("beside", beside, PAGES);
    verify(beside, PAGES, 2);
}

void scenario_dontneed(void)
{
    uint64_t *at = filled(PAGES, 1);
    leaves("before", at, PAGES);
    tell("MADV_DONTNEED", madvise(at + WORDS, (PAGES - 2) * PAGE, MADV_DONTNEED));
    verify(at, 1, 1);
    verify_zero(at + WORDS, PAGES - 2);
    page_check(at + (PAGES - 1) * WORDS, PAGES - 1, 1);
    fill(at, PAGES, 3);
    leaves("after", at, PAGES);
    verify(at, PAGES, 3);
    tell("munmap", munmap(at + PAGES / 2 * WORDS, PAGES / 2 * PAGE));
    verify(at, PAGES / 2, 3);
    leaves("to be locked", at, PAGES / 2);
    /* Paged-out memory that is locked with MLOCK_ONFAULT stays out until it is touched. */
    tell("MLOCK_ONFAULT", mlock2(at, PAGES / 4 * PAGE, MLOCK_ONFAULT));
    tell("MADV_DONTNEED of what is locked", madvise(at, PAGES / 4 * PAGE, MADV_DONTNEED));
    tell("MADV_DONTNEED_LOCKED", madvise(at, PAGES / 4 * PAGE, MADV_DONTNEED_LOCKED));
    verify_zero(at, PAGES / 4);
    fill(at, PAGES / 4, 4);
    leaves("beside what is locked", at + PAGES / 4 * WORDS, PAGES / 4);
    verify(at, PAGES / 4, 4);
}

void scenario_protect(void)
{
    uint64_t *at = filled(PAGES, 1);
    leaves("before", at, PAGES);
    tell("PROT_NONE", mprotect(at, PAGES / 2 * PAGE, PROT_NONE));
    say("unreadable: signal %d", faults(at));
    tell("PROT_READ", mprotect(at, PAGES / 2 * PAGE, PROT_READ));
    verify(at, PAGES, 1);
    leaves("read only", at, PAGES);
    tell("read into it", read(open("/dev/zero", 0), at, PAGE));
    tell("all rights", mprotect(at, PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
    verify(at, PAGES, 1);
    uint64_t *none = filled(PAGES, 4);
    tell("PROT_NONE at once", mprotect(none, PAGES * PAGE, PROT_NONE));
    leaves("unreadable", none, PAGES);
    tell("back", mprotect(none, PAGES * PAGE, PROT_READ));
    verify(none, PAGES, 4);
}

void scenario_populate(void)
{
    uint64_t *at = filled(PAGES, 1);
    leaves("before", at, PAGES);
    tell("MADV_POPULATE_READ", madvise(at, PAGES / 2 * PAGE, MADV_POPULATE_READ));
    tell("MADV_POPULATE_WRITE", madvise(at + PAGES / 2 * WORDS, PAGES / 2 * PAGE, MADV_POPULATE_WRITE));
    verify(at, PAGES, 1);
    leaves("again", at, PAGES);
    verify(at, PAGES, 1);
}
