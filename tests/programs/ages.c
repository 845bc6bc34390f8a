/* Touches pages of several kinds of memory by a schedule that a test can read, so that the test knows the
 * true age of each page.
 *
 *   ages MIB_PER_KIND SECONDS [KIND...] [--per-page FILE]
 *
 * KIND is a kind of memory (default: all kinds):
 *   anon    private anonymous, 4 KiB pages       thp   the same in 2 MiB pages (MADV_HUGEPAGE)
 *   file    shared mapping of an unlinked file   cow   private mapping of one, all of it written
 *           in the current folder                memfd shared
 *   forked  private anonymous, filled by this process and then only read, by a child
 *   zero    private anonymous, only ever read: the zero page, which is not resident
 *   loop    8 pages that one thread touches all the time: they stay in the TLB
 * A hash divides the pages of a kind (for thp its units of 2 MiB) into four classes: pages touched every 1
 * s, every 4 s, every 16 s, and never after the program has filled its memory. A touch reads the page,
 * writes it, or does both. Nothing else accesses these pages. The program prints, in this order:
 *   table path=FILE                                       the times of the passes, see ages.h
 *   map kind=K pid=P start=0x... pages=N classes=N1,N4,N16,NN loop=N counts=anon|file|none thp_kib=N
 *   ready pid=P child=P kinds=N t0=NS
 * `pid` is the process that touches the pages: for `forked` the child. `counts` says as which type of
 * memory a report counts them. --per-page writes a byte for the class of each page, 0 to 4 (1 s, 4 s, 16 s,
 * never, loop), in the order of the map lines. The program ends with 0 after SECONDS or when its standard
 * input ends. It removes the table at its end, also after SIGTERM. */
#include "ages.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define TMPFS 0x01021994
#define BATCH 64

static const char usage[] =
    "usage: ages MIB_PER_KIND SECONDS [KIND...] [--per-page FILE]\n"
    "kinds: anon thp file cow memfd forked zero loop; all by default; thp needs 2 MiB or more";
static const char *const names[KINDS] = {"anon", "thp", "file", "cow", "memfd", "forked", "zero", "loop"};
static const uint64_t periods[3] = {1 * SECOND, 4 * SECOND, 16 * SECOND};
/* The passes of the threads begin at different times, because the machine may have few processors. */
static const uint64_t offsets[3] = {0, SECOND * 3 / 10, SECOND * 6 / 10};

static struct { int wanted, on_tmpfs; size_t pages; volatile uint64_t *at; pid_t pid; } kinds[KINDS];
static struct table *table;
static char table_path[4096];
static int in_child;

static void remove_table(void)
{
    if (table_path[0])
        unlink(table_path);
}

#define END(status, ...) do { remove_table(); FAIL(status, __VA_ARGS__); } while (0)

/* The table is in /dev/shm, so that reports do not count it as a file; without /dev/shm it is in the
 * current folder. */
static void make_table(void)
{
    strcpy(table_path, "/dev/shm/ages-XXXXXX");
    int fd = mkstemp(table_path);
    if (fd < 0) {
        /* The path is absolute, because the reader may have another working directory. */
        if (!getcwd(table_path, sizeof table_path - 32))
            FAIL(97, "ages: no table: %s", strerror(errno));
        strcat(table_path, "/ages-table-XXXXXX");
        fd = mkstemp(table_path);
        if (fd < 0)
            FAIL(97, "ages: no table: %s", strerror(errno));
    }
    if (ftruncate(fd, sizeof *table) != 0)
        END(97, "ages: the table: %s", strerror(errno));
    table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (table == MAP_FAILED)
        END(97, "ages: the table: %s", strerror(errno));
    close(fd);
    put(&table->kinds, KINDS);
    put(&table->classes, CLASSES);
    put(&table->slots, SLOTS);
    put(&table->pid, (uint64_t)getpid());
    put(&table->magic, MAGIC);
}

