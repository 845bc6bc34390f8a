/* Pages with known content, and checks of them. */
#include "notice.h"

#include <setjmp.h>
#include <signal.h>

void fill(uint64_t *at, size_t pages, uint64_t version)
{
    for (size_t page = 0; page < pages; page++)
        page_fill(at + page * WORDS, page, version);
}

void verify(const uint64_t *at, size_t pages, uint64_t version)
{
    for (size_t page = 0; page < pages; page++)
        page_check(at + page * WORDS, page, version);
}

void verify_zero(const uint64_t *at, size_t pages)
{
    for (size_t i = 0; i < pages * WORDS; i++)
        if (at[i] != 0)
            FAIL(99, "page %zu word %zu: got %016lx, expected zeros", i / WORDS, i % WORDS,
                 (unsigned long)at[i]);
}

void verify_or_zero(const uint64_t *at, size_t pages, uint64_t version)
{
    uint64_t copy[WORDS];
    for (size_t page = 0; page < pages; page++) {
        memcpy(copy, at + page * WORDS, PAGE);
        size_t old = WORDS;
        while (old > 0 && copy[old - 1] == 0)
            old--;
        /* The kernel may drop a page while it is being copied: then the copy has zeros from some word on. */
        uint64_t want[WORDS];
        page_fill(want, page, version);
        if (memcmp(copy, want, old * sizeof *copy) != 0)
            FAIL(99, "page %zu is neither what it was nor zeros", page);
    }
}

uint64_t *filled(size_t pages, uint64_t version)
{
    uint64_t *at = map_anon(pages * PAGE);
    fill(at, pages, version);
    return at;
}

static sigjmp_buf back;

static void on_fault(int signal)
{
    siglongjmp(back, signal);
}

int faults(const void *at)
{
    struct sigaction action = {.sa_handler = on_fault}, segv, bus;
    sigaction(SIGSEGV, &action, &segv);
    sigaction(SIGBUS, &action, &bus);
    int signal = sigsetjmp(back, 1);
    if (signal == 0)
        (void)*(const volatile char *)at;
    sigaction(SIGSEGV, &segv, NULL);
    sigaction(SIGBUS, &bus, NULL);
    return signal;
}
