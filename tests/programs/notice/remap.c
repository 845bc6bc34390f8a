/* Scenarios in which mappings are moved, grown and replaced while their memory is paged out. */
#include "notice.h"

#include <sys/shm.h>

static uint64_t *moved(uint64_t *at, size_t from, size_t to)
{
    at = mremap(at, from * PAGE, to * PAGE, MREMAP_MAYMOVE);
    if (at == MAP_FAILED)
        FAIL(97, "mremap: %s", strerror(errno));
    return at;
}

/* Grows, shrinks and moves mappings as realloc(3) does, also to fixed addresses, while their pages are in
 * memory and paged out in turn. */
void scenario_mremap_storm(void)
{
    uint64_t *at = filled(PAGES, 1), *places = map_anon(8 * PAGES * PAGE);
    for (uint64_t round = 0; round < 400; round++) {
        if (round % 100 == 0)
            leaves("round", at, PAGES);
        at = moved(at, PAGES, PAGES + 64);
        verify_zero(at + PAGES * WORDS, 64);
        at = moved(at, PAGES + 64, PAGES);
        uint64_t *to = places + round % 4 * 2 * PAGES * WORDS;
        at = mremap(at, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
        if (at != to)
            FAIL(97, "mremap to a place: %s", strerror(errno));
        page_check(at + round % PAGES * WORDS, round % PAGES, 1);
        if (round % 50 == 49)
            verify(at, PAGES, 1);
    }
}

void scenario_dontunmap(void)
{
    uint64_t *at = filled(PAGES, 1);
    leaves("before", at, PAGES);
    uint64_t *to = mremap(at, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    tell("MREMAP_DONTUNMAP", to == MAP_FAILED ? -1 : 0);
    verify_zero(at, PAGES);
    verify(to, PAGES, 1);
    fill(at, PAGES, 2);
    leaves("the old place", at, PAGES);
    leaves("the new place", to, PAGES);
    verify(at, PAGES, 2);
    verify(to, PAGES, 1);
}

void scenario_shm_remap(void)
{
    uint64_t *at = filled(PAGES, 1);
    int id = shmget(IPC_PRIVATE, PAGES / 2 * PAGE, IPC_CREAT | 0600);
    if (id < 0)
        FAIL(97, "shmget: %s", strerror(errno));
    uint64_t *first = shmat(id, NULL, 0);
    fill(first, PAGES / 2, 5);
    /* The segment is marked for removal now, and is removed when the last process detaches it. */
    tell("IPC_RMID", shmctl(id, IPC_RMID, NULL));
    leaves("anonymous", at, PAGES);
    leaves_shared("segment", first, PAGES / 2);
    tell("without SHM_REMAP", shmat(id, at, 0) == (void *)-1 ? -1 : 0);
    tell("SHM_REMAP", shmat(id, at, SHM_REMAP) == (void *)-1 ? -1 : 0);
    verify(at, PAGES / 2, 5);
    for (size_t page = PAGES / 2; page < PAGES; page++)
        page_check(at + page * WORDS, page, 1);
    fill(at, PAGES / 2, 6);
    verify(first, PAGES / 2, 6);
    /* Most of this memory stays, because MADV_PAGEOUT skips pages that are mapped twice. */
    sleep_us(400000);
    verify(at, PAGES / 2, 6);
    tell("shmdt", shmdt(first));
    verify(at, PAGES / 2, 6);
}

/* A stack (MAP_GROWSDOWN) grows when memory below it is touched, also while all its pages are paged out. */
void scenario_growsdown(void)
{
    size_t room = 4 * PAGES;
    char *reserved = mmap(NULL, room * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *top = reserved + room * PAGE;
    munmap(reserved, room * PAGE);
    uint64_t *at = mmap(top - 16 * PAGE, 16 * PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    if (at == MAP_FAILED)
        FAIL(97, "MAP_GROWSDOWN: %s", strerror(errno));
    size_t pages = 16;
    for (unsigned round = 0; round < 4; round++) {
        for (; pages < (round + 1) * 256; pages++) {
            uint64_t *page = (uint64_t *)(top - (pages + 1) * PAGE);
            page_fill(page, pages, 1);
        }
        leaves("grown", top - pages * PAGE, pages - 16);
    }
    for (size_t page = 16; page < pages; page++)
        page_check((uint64_t *)(top - (page + 1) * PAGE), page, 1);
}

void scenario_brk_heap(void)
{
    char *old = sbrk(0);
    sbrk((intptr_t)(PAGES * PAGE + PAGE));
    uint64_t *at = (uint64_t *)(((uintptr_t)old + PAGE - 1) & ~(PAGE - 1));
    fill(at, PAGES, 1);
    leaves("heap", at, PAGES);
    tell("smaller", sbrk(-(intptr_t)(PAGES / 2 * PAGE)) == (void *)-1 ? -1 : 0);
    tell("larger", sbrk((intptr_t)(PAGES / 2 * PAGE)) == (void *)-1 ? -1 : 0);
    /* The last page of the heap keeps its content. */
    verify(at, PAGES / 2, 1);
    verify_zero(at + (PAGES / 2 + 1) * WORDS, PAGES / 2 - 1);
}
