/* Scenarios with locks and limits: locked memory stays; paged-out memory that is locked is read back;
 * resource limits have the same effect as in an unmanaged run. */
#include "notice.h"

#include <sys/resource.h>

#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif

void scenario_mlockall_before(void)
{
    tell("mlockall", mlockall(MCL_CURRENT | MCL_FUTURE));
    uint64_t *locked = filled(PAGES, 1), *free = filled(PAGES, 2);
    tell("munlock", munlock(free, PAGES * PAGE));
    leaves("unlocked", free, PAGES);
    stays("locked", locked, PAGES);
    verify(locked, PAGES, 1);
    verify(free, PAGES, 2);
}

void scenario_mlockall_after(void)
{
    uint64_t *at = filled(PAGES, 1);
    leaves("before", at, PAGES);
    tell("mlockall", mlockall(MCL_CURRENT));
    stays("locked", at, PAGES);
    verify(at, PAGES, 1);
    tell("munlockall", munlockall());
    leaves("after", at, PAGES);
    verify(at, PAGES, 1);
    tell("mlock of what is out", mlock(at, PAGES / 2 * PAGE));
    stays("locked half", at, PAGES / 2);
    leaves("other half", at + PAGES / 2 * WORDS, PAGES / 2);
    verify(at, PAGES, 1);
}

void scenario_mlock_onfault(void)
{
    uint64_t *at = filled(PAGES, 1);
    leaves("before", at, PAGES);
    tell("mlock2", mlock2(at, PAGES * PAGE, MLOCK_ONFAULT));
    verify(at, PAGES / 2, 1);
    stays("came back", at, PAGES / 2);
    verify(at, PAGES, 1);
}

/* Paged-out memory counts for RLIMIT_AS, RLIMIT_DATA and RLIMIT_MEMLOCK like resident memory. */
void scenario_rlimit_as(void)
{
    uint64_t *at = filled(PAGES, 1);
    leaves("before", at, PAGES);
    struct rlimit limit = {256 * MIB, 256 * MIB};
    tell("RLIMIT_AS", setrlimit(RLIMIT_AS, &limit));
    unsigned got = 0;
    while (mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        got++;
    tell("the end", -1);
    say("%u mappings of 4 MiB", got);
    leaves("at the limit", at, PAGES);
    tell("brk", sbrk((intptr_t)(64 * MIB)) == (void *)-1 ? -1 : 0);
    verify(at, PAGES, 1);
}
