/* The table of operations, and those operations that only read and write memory. */
#include "hostile.h"

#include <string.h>
#include <unistd.h>

const struct op ops[] = {
    {"verify", 300, op_verify},     {"rewrite", 200, op_rewrite},
    {"straddle", 40, op_straddle},  {"copy", 30, op_copy},
    {"idle", 10, op_idle},          {"stack", 10, op_stack},
    {"grow", 12, op_grow},          {"shrink", 12, op_shrink},
    {"move", 20, op_move},          {"move_part", 12, op_move_part},
    {"dontunmap", 8, op_dontunmap}, {"remap", 6, op_remap},
    {"remap_part", 10, op_remap_part}, {"brk", 10, op_brk},
    {"protect", 20, op_protect},    {"segv", 6, op_segv},
    {"mlock", 8, op_mlock},         {"dontneed", 20, op_dontneed},
    {"free", 16, op_free},          {"collapse", 3, op_collapse},
    {"huge", 5, op_huge},           {"populate", 8, op_populate},
    {"fork", 5, op_fork},           {"exec", 2, op_exec},
    {"vfork", 4, op_vfork},         {"spawn", 3, op_spawn},
    {"pipe", 30, op_pipe},          {"file", 20, op_file},
    {"direct", 8, op_direct},       {"close_all", 2, op_close_all},
    {"futex", 10, op_futex},        {"thread", 12, op_thread},
    {"signal", 20, op_signal},
};
const unsigned ops_count = sizeof ops / sizeof ops[0];

static unsigned pick_op(struct worker *w)
{
    unsigned total = 0;
    for (unsigned i = 0; i < ops_count; i++)
        if (config.ops_mask >> i & 1)
            total += ops[i].weight;
    uint64_t at = rnd(w, total);
    for (unsigned i = 0; i < ops_count; i++) {
        if (!(config.ops_mask >> i & 1))
            continue;
        if (at < ops[i].weight)
            return i;
        at -= ops[i].weight;
    }
    return 0;
}

void ops_run(struct worker *w)
{
    unsigned op = pick_op(w);
    struct status *s = &shared->status[w->slot];
    uint32_t before = atomic_exchange(&s->op, op);
    ops[op].run(w);
    /* An operation may run others (fork does). Afterwards the outer operation is the present one again. */
    atomic_store(&s->op, before);
    atomic_fetch_add(&s->ops, 1);
    atomic_fetch_add(&shared->ops, 1);
}

void ops_run_some(struct worker *w, unsigned count)
{
    while (count-- > 0)
        ops_run(w);
}

struct region *pick_region(struct worker *w)
{
    return &w->regions[rnd(w, REGIONS)];
}

bool pick_run(struct worker *w, const struct region *r, size_t max, size_t *first, size_t *count)
{
    uint64_t where = rnd(w, r->pages), how_long = 1 + rnd(w, max);
    if (r->pages == 0)
        return false;
    *first = where;
    *count = how_long < r->pages - where ? how_long : r->pages - where;
    return true;
}

/* Checks pages forward, backward and in random order: readahead from swap must be right in each case. */
void op_verify(struct worker *w)
{
    struct region *r = pick_region(w);
    size_t first, count;
    uint64_t how = rnd(w, 3);
    if (!pick_run(w, r, 64, &first, &count))
        return;
    for (size_t i = 0; i < count; i++) {
        size_t page = how == 0 ? first + i : how == 1 ? first + count - 1 - i : rnd(w, r->pages);
        page_verify(w, r, page);
    }
}

void op_rewrite(struct worker *w)
{
    struct region *r = pick_region(w);
    size_t first, count;
    if (!pick_run(w, r, 32, &first, &count))
        return;
    bool check_first = chance(w, 50);
    for (size_t page = first; page < first + count; page++) {
        if (check_first)
            page_verify(w, r, page);
        page_rewrite(w, r, page);
    }
    page_verify(w, r, first + rnd(w, count));
}

/* Reads one unaligned word across a page boundary: one instruction can cause two page faults. */
void op_straddle(struct worker *w)
{
    struct region *r = pick_region(w);
    size_t page = rnd(w, r->pages ? r->pages - 1 : 0);
    size_t back = 1 + rnd(w, 7);
    if (r->pages < 2 || (r->versions[page] | r->versions[page + 1]) & MAYBE)
        return;
    unsigned char expected[2 * PAGE];
    page_fill(expected, r, page, r->versions[page]);
    page_fill(expected + PAGE, r, page + 1, r->versions[page + 1]);
    uint64_t got, want;
    memcpy(&got, (unsigned char *)(r->base + page * WORDS) + PAGE - back, sizeof got);
    memcpy(&want, expected + PAGE - back, sizeof want);
    if (got != want) {
        say("straddle: %zu bytes before page %zu: got %016lx, expected %016lx", back, page + 1, got, want);
        page_verify(w, r, page);
        page_verify(w, r, page + 1);
        say("straddle: both pages are right when read again");
        _exit(EXIT_WRONG);
    }
}

void op_copy(struct worker *w)
{
    struct region *r = pick_region(w);
    size_t first, count;
    if (!pick_run(w, r, SCRATCH_PAGES, &first, &count))
        return;
    memcpy(w->scratch, r->base + first * WORDS, count * PAGE);
    for (size_t i = 0; i < count; i++)
        page_check(w, r, first + i, w->scratch + i * PAGE);
}

void op_idle(struct worker *w)
{
    sleep_us(500 + rnd(w, 10000));
}

static uint64_t deep(struct worker *w, unsigned depth)
{
    volatile uint64_t frame[WORDS];
    for (size_t i = 0; i < WORDS; i++)
        frame[i] = mix(i + depth);
    uint64_t below = depth > 0 ? deep(w, depth - 1) : 0;
    for (size_t i = 0; i < WORDS; i++)
        if (frame[i] != mix(i + depth)) {
            say("stack: word %zu of frame %u at %p is %016lx", i, depth, (void *)&frame[i], frame[i]);
            _exit(EXIT_WRONG);
        }
    return below + frame[WORDS - 1];
}

void op_stack(struct worker *w)
{
    deep(w, (unsigned)rnd(w, 24));
}
