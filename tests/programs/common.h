/* Functions that the small test programs share: numbers from the command line, hashes, the time, and the
 * end after an error. */
#ifndef COMMON_H
#define COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define WORDS (PAGE / sizeof(uint64_t))
#define MIB ((size_t)1 << 20)

/* Returns the number after the option --name; `otherwise` without this option. */
static inline uint64_t option(int argc, char **argv, const char *name, uint64_t otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return strtoull(argv[i + 1], NULL, 0);
    return otherwise;
}

static inline uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void sleep_us(uint64_t us)
{
    struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

#define FAIL(status, ...)                                                                          \
    do {                                                                                           \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        _exit(status);                                                                             \
    } while (0)

static inline void *map_anon(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        FAIL(97, "mmap of %zu bytes: %s", bytes, strerror(errno));
    return at;
}

/* Fills a page with words that follow from its number and a version. Every fourth page is one repeated
 * word. */
static inline void page_fill(uint64_t *at, uint64_t page, uint64_t version)
{
    uint64_t key = mix(page * 1000003 + version);
    for (size_t i = 0; i < WORDS; i++)
        at[i] = page % 4 == 0 ? key : page % 4 == 1 ? key + i / 16 : mix(key + i);
}

static inline void page_check(const uint64_t *at, uint64_t page, uint64_t version)
{
    uint64_t key = mix(page * 1000003 + version);
    for (size_t i = 0; i < WORDS; i++) {
        uint64_t want = page % 4 == 0 ? key : page % 4 == 1 ? key + i / 16 : mix(key + i);
        if (at[i] != want)
            FAIL(99, "pid %d page %lu version %lu word %zu at %p: got %016lx, expected %016lx",
                 (int)getpid(), (unsigned long)page, (unsigned long)version, i,
                 (const void *)(at + i), (unsigned long)at[i], (unsigned long)want);
    }
}

#endif
