/* Operations on mappings: they grow, shrink, move, and are removed and made again. */
#include "hostile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static struct region *pick_mapped(struct worker *w)
{
    struct region *r = pick_region(w);
    while (r->is_brk)
        r = pick_region(w);
    return r;
}

/* Chooses a region that can be moved to a fixed address. Since Linux 6.17 mremap to a fixed address moves
 * several VMAs one after the other. If a userfaultfd watches one of them, mremap stops there with EFAULT,
 * and the VMAs before it stay moved. Two mappings that were made separately may not be merged if the memory
 * is managed. So a region of which a part was mapped anew (`patched`) is not moved to a fixed address:
 * afterwards it would not be known where its pages are. */
static struct region *pick_movable(struct worker *w)
{
    struct region *r = pick_mapped(w);
    return r->patched ? NULL : r;
}

/* Prints the kernel's mappings of a region, with the flags of each VMA ("um": a userfaultfd handles missing
 * pages). */
static void print_mappings(const struct region *r)
{
    uintptr_t start = (uintptr_t)r->base, end = start + r->pages * PAGE;
    int error = errno;
    bool inside = false;
    char line[256];
    FILE *f = fopen("/proc/self/smaps", "r");
    say("region %lu: %lx-%lx patched %d locked %d", r->id, start, end, r->patched, r->is_locked);
    while (f && fgets(line, sizeof line, f)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            inside = from <= end && to >= start;
        else if (strncmp(line, "VmFlags", 7) != 0 && strncmp(line, "Anonymous", 9) != 0)
            continue;
        if (inside)
            say("  %.*s", (int)strcspn(line, "\n"), line);
    }
    if (f)
        fclose(f);
    errno = error;
}

/* Whether mremap was refused as it may be: a region of several VMAs cannot be moved in one call, and the
 * kernel returns EFAULT, also in an unmanaged program. Every other failure is an error. */
static bool refused(struct worker *w, const struct region *r, const void *got, const char *what)
{
    if (got != MAP_FAILED)
        return false;
    if (errno == ENOMEM || errno == EAGAIN || (r->patched && (errno == EFAULT || errno == EINVAL))) {
        atomic_fetch_add(&shared->mremap_refused, 1);
        return true;
    }
    print_mappings(r);
    die_syscall(w, what);
}

void op_grow(struct worker *w)
{
    struct region *r = pick_mapped(w);
    size_t more = 1 + rnd(w, r->pages_max / 4);
    if (r->pages + more > r->pages_max)
        return;
    void *to = mremap(r->base, r->pages * PAGE, (r->pages + more) * PAGE, MREMAP_MAYMOVE);
    if (refused(w, r, to, "mremap to grow"))
        return;
    r->base = to;
    region_forget(r, r->pages, more);
    r->pages += more;
    page_verify(w, r, r->pages - 1 - rnd(w, more));
    page_verify(w, r, rnd(w, r->pages));
    for (size_t i = 0; i < more; i += 1 + rnd(w, 4))
        page_rewrite(w, r, r->pages - 1 - i);
}

void op_shrink(struct worker *w)
{
    struct region *r = pick_mapped(w);
    size_t least = r->pages_max / 8 + 1, less = 1 + rnd(w, r->pages_max / 4);
    if (r->pages < least + less)
        return;
    void *to = mremap(r->base, r->pages * PAGE, (r->pages - less) * PAGE, 0);
    if (refused(w, r, to, "mremap to shrink"))
        return;
    r->pages -= less;
    page_verify(w, r, r->pages - 1);
}

/* Moves a region to a chosen address. Sometimes this address is not aligned as the old one, so that the
 * kernel must split huge pages. */
void op_move(struct worker *w)
{
    struct region *r = pick_movable(w);
    if (!r)
        return;
    size_t shift = chance(w, 50) ? 0 : rnd(w, 512);
    char *room = mmap(NULL, (r->pages + shift) * PAGE, PROT_NONE, ANON, -1, 0);
    if (room == MAP_FAILED)
        die_syscall(w, "mmap of room to move to");
    void *to = mremap(r->base, r->pages * PAGE, r->pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                      room + shift * PAGE);
    if (refused(w, r, to, "mremap to move")) {
        munmap(room, (r->pages + shift) * PAGE);
        return;
    }
    if (shift)
        munmap(room, shift * PAGE);
    r->base = to;
    for (int i = 0; i < 4; i++)
        page_verify(w, r, rnd(w, r->pages));
}

/* Moves a part out of the middle of a region and back. Meanwhile its old addresses stay mapped and read as
 * zeros. */
