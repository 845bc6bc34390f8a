/* Scenarios: in each the program does something difficult with paged-out memory, and checks every byte of
 * it.
 *
 *   notice NAME     prints what it saw, the same in every run, and its mappings at the end
 *
 * At each point where memory must be paged out, the program waits. If NOTICE_MANAGED is 1, it waits until
 * the kernel's figures show that the memory is paged out, and appends a line to the file NOTICE_FIGURES;
 * otherwise it waits only a moment. The line is
 *   leaves|stays SCENARIO WHAT PAGES OUT SHARE      SHARE: percent of PAGES that have to be out
 * The exit status is 99 after a wrong byte. */
#ifndef NOTICE_H
#define NOTICE_H

#include "../common.h"

#include <sys/types.h>

/* Number of pages of each kind of memory in most scenarios: 8 MiB. */
#define PAGES ((size_t)2048)

#define SCENARIOS(X)                                                                               \
    X(hold) X(wipeonfork) X(dontfork) X(lazyfree) X(guard) X(collapse) X(pageout) X(droppable)     \
    X(dontneed) X(protect) X(populate) X(mlockall_before) X(mlockall_after) X(mlock_onfault)       \
    X(rlimit_as) X(mremap_storm) X(dontunmap) X(shm_remap) X(growsdown) X(brk_heap) X(memfd)       \
    X(shared_anon) X(private_file) X(shared_file) X(direct) X(uring) X(pipes) X(process_vm)        \
    X(main_first) X(threads64) X(clone_vm) X(robust) X(inherit) X(rseq) X(altstack)                \
    X(fork_storm) X(vfork_storm) X(prefork) X(daemon) X(seccomp_strict) X(chroot_setuid)           \
    X(namespaces) X(undumpable) X(stopped) X(exec_twice) X(dump) X(cow_tree) X(wp_uffd)            \
    X(freed_by_child) X(traced) X(frozen) X(removed) X(hints) X(own_advice) X(offline) X(attached)

#define DECLARE(name) void scenario_##name(void);
SCENARIOS(DECLARE)
#undef DECLARE

/* figures.c */
/* Factor by which time limits are longer than on a host (NOTICE_PATIENCE, for slow guests). */
unsigned patience(void);
void figures_open(const char *scenario);
/* Opens this process's pagemap. Call it before chroot and other restrictions. */
void figures_prepare(void);
/* Waits until `share` percent of the pages are paged out, by the kernel's pagemap, up to a time limit. */
void leaves_share(const char *what, const void *at, size_t pages, unsigned share);
/* Waits as leaves_share() does, for 90% of the pages. */
void leaves(const char *what, const void *at, size_t pages);
/* The same for the memory of another process at the same addresses. */
void leaves_of(pid_t pid, const char *what, const void *at, size_t pages);
/* The same for shared memory and memory of files, by mincore(2), because the pagemap does not show whether
 * such pages are out. */
void leaves_shared(const char *what, void *at, size_t pages);
/* Records whether 90% of this mapping are huge pages now. Call it right after they were made. */
void is_huge(const char *what, const void *at, size_t pages);
/* Whether this kernel can take frames out of use. */
int has_memory_failure(void);
/* Waits as long as page-out of other memory takes, and records that none of this memory may be paged out. */
void stays(const char *what, const void *at, size_t pages);

/* memory.c */
void fill(uint64_t *at, size_t pages, uint64_t version);
void verify(const uint64_t *at, size_t pages, uint64_t version);
void verify_zero(const uint64_t *at, size_t pages);
/* Checks that every page has its content, or has become zeros as a whole. */
void verify_or_zero(const uint64_t *at, size_t pages, uint64_t version);
uint64_t *filled(size_t pages, uint64_t version);
/* Returns the signal that a read at this address raises; 0 for none. */
int faults(const void *at);

/* say.c */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints the result of a call, or the name of its error. */
void tell(const char *what, long result);
/* Calls fork(2). The child must end with 0 if it found no error; reap() checks that. */
pid_t child(void);
void reap(pid_t pid);
/* Waits until a child has stopped, by a signal or for its tracer. */
void await_stop(pid_t pid);
/* pipe(2). */
void channel(int ends[2]);
void say_mappings(void);

#endif
