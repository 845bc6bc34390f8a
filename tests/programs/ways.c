/* Compares ways to make the kernel page out the cold half of a program: the cost of a page for the
 * requesting process, and how many pages of the hot half are paged out.
 *
 *   cc -O2 -o /tmp/ways tests/programs/ways.c && sudo /tmp/ways [--mib 128] [--rounds 3] [--longest PAGES] [--only WAY]      (with swap on zram)
 *
 * A child in a control group of its own fills its memory, and then sleeps, or uses the hot half on the
 * other processor. Hot and cold pages alternate in runs of 1 to --longest pages. All accessed bits are
 * cleared before, as after a scan. pagemap shows which pages were paged out. Memory is requested in steps
 * of 2 MiB, as pagetide does, and each way requests as many pages as are cold.
 *
 * Because of these figures pagetide uses the third way (crates/host/src/manage/advise.rs). */
#include "common.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif
/* Number of pages in a step, and number of ranges in a call. */
#define STEP ((size_t)512)
#define RANGES ((size_t)1024)

enum way { BY_PAGE, VECTORED, RANGES_OF_STEPS, COLD_AND_LIMIT, LIMIT, WAYS };
static const char *const names[WAYS] = {
    "MADV_PAGEOUT, a call for each page",
    "MADV_PAGEOUT, each page a range of a call",
    "MADV_PAGEOUT, pages joined to ranges",
    "MADV_COLD on ranges, then the group's limit",
    "the group's limit alone",
};

static struct { _Atomic int ready, use; } *shared;
static uint64_t *at;
static size_t pages, run, longest;
static char group[64];
static int is_v2, pidfd;
static pid_t child;

static int is_cold(size_t page) { return page / run % 2; }

static void pin(int processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        FAIL(1, "there is no processor %d", processor);
}

/* Writes a text to a file. Returns 0, or the error number. */
static int put(const char *path, const char *text)
{
    int file = open(path, O_WRONLY), error = 0;
    if (file < 0)
        return errno;
    if (write(file, text, strlen(text)) < 0)
        error = errno;
    close(file);
    return error;
}

static const char *of_group(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", group, name);
    return path;
}

static void fill_and_obey(void)
{
    pin(0);
    if (put(of_group("cgroup.procs"), "0") != 0)
        FAIL(1, "the control group cannot be entered");
    /* Only a third of each page is random, so that the page can be compressed. */
    for (size_t i = 0; i < pages * WORDS; i++)
        at[i] = i % WORDS < WORDS / 3 ? mix(i) : 7;
    shared->ready = 1;
    for (;;) {
        for (size_t page = 0; shared->use && page < pages; page++)
            if (!is_cold(page))
                *(volatile uint64_t *)(at + page * WORDS);
        if (!shared->use)
            sleep_us(1000);
    }
}

static void advise(struct iovec *ranges, size_t many, int advice)
{
    if (many > 0 && syscall(SYS_process_madvise, pidfd, ranges, many, advice, 0) < 0)
        FAIL(1, "process_madvise: %s", strerror(errno));
}

/* Requests page-out of the cold pages in [begin, begin + STEP) by one of the ways. */
static void advise_step(size_t begin, enum way way)
{
    struct iovec ranges[RANGES];
    size_t many = 0, end = begin + STEP < pages ? begin + STEP : pages;
    int advice = way == COLD_AND_LIMIT ? MADV_COLD : MADV_PAGEOUT;
    for (size_t page = begin; page < end; page++) {
        if (!is_cold(page))
            continue;
        char *start = (char *)(at + page * WORDS);
        struct iovec *last = many > 0 ? &ranges[many - 1] : NULL;
        int joins = way != BY_PAGE && way != VECTORED;
        if (joins && last != NULL && (char *)last->iov_base + last->iov_len == start && last->iov_len < longest * PAGE) {
            last->iov_len += PAGE;
            continue;
        }
        ranges[many++] = (struct iovec){start, PAGE};
        if (way == BY_PAGE) {
            advise(ranges, 1, advice);
            many = 0;
        }
    }
    advise(ranges, many, advice);
}

