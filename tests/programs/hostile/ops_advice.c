/* Operations with advice, protection and locks: some may drop pages, the others must not. */
#include "hostile.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Chooses a run of pages of a region that is not locked, because the kernel refuses advice that drops
 * locked pages. */
static struct region *pick_unlocked(struct worker *w, size_t max, size_t *first, size_t *count)
{
    struct region *r = pick_region(w);
    if (r->is_locked || !pick_run(w, r, max, first, count))
        return NULL;
    return r;
}

void op_dontneed(struct worker *w)
{
    size_t first, count;
    struct region *r = pick_unlocked(w, 128, &first, &count);
    if (!r)
        return;
    if (madvise(r->base + first * WORDS, count * PAGE, MADV_DONTNEED) != 0)
        die_syscall(w, "MADV_DONTNEED");
    region_forget(r, first, count);
    for (size_t page = first; page < first + count; page++) {
        if (chance(w, 60))
            page_verify(w, r, page);
        if (chance(w, 60))
            page_rewrite(w, r, page);
    }
    page_verify(w, r, first);
}

void op_free(struct worker *w)
{
    size_t first, count;
    struct region *r = pick_unlocked(w, 64, &first, &count);
    if (!r)
        return;
    if (madvise(r->base + first * WORDS, count * PAGE, MADV_FREE) != 0)
        die_syscall(w, "MADV_FREE");
    for (size_t page = first; page < first + count; page++)
        if (r->versions[page])
            r->versions[page] |= MAYBE;
    for (size_t page = first; page < first + count; page++) {
        page_verify(w, r, page);
        if (chance(w, 50)) {
            page_rewrite(w, r, page);
            page_verify(w, r, page);
        }
    }
}

/* Requests huge pages (MADV_COLLAPSE). The kernel may refuse for many reasons; the content must not change. */
void op_collapse(struct worker *w)
{
    struct region *r = pick_region(w);
    if (r->pages == 0)
        return;
    (void)!madvise(r->base, r->pages * PAGE, MADV_COLLAPSE);
    for (int i = 0; i < 16; i++)
        page_verify(w, r, rnd(w, r->pages));
}

void op_huge(struct worker *w)
{
    struct region *r = pick_region(w);
    if (r->pages == 0)
        return;
    int advice = r->is_huge ? MADV_NOHUGEPAGE : MADV_HUGEPAGE;
    if (madvise(r->base, r->pages * PAGE, advice) != 0 && errno != EINVAL)
        die_syscall(w, "MADV_(NO)HUGEPAGE");
    r->is_huge = !r->is_huge;
}

void op_populate(struct worker *w)
{
    struct region *r = pick_region(w);
    size_t first, count;
    int advice = chance(w, 50) ? MADV_POPULATE_READ : MADV_POPULATE_WRITE;
    if (!pick_run(w, r, 128, &first, &count))
        return;
    /* Kernels before 5.14 return EINVAL. */
    if (madvise(r->base + first * WORDS, count * PAGE, advice) != 0 && errno != EINVAL)
        die_syscall(w, "MADV_POPULATE");
    page_verify(w, r, first);
    page_verify(w, r, first + count - 1);
}

/* Makes pages read-only or unreadable for a while; system calls must respect the protection, too. */
void op_protect(struct worker *w)
{
    struct region *r = pick_region(w);
    size_t first, count;
    if (!pick_run(w, r, 64, &first, &count))
        return;
    void *at = r->base + first * WORDS;
    bool readable = chance(w, 50);
    if (mprotect(at, count * PAGE, readable ? PROT_READ : PROT_NONE) != 0)
        die_syscall(w, "mprotect away");
    if (readable)
        for (size_t page = first; page < first + count; page++)
            page_verify(w, r, page);
    if (chance(w, 30))
        sleep_us(rnd(w, 5000));
    if (mprotect(at, count * PAGE, PROT_READ | PROT_WRITE) != 0)
        die_syscall(w, "mprotect back");
    for (size_t page = first; page < first + count; page++)
        page_verify(w, r, page);
}

static _Thread_local sigjmp_buf segv_back;
static _Thread_local void *volatile segv_expected;

/* The signal handler runs on the alternate stack, which is in memory that can be paged out. */
static void on_segv(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (segv_expected && info->si_addr == segv_expected)
        siglongjmp(segv_back, 1);
    say("signal %d at %p that nobody expected", signal, info->si_addr);
    _exit(EXIT_WRONG);
}

static bool read_faults(volatile uint64_t *at)
{
    segv_expected = (void *)(uintptr_t)at;
    bool faulted = sigsetjmp(segv_back, 1) != 0;
    if (!faulted)
        (void)*at;
    segv_expected = NULL;
    return faulted;
}

/* Garbage collectors and sandboxes depend on this: an access to an unreadable page must raise SIGSEGV,
 * whether the page is paged out or not. */
void op_segv(struct worker *w)
{
    struct region *r = pick_region(w);
    size_t first, count;
    struct sigaction action = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (!pick_run(w, r, 4, &first, &count))
        return;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    void *at = r->base + first * WORDS;
    if (mprotect(at, count * PAGE, PROT_NONE) != 0)
        die_syscall(w, "mprotect none");
    if (chance(w, 40))
        sleep_us(rnd(w, 5000));
    bool faulted = read_faults(r->base + first * WORDS);
    if (mprotect(at, count * PAGE, PROT_READ | PROT_WRITE) != 0)
        die_syscall(w, "mprotect back after a signal");
    if (!faulted) {
        say("region %lu page %zu: PROT_NONE memory was readable", r->id, first);
        _exit(EXIT_WRONG);
    }
    page_verify(w, r, first);
}

void op_mlock(struct worker *w)
{
    struct region *r = pick_region(w);
    if (r->pages == 0)
        return;
    if (r->is_locked) {
        if (munlock(r->base, r->pages * PAGE) != 0)
            die_syscall(w, "munlock");
        r->is_locked = false;
    } else if (mlock(r->base, r->pages * PAGE) == 0) {
        r->is_locked = true;
    } else if (errno != ENOMEM && errno != EPERM && errno != EAGAIN) {
        die_syscall(w, "mlock");
    }
    for (int i = 0; i < 8; i++)
        page_verify(w, r, rnd(w, r->pages));
}
