/* The hostile workload: its threads do to their memory everything that a program may do, and know at any
 * time what every word of it must be.
 *
 * Invariant: word i of page p of a region is word_at(region id, p, version of p, i). It never depends on
 * the address, so a page can be checked wherever mremap, fork or swap has placed it. Only one worker
 * touches a region; a forked child owns copies of that worker's regions.
 *
 * Exit status: 0 no error; 99 a wrong byte; 98 a wait was too long; 97 a system call failed that does not
 * fail in an unmanaged program; 2 wrong usage. */
#ifndef HOSTILE_H
#define HOSTILE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>

#define PAGE ((size_t)4096)
#define WORDS (PAGE / sizeof(uint64_t))
#define REGIONS 4
#define MAX_WORKERS 64
#define SCRATCH_PAGES ((size_t)64)
#define ALTSTACK_SIZE ((size_t)64 * 1024)
/* Seconds that any single wait may take before it counts as a hang. */
#define WAIT_LIMIT 60

#define EXIT_USAGE 2
#define EXIT_SYSCALL 97
#define EXIT_HANG 98
#define EXIT_WRONG 99

/* A page of version 0 reads as zeros. MAYBE: MADV_FREE was called for the page, so it has zeros or the old
 * version. */
#define MAYBE 0x80000000u

struct region {
    uint64_t id;
    uint64_t *base;
    size_t pages;      /* mapped now */
    size_t pages_max;  /* entries of versions */
    uint32_t *versions;
    uint32_t next_version;
    bool is_brk;   /* lives at the program break */
    bool is_huge;  /* MADV_HUGEPAGE in force */
    bool is_locked;
    bool patched;  /* a part was mapped anew: may be several VMAs to the kernel */
};

struct worker {
    unsigned slot;
    uint64_t rng;
    uint64_t ops_left; /* with --rounds */
    struct region regions[REGIONS];
    unsigned char *scratch; /* SCRATCH_PAGES, never verified between operations */
    unsigned char *altstack;
    pthread_t thread, predecessor;
    bool has_predecessor;
};

/* The present operation of a worker's slot, for the message about a hang. */
struct status {
    _Atomic uint32_t op, region, tid, pid;
    _Atomic uint64_t page, ops;
};

/* State in MAP_SHARED memory, which all processes of the workload share. */
struct shared {
    _Atomic uint64_t ops; /* the first word of --progress FILE */
    _Atomic uint32_t wrong, orphans, signals, mremap_refused, odirect_refused, finished;
    _Atomic uint64_t children, threads;
    struct status status[MAX_WORKERS];
};

struct config {
    uint64_t seconds, rounds, threads, procs, mib, seed, ops_mask;
    const char *dir, *progress;
    uint64_t deadline_ns;
    unsigned proc_index;
};

extern struct config config;
extern struct shared *shared;
/* Number of forks from the first process to this one; 0 in the first process. */
extern unsigned fork_depth;

/* pattern.c */
uint64_t mix(uint64_t x);
void page_fill(void *dst, const struct region *r, size_t page, uint32_t version);
void page_check(struct worker *w, const struct region *r, size_t page, const void *at);
void page_verify(struct worker *w, struct region *r, size_t page);
void page_rewrite(struct worker *w, struct region *r, size_t page);
void check_zero(struct worker *w, const struct region *r, size_t page, const void *at);
uint64_t region_checksum(struct worker *w, struct region *r);

/* region.c */
void region_create(struct worker *w, struct region *r, uint64_t id, size_t pages);
void region_create_brk(struct region *r, uint64_t id, size_t pages_max);
void region_remake(struct worker *w, struct region *r);
void region_forget(struct region *r, size_t first, size_t count);
void region_verify(struct worker *w, struct region *r);
void worker_verify(struct worker *w);
void *map_anon(size_t bytes);

/* ops.c */
struct op {
    const char *name;
    unsigned weight;
    void (*run)(struct worker *w);
};
extern const struct op ops[];
extern const unsigned ops_count;
void ops_run(struct worker *w);
void ops_run_some(struct worker *w, unsigned count);
struct region *pick_region(struct worker *w);
/* Chooses a random run of at most max pages of r; returns false if r is empty. */
bool pick_run(struct worker *w, const struct region *r, size_t max, size_t *first, size_t *count);

/* util.c */
uint64_t now_ns(void);
uint64_t rnd(struct worker *w, uint64_t below);
bool chance(struct worker *w, unsigned percent);
void sleep_us(uint64_t us);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void die_syscall(const struct worker *w, const char *what);
_Noreturn void die_hang(const struct worker *w, const char *what);
void wait_child(struct worker *w, pid_t pid, const char *what);
void print_status(void);
pid_t watchdog_start(void);

/* The operations, by file. */
void op_verify(struct worker *w), op_rewrite(struct worker *w), op_straddle(struct worker *w);
void op_copy(struct worker *w), op_idle(struct worker *w), op_stack(struct worker *w);
void op_grow(struct worker *w), op_shrink(struct worker *w), op_move(struct worker *w);
void op_move_part(struct worker *w), op_dontunmap(struct worker *w), op_remap(struct worker *w);
void op_remap_part(struct worker *w), op_brk(struct worker *w);
void op_protect(struct worker *w), op_segv(struct worker *w), op_mlock(struct worker *w);
void op_dontneed(struct worker *w), op_free(struct worker *w), op_collapse(struct worker *w);
void op_huge(struct worker *w), op_populate(struct worker *w);
void op_fork(struct worker *w), op_exec(struct worker *w), op_vfork(struct worker *w);
void op_spawn(struct worker *w);
void op_pipe(struct worker *w), op_file(struct worker *w), op_direct(struct worker *w);
void op_close_all(struct worker *w);
void op_futex(struct worker *w), op_thread(struct worker *w), op_signal(struct worker *w);

/* ops_io.c, ops_thread.c. Each process calls these functions once. */
void io_reset_after_fork(void);
void signals_install(void);
void altstack_install(struct worker *w);

#endif