/* Lowers the group's limit, so that the kernel reclaims `bytes` bytes; the kernel chooses the pages. */
static void lower_limit(uint64_t bytes)
{
    char text[64];
    if (is_v2) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
        put(of_group("memory.reclaim"), text);
        return;
    }
    int file = open(of_group("memory.usage_in_bytes"), O_RDONLY);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (length < 0)
        FAIL(1, "the group has no usage");
    close(file);
    text[length] = 0;
    uint64_t usage = strtoull(text, NULL, 10);
    snprintf(text, sizeof text, "%llu", (unsigned long long)(usage - bytes));
    put(of_group("memory.limit_in_bytes"), text);
    put(of_group("memory.limit_in_bytes"), "-1");
}

static void take(enum way way, size_t cold)
{
    for (size_t page = 0; way != LIMIT && page < pages; page += STEP)
        advise_step(page, way);
    if (way == LIMIT || way == COLD_AND_LIMIT)
        lower_limit((uint64_t)cold * PAGE);
}

static void one(enum way way, int is_used)
{
    char path[64];
    shared->ready = shared->use = 0;
    child = fork();
    if (child == 0)
        fill_and_obey();
    while (!shared->ready)
        sleep_us(1000);
    pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    snprintf(path, sizeof path, "/proc/%d/clear_refs", child);
    if (put(path, "1") != 0)
        FAIL(1, "its accessed bits cannot be cleared");
    shared->use = is_used;
    sleep_us(200000);
    size_t cold = 0, cold_out = 0, hot_out = 0;
    for (size_t page = 0; page < pages; page++)
        cold += (size_t)is_cold(page);
    uint64_t begin = now_ns();
    take(way, cold);
    double took = (double)(now_ns() - begin);
    snprintf(path, sizeof path, "/proc/%d/pagemap", child);
    int file = open(path, O_RDONLY);
    for (size_t page = 0; page < pages; page++) {
        uint64_t entry = 0;
        if (pread(file, &entry, 8, (off_t)(((uintptr_t)at / PAGE + page) * 8)) != 8)
            FAIL(1, "pagemap cannot be read");
        if (entry >> 62 & 1)
            *(is_cold(page) ? &cold_out : &hot_out) += 1;
    }
    close(file);
    printf("| %3zu | %-6s | %-43s | %5.1f | %5.1f%% | %5.1f%% |\n", run, is_used ? "used" : "asleep", names[way], took / 1000 / (double)cold,
           100.0 * (double)cold_out / (double)cold, 100.0 * (double)hot_out / (double)(pages - cold));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(pidfd);
}

int main(int argc, char **argv)
{
    pages = option(argc, argv, "--mib", 128) * MIB / PAGE;
    uint64_t rounds = option(argc, argv, "--rounds", 3), only = option(argc, argv, "--only", WAYS);
    longest = option(argc, argv, "--longest", STEP);
    setvbuf(stdout, NULL, _IOLBF, 0);
    is_v2 = put("/sys/fs/cgroup/cgroup.subtree_control", "+memory") == 0;
    snprintf(group, sizeof group, "/sys/fs/cgroup%s/pagetide-ways-%d", is_v2 ? "" : "/memory", (int)getpid());
    if (mkdir(group, 0755) != 0)
        FAIL(1, "%s: %s", group, strerror(errno));
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    at = map_anon(pages * PAGE);
    madvise(at, pages * PAGE, MADV_NOHUGEPAGE);
    pin(1);
    printf("| run | hot    | way                                         | us    | cold   | hot    |\n|---|---|---|---|---|---|\n");
    for (uint64_t round = 0; round < rounds; round++)
        for (run = 1; run <= 512; run *= 8)
            for (int is_used = 0; is_used < 2; is_used++)
                for (enum way way = 0; way < WAYS; way++)
                    if (only == WAYS || only == way)
                        one(way, is_used);
    rmdir(group);
    return 0;
}
