/* Scenarios in which a program does something hard to memory that has left, and checks each byte of it.
 *
 *   notice NAME     prints what it saw, the same in every run, and its mappings at the end
 *
 * Run alone it waits a moment where memory is to leave (NOTICE_MANAGED is not 1). Else it waits until the kernel
 * says that the memory has left, and appends a line for each such wait to the file NOTICE_FIGURES:
 *   leaves|stays SCENARIO WHAT PAGES OUT SHARE      SHARE: percent of PAGES that have to be out
 * Exit status 99: a wrong byte. */
#ifndef NOTICE_H
#define NOTICE_H

#include "../common.h"

#include <sys/types.h>

/* 8 MiB: what most scenarios have of each kind of memory. */
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
/* How many times as long as on a host things may take here. */
unsigned patience(void);
void figures_open(const char *scenario);
/* Opens this process's pagemap: before a chroot, or another wall. */
void figures_prepare(void);
/* Waits until `share` percent of the pages are out by the kernel's page map; no longer than some seconds. */
void leaves_share(const char *what, const void *at, size_t pages, unsigned share);
/* Nine tenths of it. */
void leaves(const char *what, const void *at, size_t pages);
/* The same of another process, whose addresses are ours. */
void leaves_of(pid_t pid, const char *what, const void *at, size_t pages);
/* Of memory that is in a file or shared: by mincore(2), for the page map does not tell. */
void leaves_shared(const char *what, void *at, size_t pages);
/* Whether nine tenths of the mapping there are huge pages now; to be asked right after they were made. */
void is_huge(const char *what, const void *at, size_t pages);
/* Whether this kernel can take frames out of use. */
int has_memory_failure(void);
/* Waits as long as memory that may leave takes to do so: none of this may. */
void stays(const char *what, const void *at, size_t pages);

/* memory.c */
void fill(uint64_t *at, size_t pages, uint64_t version);
void verify(const uint64_t *at, size_t pages, uint64_t version);
void verify_zero(const uint64_t *at, size_t pages);
/* Every page is what it was, or all zeros from some instant on. */
void verify_or_zero(const uint64_t *at, size_t pages, uint64_t version);
uint64_t *filled(size_t pages, uint64_t version);
/* Whether reading there raises a signal. */
int faults(const void *at);

/* say.c */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What a call gave, or its errno by name. */
void tell(const char *what, long result);
/* fork(2); the child ends with 0 if nothing was wrong, and reap() sees to that. */
pid_t child(void);
void reap(pid_t pid);
/* Waits until a child has stopped, by a signal or for its tracer. */
void await_stop(pid_t pid);
/* pipe(2). */
void channel(int ends[2]);
void say_mappings(void);

#endif
