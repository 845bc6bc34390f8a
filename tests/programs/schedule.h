/* Functions that the programs with a schedule share: numbers from the command line, which are checked
 * strictly; waiting until an instant; fast random numbers; and rates by windows of 100 ms. */
#ifndef SCHEDULE_H
#define SCHEDULE_H

#include "common.h"

#include <ctype.h>

#define SECOND ((uint64_t)1000000000)

/* Parses a whole number from `least` to `most`; for any other text prints `usage` and ends the program. */
static inline uint64_t number(const char *text, uint64_t least, uint64_t most, const char *usage)
{
    char *end = NULL;
    errno = 0;
    uint64_t value = text ? strtoull(text, &end, 0) : 0;
    if (!text || !isdigit((unsigned char)*text) || *end || errno || value < least || value > most)
        FAIL(2, "%s\nnot a number from %lu to %lu: %s", usage, (unsigned long)least,
             (unsigned long)most, text ? text : "(missing)");
    return value;
}

/* Sleeps until an instant of CLOCK_MONOTONIC; returns at once if it has passed. */
static inline void sleep_until(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / SECOND), (long)(ns % SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static inline uint64_t xorshift(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Returns a number evenly distributed below `limit` (of 32 bits), by a multiplication instead of a
 * division. */
static inline uint64_t below(uint64_t random, uint64_t limit)
{
    return ((random >> 32) * limit) >> 32;
}

/* Rates are computed for windows of 100 ms. Their median is the typical rate, even if some windows were
 * disturbed. */
#define WINDOW (SECOND / 10)
struct rates {
    uint64_t begin, done;   /* the open window: since when, and how much had been done by then */
    size_t count, room;
    double *at;
};

static inline void rates_begin(struct rates *rates, uint64_t now, uint64_t seconds)
{
    rates->room = seconds * 20 + 64;
    rates->at = map_anon(rates->room * sizeof *rates->at);
    memset(rates->at, 0, rates->room * sizeof *rates->at);
    rates->begin = now;
}

static inline void rates_note(struct rates *rates, uint64_t now, uint64_t done)
{
    if (now < rates->begin + WINDOW || rates->count == rates->room)
        return;
    double seconds = (double)(now - rates->begin) / 1e9;
    rates->at[rates->count++] = (double)(done - rates->done) / seconds;
    rates->begin = now;
    rates->done = done;
}

static inline int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the rate that `percent` percent of the windows do not exceed. Sorts the windows. */
static inline double rates_percentile(struct rates *rates, size_t percent)
{
    if (rates->count == 0)
        return 0;
    qsort(rates->at, rates->count, sizeof *rates->at, by_size);
    return rates->at[(rates->count - 1) * percent / 100];
}

#endif
