/* Regions: private anonymous mappings, and one at the program break. */
#include "hostile.h"

#include <string.h>
#include <unistd.h>

void *map_anon(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        die_syscall(NULL, "mmap");
    return at;
}

void region_create(struct worker *w, struct region *r, uint64_t id, size_t pages)
{
    memset(r, 0, sizeof *r);
    r->id = id;
    r->pages = pages;
    r->pages_max = pages * 2;
    r->base = map_anon(pages * PAGE);
    r->versions = map_anon(r->pages_max * sizeof *r->versions);
    for (size_t page = 0; page < pages; page++)
        page_rewrite(w, r, page);
}

void region_create_brk(struct region *r, uint64_t id, size_t pages_max)
{
    memset(r, 0, sizeof *r);
    r->id = id;
    r->is_brk = true;
    r->pages_max = pages_max;
    uintptr_t brk = (uintptr_t)sbrk(0);
    if (sbrk((intptr_t)(-brk & (PAGE - 1))) == (void *)-1)
        die_syscall(NULL, "sbrk");
    r->base = sbrk(0);
    r->versions = map_anon(pages_max * sizeof *r->versions);
}

/* Records that these pages read as zeros from now on. */
void region_forget(struct region *r, size_t first, size_t count)
{
    for (size_t page = first; page < first + count; page++)
        r->versions[page] = 0;
}

/* Makes a new mapping for a region at another address; all its pages are zeros. The old mapping must be
 * unmapped already. */
void region_remake(struct worker *w, struct region *r)
{
    r->base = map_anon(r->pages * PAGE);
    r->is_huge = r->is_locked = r->patched = false;
    region_forget(r, 0, r->pages);
    size_t first, count;
    if (pick_run(w, r, r->pages, &first, &count))
        for (size_t page = first; page < first + count; page++)
            page_rewrite(w, r, page);
}

void region_verify(struct worker *w, struct region *r)
{
    for (size_t page = 0; page < r->pages; page++)
        page_verify(w, r, page);
}

void worker_verify(struct worker *w)
{
    for (unsigned i = 0; i < REGIONS; i++)
        region_verify(w, &w->regions[i]);
}
