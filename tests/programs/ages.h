/* The data that `ages` passes to a test: the class of each page, and when each class was last touched.
 *
 * The table is a file of little-endian 64-bit words. The test reads it while the program writes it:
 *   header   magic, kinds, classes, slots, pid, t0, 0, 0
 *   records  kinds x classes, each: kind, class, pages, fill_begin, fill_end, begun, ended, late, then
 *            `slots` times the begin and the end of a pass
 * Pass n (from 0) is in slot n % slots. For each pass the program writes the begin, sets `begun` to n + 1,
 * touches the pages, writes the end, and sets `ended` to n + 1. So the passes from `begun` - slots to
 * `ended` - 1 are complete, and at most one pass is in progress: pass n = ended, if ended < begun. Times
 * are CLOCK_MONOTONIC in ns. `late` counts passes that began over 100 ms late. */
#ifndef AGES_H
#define AGES_H

#include "schedule.h"

#define MAGIC 0x3130534547415450u /* PTAGES01 */
#define SLOTS 8
#define HUGE ((size_t)512)        /* pages of a 2 MiB unit */

enum kind { ANON, THP, FILE_SHARED, COW, MEMFD, FORKED, ZERO, LOOP, KINDS };
enum class { EVERY_1, EVERY_4, EVERY_16, NEVER, ALWAYS, CLASSES };

struct record {
    uint64_t kind, class, pages, fill_begin, fill_end, begun, ended, late;
    uint64_t pass[SLOTS][2];
};

struct table {
    uint64_t magic, kinds, classes, slots, pid, t0, unused[2];
    struct record of[KINDS][CLASSES];
};

static inline void put(uint64_t *at, uint64_t value)
{
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
}

static inline uint64_t hash_of(enum kind kind, size_t page)
{
    return mix(((uint64_t)kind << 48) + (kind == THP ? page / HUGE : page));
}

static inline enum class class_of(enum kind kind, size_t page)
{
    return kind == LOOP ? ALWAYS : (enum class)(hash_of(kind, page) & 3);
}

/* How a page is touched: 0 by reading, 1 by writing, 2 by both. */
static inline unsigned way_of(enum kind kind, size_t page)
{
    if (kind == FORKED || kind == ZERO)
        return 0;
    return (unsigned)((hash_of(kind, page) >> 8) % 3);
}

#endif