static int backing(enum kind kind, size_t bytes)
{
    char name[] = "ages-file-XXXXXX";
    int fd = kind == MEMFD ? memfd_create("ages", MFD_CLOEXEC) : mkstemp(name);
    struct statfs info;
    if (fd < 0)
        END(97, "ages: a file for %s: %s", names[kind], strerror(errno));
    if (kind != MEMFD)
        unlink(name);
    int error = kind == COW ? 0 : posix_fallocate(fd, 0, (off_t)bytes);
    if (error || ftruncate(fd, (off_t)bytes) != 0 || fstatfs(fd, &info) != 0)
        END(97, "ages: %zu bytes for %s: %s", bytes, names[kind], strerror(error ? error : errno));
    kinds[kind].on_tmpfs = info.f_type == TMPFS;
    return fd;
}

/* Maps the memory of a kind at a multiple of 2 MiB, with a gap on both sides, so that the kernel merges it
 * with no other mapping. */
static void map_kind(enum kind kind)
{
    size_t bytes = kinds[kind].pages * PAGE, unit = HUGE * PAGE;
    int fd = kind == FILE_SHARED || kind == COW || kind == MEMFD ? backing(kind, bytes) : -1;
    int flags = kind == FILE_SHARED || kind == MEMFD ? MAP_SHARED : MAP_PRIVATE;
    char *room = mmap(NULL, bytes + 3 * unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        END(97, "ages: room for %s: %s", names[kind], strerror(errno));
    room += unit - (uintptr_t)room % unit;
    void *at = mmap(room, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    if (at == MAP_FAILED)
        END(97, "ages: mmap of %s: %s", names[kind], strerror(errno));
    if (fd >= 0)
        close(fd);
    /* A kernel without huge pages refuses this call; then the mapping has none. */
    madvise(at, bytes, kind == THP ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    kinds[kind].at = at;
}

static void fill(enum kind kind)
{
    uint64_t begin = now_ns(), sum = 0, counts[CLASSES] = {0};
    volatile uint64_t *at = kinds[kind].at;
    /* With readahead the page cache would have the file in large folios. Then the kernel's DAMON, which
     * clears accessed bits by folio, would clear the bits of many pages at once. */
    if (kind == FILE_SHARED || kind == COW)
        madvise((void *)at, kinds[kind].pages * PAGE, MADV_RANDOM);
    for (size_t page = 0; page < kinds[kind].pages; page++) {
        if (kind == ZERO)
            sum += at[page * WORDS];
        else
            page_fill((uint64_t *)at + page * WORDS, page, kind);
        counts[class_of(kind, page)]++;
    }
    if (kind == ZERO && sum != 0)
        END(99, "ages: the zero page holds something");
    if (kind == FILE_SHARED || kind == COW)
        madvise((void *)at, kinds[kind].pages * PAGE, MADV_NORMAL);
    uint64_t end = now_ns();
    for (int class = 0; class < CLASSES; class++) {
        struct record *record = &table->of[kind][class];
        put(&record->kind, kind);
        put(&record->class, (uint64_t)class);
        put(&record->pages, counts[class]);
        put(&record->fill_begin, begin);
        put(&record->fill_end, end);
    }
}

static void pass_begins(struct record *record, int late)
{
    uint64_t number = record->begun;
    put(&record->pass[number % SLOTS][1], 0);
    put(&record->pass[number % SLOTS][0], now_ns());
    put(&record->late, record->late + (uint64_t)late);
    put(&record->begun, number + 1);
}

static void pass_ends(struct record *record)
{
    put(&record->pass[record->ended % SLOTS][1], now_ns());
    put(&record->ended, record->ended + 1);
}

static void touch(enum kind kind, size_t page, uint64_t value)
{
    volatile uint64_t *word = kinds[kind].at + page * WORDS + 1;
    switch (way_of(kind, page)) {
    case 0: (void)*word; break;
    case 1: *word = value; break;
    default: *word = *word + value;
    }
}

/* The pages of a batch are chosen before any of them is touched, and unused entries of the batch repeat its
 * last page. So if the processor predicts a branch wrongly, it does not touch a page of another class,
 * which might set that page's accessed bit. */
static void touch_class(enum kind kind, enum class class, uint64_t value)
{
    size_t batch[BATCH], pages = kinds[kind].pages;
    for (size_t page = 0; page < pages;) {
        size_t chosen = 0;
        for (; page < pages && chosen < BATCH - 1; page++) {
            batch[chosen] = page;
            chosen += class_of(kind, page) == class;
        }
        if (chosen == 0)
            break;
        for (size_t i = chosen; i < BATCH; i++)
            batch[i] = batch[chosen - 1];
        __asm__ volatile("lfence" ::: "memory");
        for (size_t i = 0; i < chosen; i++)
            touch(kind, batch[i], value);
    }
}

static int touched_here(enum kind kind)
{
    return kinds[kind].wanted && kind != LOOP && (kind == FORKED) == in_child;
}

static void *keep_touching(void *argument)
{
    enum class class = (enum class)(uintptr_t)argument;
    uint64_t due = table->t0 + offsets[class], value = 1;
    for (;; due += periods[class], value++) {
        sleep_until(due);
        uint64_t now = now_ns();
        for (int kind = 0; kind < KINDS; kind++)
            if (touched_here((enum kind)kind) && table->of[kind][class].pages) {
                pass_begins(&table->of[kind][class], now > due + SECOND / 10);
                touch_class((enum kind)kind, class, value);
                pass_ends(&table->of[kind][class]);
            }
        /* If the process was stopped (SIGSTOP, a snapshot of the machine), the missed passes are skipped. */
        while (due + periods[class] < now_ns())
            due += periods[class];
    }
    return NULL;
}

/* Touches the pages of the loop all the time. Each pass in the table stands for about 10 ms of touching. */
static void *keep_looping(void *argument)
{
    struct record *record = &table->of[LOOP][ALWAYS];
    for (uint64_t value = 1;; value++) {
        pass_begins(record, 0);
        for (uint64_t begin = now_ns(); now_ns() < begin + SECOND / 100;)
            for (int round = 0; round < 10000; round++)
                for (size_t page = 0; page < kinds[LOOP].pages; page++)
                    touch(LOOP, page, value);
        pass_ends(record);
    }
    return argument;
}

static void start_threads(void)
{
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (uintptr_t class = EVERY_1; class <= EVERY_16; class++)
        if (pthread_create(&thread, &small, keep_touching, (void *)class) != 0)
            END(97, "ages: no thread");
    if (!in_child && kinds[LOOP].wanted && pthread_create(&thread, &small, keep_looping, NULL) != 0)
        END(97, "ages: no thread");
}

/* Forks the child before the other kinds are mapped, so that the child does not inherit them. The child
 * begins when it gets the start time through a pipe. */
static pid_t start_child(int *begin)
{
    int ends[2];
    char byte;
    pid_t parent = getpid(), pid;
    if (pipe2(ends, O_CLOEXEC) != 0 || (pid = fork()) < 0)
        END(97, "ages: fork: %s", strerror(errno));
    close(ends[pid == 0]);
    *begin = ends[1];
    if (pid != 0)
        return pid;
    table_path[0] = 0; /* it is the parent's to remove */
    in_child = 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || read(ends[0], &byte, 1) != 1)
        _exit(1);
    start_threads();
    for (;;)
        pause();
}

/* KiB of a mapping that are in huge pages, by the kernel's smaps. */
static unsigned long huge_kib(enum kind kind)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    unsigned long start, end, kib = 0;
    char line[512];
    int inside = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            inside = start == (unsigned long)kinds[kind].at;
        else if (inside && sscanf(line, "AnonHugePages: %lu", &kib) == 1)
            break;
    }
    if (maps)
        fclose(maps);
    return kib;
}

