/* Counts paged-out pages by the kernel's figures, and waits until memory is paged out. */
#include "notice.h"

#include <fcntl.h>

/* Time limit in ns, much longer than any policy of the tests needs. In a guest it is NOTICE_PATIENCE times
 * as long. */
#define WAIT_MAX ((uint64_t)60000000000u * patience())
/* Time in us for which the program waits before it checks that memory which must stay was not paged out. */
#define STAYS_US 900000
#define ALONE_US 60000

static const char *name = "";
static int figures = -1, managed;
static int pagemap = -1;
static pid_t pagemap_owner;

unsigned patience(void)
{
    const char *text = getenv("NOTICE_PATIENCE");
    return text && atoi(text) > 0 ? (unsigned)atoi(text) : 1;
}

void figures_open(const char *scenario)
{
    const char *path = getenv("NOTICE_FIGURES"), *flag = getenv("NOTICE_MANAGED");
    name = scenario;
    managed = flag && strcmp(flag, "1") == 0;
    if (path && (figures = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666)) < 0)
        FAIL(97, "%s: %s", path, strerror(errno));
}

static int pagemap_of(const char *pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/pagemap", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        FAIL(97, "%s: %s", path, strerror(errno));
    return fd;
}

void figures_prepare(void)
{
    if (pagemap_owner == getpid())
        return;
    if (pagemap >= 0)
        close(pagemap);
    pagemap = pagemap_of("thread-self");
    pagemap_owner = getpid();
}

/* Counts swapped-out pages: bit 62 of a pagemap entry says that the page is in swap. */
static size_t count_swapped(int fd, const void *at, size_t pages)
{
    uint64_t entries[256];
    size_t first = (uintptr_t)at / PAGE, out = 0;
    for (size_t done = 0; done < pages;) {
        size_t some = pages - done < 256 ? pages - done : 256;
        ssize_t got = pread(fd, entries, some * 8, (off_t)((first + done) * 8));
        if (got != (ssize_t)(some * 8))
            FAIL(97, "pagemap: %zd of %zu bytes: %s", got, some * 8, strerror(errno));
        for (size_t i = 0; i < some; i++)
            out += entries[i] >> 62 & 1;
        done += some;
    }
    return out;
}

static size_t count_absent(void *at, size_t pages)
{
    unsigned char resident[256];
    size_t out = 0;
    for (size_t done = 0; done < pages;) {
        size_t some = pages - done < 256 ? pages - done : 256;
        if (mincore((char *)at + done * PAGE, some * PAGE, resident) != 0)
            FAIL(97, "mincore: %s", strerror(errno));
        for (size_t i = 0; i < some; i++)
            out += !(resident[i] & 1);
        done += some;
    }
    return out;
}

static void note(const char *kind, const char *what, size_t pages, size_t out, unsigned share)
{
    char line[256];
    int length = snprintf(line, sizeof line, "%s %s %s %zu %zu %u\n", kind, name, what, pages, out, share);
    if (figures >= 0 && write(figures, line, (size_t)length) != length)
        FAIL(97, "figures: %s", strerror(errno));
}

/* Waits until `share` percent of the pages are out: by the pagemap `fd`, or by mincore(2) if `fd` is
 * negative. */
static void wait_out(int fd, const char *what, const void *at, size_t pages, unsigned share)
{
    uint64_t begin = now_ns();
    size_t out = 0;
    if (!managed) {
        sleep_us(ALONE_US);
        return;
    }
    do {
        sleep_us(20000);
        out = fd < 0 ? count_absent((void *)(uintptr_t)at, pages) : count_swapped(fd, at, pages);
    } while (out * 100 < pages * share && now_ns() - begin < WAIT_MAX);
    note("leaves", what, pages, out, share);
}

void leaves_share(const char *what, const void *at, size_t pages, unsigned share)
{
    figures_prepare();
    wait_out(pagemap, what, at, pages, share);
}

void leaves(const char *what, const void *at, size_t pages)
{
    leaves_share(what, at, pages, 90);
}

void leaves_of(pid_t pid, const char *what, const void *at, size_t pages)
{
    char text[16];
    snprintf(text, sizeof text, "%d", (int)pid);
    int fd = pagemap_of(text);
    wait_out(fd, what, at, pages, 90);
    close(fd);
}

void leaves_shared(const char *what, void *at, size_t pages)
{
    wait_out(-1, what, at, pages, 90);
}

void is_huge(const char *what, const void *at, size_t pages)
{
    char line[256];
    unsigned long start = 0, end = 0, from, to, kib, found = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    if (!file)
        FAIL(97, "/proc/self/smaps: %s", strerror(errno));
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            start = from, end = to;
        if (start <= (uintptr_t)at && (uintptr_t)at < end && sscanf(line, "AnonHugePages: %lu", &kib) == 1)
            found = kib / 4;
    }
    fclose(file);
    if (managed)
        note("leaves", what, pages, found, 90);
}

int has_memory_failure(void)
{
    char line[128];
    int found = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    if (!file)
        FAIL(97, "/proc/meminfo: %s", strerror(errno));
    while (fgets(line, sizeof line, file))
        found |= strncmp(line, "HardwareCorrupted:", 18) == 0;
    fclose(file);
    return found;
}

void stays(const char *what, const void *at, size_t pages)
{
    if (!managed) {
        sleep_us(ALONE_US);
        return;
    }
    figures_prepare();
    sleep_us(STAYS_US);
    note("stays", what, pages, count_swapped(pagemap, at, pages), 0);
}
