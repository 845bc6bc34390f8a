/* Tests whether the kernel loses memory of a parent if a forked child marks it as free (MADV_FREE).
 * pagetide does not run in this test.
 *
 *   cc -O1 -static -o /tmp/given_back tests/programs/given_back.c && /tmp/given_back      (with swap; half a second)
 *   cargo xtask guest -k 6.1 -z 256 /tmp/given_back
 *
 * 256 pages are paged out and read again. The child marks them as free with MADV_FREE, and ends. Then the
 * parent pages them out once more. Prints how many of the parent's pages are zeros after that; ends with 1
 * if any page is. */
#include "common.h"

#include <sys/wait.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#define PAGES ((size_t)256)

static size_t zeros(const uint64_t *at)
{
    size_t found = 0;
    for (size_t page = 0; page < PAGES; page++)
        found += at[page * WORDS] == 0;
    return found;
}

static void page_out(uint64_t *at)
{
    if (madvise(at, PAGES * PAGE, MADV_PAGEOUT) != 0)
        FAIL(2, "MADV_PAGEOUT: %s", strerror(errno));
    sleep_us(50000);
}

int main(void)
{
    uint64_t *at = map_anon(PAGES * PAGE);
    for (size_t i = 0; i < PAGES * WORDS; i++)
        at[i] = mix(i) | 1;
    page_out(at);
    if (zeros(at) != 0)
        FAIL(2, "pages were lost before anybody gave them back");
    pid_t child = fork();
    if (child == 0)
        _exit(madvise(at, PAGES * PAGE, MADV_FREE) != 0);
    int status = 1;
    waitpid(child, &status, 0);
    if (status != 0)
        FAIL(2, "the child could not give its memory back");
    page_out(at);
    size_t lost = zeros(at);
    printf("%zu of %zu pages of the parent are lost\n", lost, PAGES);
    return lost > 0;
}