static void print_map(enum kind kind)
{
    const struct record *of = table->of[kind];
    const char *counts = kind == ZERO ? "none" : kind == FILE_SHARED && !kinds[kind].on_tmpfs ? "file" : "anon";
    printf("map kind=%s pid=%d start=%#lx pages=%zu classes=%lu,%lu,%lu,%lu loop=%lu counts=%s thp_kib=%lu\n",
           names[kind], (int)kinds[kind].pid, (unsigned long)kinds[kind].at, kinds[kind].pages,
           (unsigned long)of[EVERY_1].pages, (unsigned long)of[EVERY_4].pages,
           (unsigned long)of[EVERY_16].pages, (unsigned long)of[NEVER].pages,
           (unsigned long)of[ALWAYS].pages, counts, huge_kib(kind));
}

static void write_classes(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        END(97, "ages: %s: %s", path, strerror(errno));
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t page = 0; kinds[kind].wanted && page < kinds[kind].pages; page++)
            putc((int)class_of((enum kind)kind, page), file);
    if (fclose(file) != 0)
        END(97, "ages: %s: %s", path, strerror(errno));
}

/* Waits for the end of the program. Returns the signal that ended the wait; 0 if the time is over or
 * standard input has ended. */
static int wait_for_end(uint64_t until, const sigset_t *set, pid_t child)
{
    char buffer[4096];
    struct signalfd_siginfo info;
    struct pollfd wait[2] = {{0, POLLIN, 0}, {signalfd(-1, set, SFD_CLOEXEC), POLLIN, 0}};
    for (uint64_t now = now_ns(); now < until; now = now_ns()) {
        if (poll(wait, 2, (int)((until - now) / 1000000 + 1)) < 0)
            continue;
        if (wait[1].revents && read(wait[1].fd, &info, sizeof info) == sizeof info) {
            if (info.ssi_signo != SIGCHLD)
                return (int)info.ssi_signo;
            if (child && waitpid(child, NULL, WNOHANG) == child)
                END(99, "ages: the child is gone");
        }
        if (wait[0].revents && read(0, buffer, sizeof buffer) <= 0)
            return 0;
    }
    return 0;
}