void op_move_part(struct worker *w)
{
    struct region *r = pick_movable(w);
    if (!r)
        return;
    size_t first, count;
    pick_run(w, r, 64, &first, &count);
    char *at = (char *)r->base + first * PAGE;
    char *room = mmap(NULL, count * PAGE, PROT_NONE, ANON, -1, 0);
    if (room == MAP_FAILED)
        die_syscall(w, "mmap of room for a part");
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    char *to = mremap(at, count * PAGE, count * PAGE, flags, room);
    if (refused(w, r, to, "mremap of a part away")) {
        munmap(room, count * PAGE);
        return;
    }
    size_t probe = rnd(w, count);
    page_check(w, r, first + probe, to + probe * PAGE);
    check_zero(w, r, first + probe, at + probe * PAGE);
    if (chance(w, 30))
        sleep_us(rnd(w, 3000));
    flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    if (mremap(to, count * PAGE, count * PAGE, flags, at) == MAP_FAILED)
        die_syscall(w, "mremap of a part back");
    /* The kernel may not merge the VMA of this part with its neighbours again. */
    r->patched = true;
    for (size_t page = first; page < first + count; page++)
        page_verify(w, r, page);
}

void op_dontunmap(struct worker *w)
{
    struct region *r = pick_mapped(w);
    int flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
    uint64_t *old = r->base;
    void *to = mremap(old, r->pages * PAGE, r->pages * PAGE, flags, NULL);
    if (refused(w, r, to, "mremap with DONTUNMAP"))
        return;
    r->base = to;
    for (int i = 0; i < 8; i++) {
        size_t page = rnd(w, r->pages);
        check_zero(w, r, page, old + page * WORDS);
        page_verify(w, r, page);
    }
    if (chance(w, 50)) {
        size_t page = rnd(w, r->pages);
        old[page * WORDS] = 1;
        page_verify(w, r, page);
    }
    if (munmap(old, r->pages * PAGE) != 0)
        die_syscall(w, "munmap of what DONTUNMAP left");
}

/* Unmaps a whole region, and makes a new mapping at the same address. */
void op_remap(struct worker *w)
{
    struct region *r = pick_mapped(w);
    int flags = ANON | MAP_FIXED_NOREPLACE;
    if (munmap(r->base, r->pages * PAGE) != 0)
        die_syscall(w, "munmap");
    void *again = mmap(r->base, r->pages * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (again != r->base) {
        /* Another thread has mapped memory at this address meanwhile. */
        region_remake(w, r);
        return;
    }
    r->is_huge = r->is_locked = r->patched = false;
    region_forget(r, 0, r->pages);
    for (int i = 0; i < 8; i++)
        page_verify(w, r, rnd(w, r->pages));
    for (size_t page = rnd(w, 8); page < r->pages; page += 1 + rnd(w, 4))
        page_rewrite(w, r, page);
}

/* Replaces a part of a region in one call; or unmaps it and maps it again, while other threads may map
 * memory in the gap. */
void op_remap_part(struct worker *w)
{
    struct region *r = pick_mapped(w);
    size_t first, count;
    pick_run(w, r, 64, &first, &count);
    char *at = (char *)r->base + first * PAGE;
    bool in_one = chance(w, 50);
    if (!in_one && munmap(at, count * PAGE) != 0)
        die_syscall(w, "munmap of a part");
    int flags = ANON | (in_one ? MAP_FIXED : MAP_FIXED_NOREPLACE);
    if (mmap(at, count * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) != at) {
        munmap(r->base, first * PAGE);
        munmap(at + count * PAGE, (r->pages - first - count) * PAGE);
        region_remake(w, r);
        return;
    }
    r->patched = true;
    if (r->is_locked) {
        munlock(r->base, r->pages * PAGE);
        r->is_locked = false;
    }
    region_forget(r, first, count);
    for (size_t page = first; page < first + count; page++) {
        page_verify(w, r, page);
        if (chance(w, 70))
            page_rewrite(w, r, page);
    }
}

void op_brk(struct worker *w)
{
    struct region *r = &w->regions[0];
    size_t by = 1 + rnd(w, r->pages_max / 4);
    bool up = chance(w, 60);
    if (!r->is_brk || sbrk(0) != (char *)r->base + r->pages * PAGE)
        return; /* not ours, or malloc was here */
    if (up && r->pages + by <= r->pages_max) {
        if (sbrk((intptr_t)(by * PAGE)) == (void *)-1)
            die_syscall(w, "sbrk up");
        region_forget(r, r->pages, by);
        r->pages += by;
        for (size_t page = r->pages - by; page < r->pages; page++) {
            page_verify(w, r, page);
            page_rewrite(w, r, page);
        }
    } else if (!up && by <= r->pages) {
        if (sbrk(-(intptr_t)(by * PAGE)) == (void *)-1)
            die_syscall(w, "sbrk down");
        r->pages -= by;
    }
    if (r->pages)
        page_verify(w, r, rnd(w, r->pages));
}
