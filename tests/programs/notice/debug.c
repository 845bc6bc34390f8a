/* A debugger works on a process whose memory is paged out: it stops the process, reads, writes, steps, and
 * detaches. */
#include "notice.h"

#include <fcntl.h>
#include <sys/ptrace.h>

/* Address of the memory; an attached debugger finds it by this symbol. */
uint64_t *attached_memory;

static int tracer(void)
{
    char line[128];
    int pid = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (!file)
        FAIL(97, "/proc/self/status: %s", strerror(errno));
    while (fgets(line, sizeof line, file))
        (void)!sscanf(line, "TracerPid: %d", &pid);
    fclose(file);
    return pid;
}

/* A debugger (`gdb -p`, `strace -p`) attaches when all memory is paged out, may read the memory, and stays
 * attached. The program makes the file NOTICE_READY when the debugger may attach. */
void scenario_attached(void)
{
    const char *ready = getenv("NOTICE_READY");
    attached_memory = filled(PAGES, 1);
    leaves("before it comes", attached_memory, PAGES);
    if (!ready || close(creat(ready, 0600)) != 0)
        FAIL(97, "NOTICE_READY: %s", strerror(errno));
    while (tracer() == 0)
        sleep_us(10000);
    for (unsigned round = 0; round < 3; round++) {
        leaves("while it is there", attached_memory, PAGES);
        verify(attached_memory, PAGES, 1);
    }
    say("its debugger stayed: %d", tracer() != 0);
    say_mappings();
    exit(7);
}

void scenario_traced(void)
{
    uint64_t *at = filled(PAGES, 1);
    int ends[2], written[2];
    char byte;
    channel(ends);
    channel(written);
    pid_t pid = child();
    if (pid == 0) {
        fill(at, PAGES, 2);
        if (write(written[1], "", 1) != 1 || read(ends[0], &byte, 1) != 1)
            _exit(1);
        say("written by the debugger: %lu", (unsigned long)at[7]);
        for (size_t page = 1; page < PAGES; page++)
            page_check(at + page * WORDS, page, 2);
        _exit(0);
    }
    /* Wait until the child has filled its memory. (Regression: in a slow guest the debugger read memory
     * that was not filled yet.) */
    if (read(written[0], &byte, 1) != 1)
        FAIL(97, "read: %s", strerror(errno));
    leaves_of(pid, "before", at, PAGES);
    tell("PTRACE_ATTACH", ptrace(PTRACE_ATTACH, pid, 0, 0));
    await_stop(pid);
    leaves_of(pid, "of a traced one", at, PAGES);
    for (size_t page = 0; page < PAGES; page++) {
        uint64_t want[WORDS];
        page_fill(want, page, 2);
        errno = 0;
        long word = ptrace(PTRACE_PEEKDATA, pid, at + page * WORDS + 9, 0);
        if (errno != 0 || (uint64_t)word != want[9])
            FAIL(99, "page %zu: %lx, %s", page, (unsigned long)word, strerror(errno));
    }
    leaves_of(pid, "read by the debugger", at, PAGES);
    tell("PTRACE_POKEDATA", ptrace(PTRACE_POKEDATA, pid, at + 7, 42L));
    leaves_of(pid, "written by it", at, PAGES);
    /* The byte is written now, because otherwise the first step would wait for it. */
    if (write(ends[1], "", 1) != 1)
        FAIL(97, "write: %s", strerror(errno));
    for (unsigned step = 0; step < 100; step++) {
        if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0) != 0)
            FAIL(97, "PTRACE_SINGLESTEP: %s", strerror(errno));
        await_stop(pid);
    }
    if (ptrace(PTRACE_DETACH, pid, 0, 0) != 0)
        FAIL(97, "PTRACE_DETACH: %s", strerror(errno));
    reap(pid);
    tell("detached", 0);
    verify(at, PAGES, 1);
}