static void parse(int argc, char **argv, size_t *mib, uint64_t *seconds, const char **per_page)
{
    int any = 0;
    *mib = number(argc > 1 ? argv[1] : NULL, 1, 1 << 20, usage);
    *seconds = number(argc > 2 ? argv[2] : NULL, 1, 1000000, usage);
    for (int i = 3; i < argc; i++) {
        int kind = 0;
        if (strcmp(argv[i], "--per-page") == 0 && i + 1 < argc) {
            *per_page = argv[++i];
            continue;
        }
        while (kind < KINDS && strcmp(names[kind], argv[i]) != 0)
            kind++;
        if (kind == KINDS)
            FAIL(2, "%s\nneither a kind nor an option: %s", usage, argv[i]);
        kinds[kind].wanted = any = 1;
    }
    for (int kind = 0; kind < KINDS; kind++) {
        kinds[kind].wanted |= !any;
        kinds[kind].pages = kind == LOOP ? 8 : kind == THP ? *mib / 2 * HUGE : *mib * MIB / PAGE;
    }
    if (kinds[THP].wanted && kinds[THP].pages == 0)
        FAIL(2, "%s", usage);
}

static sigset_t block_signals(void)
{
    static const int ends[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        sigaddset(&set, ends[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return set;
}

int main(int argc, char **argv)
{
    size_t mib;
    uint64_t seconds;
    const char *per_page = NULL;
    pid_t child = 0;
    int begin = -1, wanted = 0;
    parse(argc, argv, &mib, &seconds, &per_page);
    setvbuf(stdout, NULL, _IOLBF, 0);
    sigset_t set = block_signals();
    make_table();
    printf("table path=%s\n", table_path);
    if (kinds[FORKED].wanted) {
        map_kind(FORKED);
        fill(FORKED);
        kinds[FORKED].pid = child = start_child(&begin);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        if (!kinds[kind].wanted)
            continue;
        wanted++;
        if (kind != FORKED) {
            kinds[kind].pid = getpid();
            map_kind((enum kind)kind);
            fill((enum kind)kind);
        }
        print_map((enum kind)kind);
    }
    if (per_page)
        write_classes(per_page);
    put(&table->t0, now_ns() + SECOND / 20);
    if (child && write(begin, "", 1) != 1)
        END(99, "ages: the child is gone");
    start_threads();
    printf("ready pid=%d child=%d kinds=%d t0=%lu\n", (int)getpid(), (int)child, wanted,
           (unsigned long)table->t0);
    int ended = wait_for_end(table->t0 + seconds * SECOND, &set, child);
    remove_table();
    if (ended) {
        signal(ended, SIG_DFL);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        raise(ended);
    }
    _exit(0);
}
