/* The expected content of every word, and the messages about wrong words. */
#include "hostile.h"

#include <string.h>
#include <unistd.h>

uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t page_key(const struct region *r, size_t page, uint32_t version)
{
    return mix(config.seed ^ mix((r->id << 48) ^ ((uint64_t)page << 20) ^ version));
}

/* Returns word i of a page. Version 0 is zeros. The other versions are in turn a repeated word,
 * compressible data, and two kinds of random data, because zram stores each of these in another way. */
static inline uint64_t word_at(uint64_t key, uint32_t version, size_t i)
{
    if (version == 0)
        return 0;
    switch (version & 3) {
    case 0:
        return (key & 0xffffffffu) * 0x100000001u;
    case 1:
        return key ^ (i >> 3);
    default:
        return (key + i) * 0x9e3779b97f4a7c15u;
    }
}

void page_fill(void *dst, const struct region *r, size_t page, uint32_t version)
{
    uint64_t key = page_key(r, page, version), *out = dst;
    for (size_t i = 0; i < WORDS; i++)
        out[i] = word_at(key, version, i);
}

/* Returns the index, from `from` on, of the first word that differs from this version's content; WORDS if
 * none differs. */
static size_t first_wrong(const uint64_t *at, const struct region *r, size_t page, uint32_t version,
                          size_t from)
{
    uint64_t key = page_key(r, page, version);
    for (size_t i = from; i < WORDS; i++)
        if (at[i] != word_at(key, version, i))
            return i;
    return WORDS;
}

/* Prints which page and version of this region has the content that was found, if any has it. */
static void identify(const struct region *r, const uint64_t *at, size_t wrong)
{
    for (size_t page = 0; page < r->pages_max; page++)
        for (uint32_t version = 0; version <= r->next_version; version++)
            if (word_at(page_key(r, page, version), version, wrong) == at[wrong]) {
                size_t until = first_wrong(at, r, page, version, wrong);
                say("  words %zu..%zu are those of page %zu version %u", wrong, until, page, version);
                return;
            }
    say("  the content is that of no page of this region");
}

static _Noreturn void die_wrong(struct worker *w, const struct region *r, size_t page,
                                uint32_t version, const uint64_t *at, size_t wrong)
{
    atomic_fetch_add(&shared->wrong, 1);
    uint64_t expected = word_at(page_key(r, page, version), version, wrong), got = at[wrong];
    struct status *s = &shared->status[w->slot];
    say("WRONG seed %lu slot %u depth %u op %s: region %lu page %zu of %zu version %u%s at %p",
        config.seed, w->slot, fork_depth, ops[s->op].name, r->id, page, r->pages,
        version & ~MAYBE, version & MAYBE ? " (or zeros)" : "", (const void *)at);
    say("  region base %p brk %d huge %d locked %d patched %d; word %zu expected %016lx got %016lx",
        (void *)r->base, r->is_brk, r->is_huge, r->is_locked, r->patched, wrong, expected, got);
    size_t count = 0;
    for (size_t i = 0; i < WORDS; i++)
        count += at[i] != word_at(page_key(r, page, version), version, i);
    say("  %zu of %zu words differ", count, WORDS);
    identify(r, at, wrong);
    sleep_us(20000);
    say("  20 ms later word %zu is %016lx", wrong, ((const volatile uint64_t *)at)[wrong]);
    _exit(EXIT_WRONG);
}

void check_zero(struct worker *w, const struct region *r, size_t page, const void *at)
{
    size_t wrong = first_wrong(at, r, page, 0, 0);
    if (wrong != WORDS)
        die_wrong(w, r, page, 0, at, wrong);
}

/* Checks a page after MADV_FREE: until its next write it may become zeros at any time, but only once. */
static void check_maybe(struct worker *w, const struct region *r, size_t page, const uint64_t *at)
{
    uint32_t version = r->versions[page] & ~MAYBE;
    size_t old_until = first_wrong(at, r, page, version, 0);
    size_t zero_until = old_until < WORDS ? first_wrong(at, r, page, 0, old_until) : WORDS;
    if (zero_until != WORDS)
        die_wrong(w, r, page, r->versions[page], at, zero_until);
}

/* Checks a page, or a copy of it at another address. */
void page_check(struct worker *w, const struct region *r, size_t page, const void *at)
{
    uint32_t version = r->versions[page];
    if (version & MAYBE) {
        check_maybe(w, r, page, at);
        return;
    }
    size_t wrong = first_wrong(at, r, page, version, 0);
    if (wrong != WORDS)
        die_wrong(w, r, page, version, at, wrong);
}

void page_verify(struct worker *w, struct region *r, size_t page)
{
    struct status *s = &shared->status[w->slot];
    atomic_store_explicit(&s->region, (uint32_t)r->id, memory_order_relaxed);
    atomic_store_explicit(&s->page, page, memory_order_relaxed);
    page_check(w, r, page, r->base + page * WORDS);
}

void page_rewrite(struct worker *w, struct region *r, size_t page)
{
    uint64_t *at = r->base + page * WORDS;
    uint32_t version = ++r->next_version;
    if (version & MAYBE)
        version = r->next_version = 1;
    if (r->versions[page] & MAYBE) {
        /* After a write it is certain what MADV_FREE did to the page: all other words are old, or all are
         * zeros. */
        uint32_t old = r->versions[page] & ~MAYBE;
        ((volatile uint64_t *)at)[0] = page_key(r, page, version);
        if (first_wrong(at, r, page, old, 1) != WORDS && first_wrong(at, r, page, 0, 1) != WORDS)
            die_wrong(w, r, page, r->versions[page], at, first_wrong(at, r, page, 0, 1));
    }
    page_fill(at, r, page, version);
    r->versions[page] = version;
}

uint64_t region_checksum(struct worker *w, struct region *r)
{
    uint64_t sum = r->id * 31 + r->pages;
    for (size_t page = 0; page < r->pages; page++) {
        if (r->versions[page] & MAYBE)
            page_rewrite(w, r, page);
        page_verify(w, r, page);
        for (size_t i = 0; i < WORDS; i++)
            sum = (sum ^ r->base[page * WORDS + i]) * 0x100000001b3u;
    }
    return sum;
}
