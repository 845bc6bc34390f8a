/* Parses the arguments, starts the workers, and ends the program. Each worker starts its successor, so that
 * threads exit all the time. Each pthread_join depends on a word that the kernel clears in the ended
 * thread's memory. */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct config config = {.seconds = 10, .threads = 4, .procs = 1, .mib = 64, .seed = 1,
                        .ops_mask = ~0ull, .dir = "."};
struct shared *shared;

static pthread_mutex_t ended_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended_cond = PTHREAD_COND_INITIALIZER;
static unsigned ended;

static bool is_over(struct worker *w)
{
    return config.rounds ? w->ops_left == 0 : now_ns() >= config.deadline_ns;
}

static void *worker_run(void *argument)
{
    struct worker *w = argument;
    struct status *s = &shared->status[w->slot];
    /* The tid is stored before the pid, because another process that finds the pid sends signals to the
     * tid. */
    atomic_store(&s->tid, (uint32_t)gettid());
    atomic_store(&s->pid, (uint32_t)getpid());
    altstack_install(w);
    if (w->has_predecessor)
        pthread_join(w->predecessor, NULL);
    w->has_predecessor = true;
    for (uint64_t life = 50 + rnd(w, 500); life > 0 && !is_over(w); life--) {
        ops_run(w);
        w->ops_left -= config.rounds != 0;
    }
    w->predecessor = w->thread;
    if (is_over(w)) {
        pthread_mutex_lock(&ended_lock);
        ended++;
        pthread_cond_signal(&ended_cond);
        pthread_mutex_unlock(&ended_lock);
    } else if (pthread_create(&w->thread, NULL, worker_run, w) != 0) {
        die_syscall(w, "pthread_create of a successor");
    }
    atomic_fetch_add(&shared->threads, 1);
    return NULL;
}

static void worker_create(struct worker *w, unsigned slot)
{
    size_t pages = config.mib * 256 / (config.threads * REGIONS);
    memset(w, 0, sizeof *w);
    w->slot = slot + config.proc_index * (unsigned)config.threads;
    w->rng = mix(config.seed * 1000003 + w->slot);
    w->ops_left = config.rounds;
    w->scratch = map_anon(SCRATCH_PAGES * PAGE);
    w->altstack = map_anon(ALTSTACK_SIZE);
    for (unsigned i = 0; i < REGIONS; i++) {
        uint64_t id = (uint64_t)w->slot * REGIONS + i + 1;
        if (slot == 0 && i == 0)
            region_create_brk(&w->regions[i], id, pages);
        else
            region_create(w, &w->regions[i], id, pages);
    }
}

/* Makes malloc use no memory at the program break, because a region may be there. */
static void malloc_keep_off_brk(void)
{
    mallopt(M_TOP_PAD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    free(malloc(64 << 10));
}

static uint64_t workload(void)
{
    struct worker *workers = map_anon(sizeof *workers * config.threads);
    malloc_keep_off_brk();
    signals_install();
    for (unsigned i = 0; i < config.threads; i++)
        worker_create(&workers[i], i);
    config.deadline_ns = now_ns() + config.seconds * 1000000000ull;
    for (unsigned i = 0; i < config.threads; i++)
        if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]) != 0)
            die_syscall(NULL, "pthread_create");
    pthread_mutex_lock(&ended_lock);
    while (ended < config.threads)
        pthread_cond_wait(&ended_cond, &ended_lock);
    pthread_mutex_unlock(&ended_lock);
    uint64_t sum = 0;
    for (unsigned i = 0; i < config.threads; i++) {
        pthread_join(workers[i].thread, NULL);
        worker_verify(&workers[i]);
        for (unsigned j = 0; j < REGIONS; j++)
            sum += region_checksum(&workers[i], &workers[i].regions[j]);
    }
    return sum;
}

/* The program that op_exec starts: a process with new memory, which was another program a moment before. */
static int exec_child(const char *seed)
{
    static struct worker w;
    config.seed = strtoull(seed, NULL, 10);
    w.rng = config.seed;
    region_create(&w, &w.regions[0], 7, 256);
    for (int i = 0; i < 4; i++) {
        sleep_us(rnd(&w, 4000));
        region_verify(&w, &w.regions[0]);
        for (size_t page = rnd(&w, 4); page < 256; page += 3)
            page_rewrite(&w, &w.regions[0], page);
    }
    region_verify(&w, &w.regions[0]);
    return 0;
}

static void shared_create(void)
{
    int fd = -1, flags = MAP_SHARED | MAP_ANONYMOUS;
    if (config.progress) {
        fd = open(config.progress, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0 || ftruncate(fd, (off_t)sizeof *shared) != 0)
            die_syscall(NULL, config.progress);
        flags = MAP_SHARED;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (shared == MAP_FAILED)
        die_syscall(NULL, "mmap of the shared counters");
    if (fd >= 0)
        close(fd);
}

/* Parses a list of operations: names with commas between them, where a leading minus removes a name; or a
 * number as a bit mask. */
static bool parse_ops(char *list)
{
    char *end;
    config.ops_mask = strtoull(list, &end, 0);
    if (*end == '\0')
        return config.ops_mask != 0;
    config.ops_mask = list[0] == '-' ? ~0ull : 0;
    for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
        bool minus = name[0] == '-';
        unsigned i = 0;
        while (i < ops_count && strcmp(ops[i].name, name + minus) != 0)
            i++;
        if (i == ops_count) {
            say("no operation is called %s", name + minus);
            return false;
        }
        config.ops_mask = minus ? config.ops_mask & ~(1ull << i) : config.ops_mask | 1ull << i;
    }
    return config.ops_mask != 0;
}

static bool parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"seconds", 1, NULL, 's'}, {"rounds", 1, NULL, 'r'}, {"threads", 1, NULL, 't'},
        {"procs", 1, NULL, 'p'},   {"mib", 1, NULL, 'm'},    {"seed", 1, NULL, 'S'},
        {"ops", 1, NULL, 'o'},     {"dir", 1, NULL, 'd'},    {"progress", 1, NULL, 'P'},
        {"exec-child", 1, NULL, 'x'}, {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        uint64_t number = optarg ? strtoull(optarg, NULL, 0) : 0;
        switch (c) {
        case 's': config.seconds = number; break;
        case 'r': config.rounds = number; break;
        case 't': config.threads = number; break;
        case 'p': config.procs = number; break;
        case 'm': config.mib = number; break;
        case 'S': config.seed = number; break;
        case 'd': config.dir = optarg; break;
        case 'P': config.progress = optarg; break;
        case 'o':
            if (!parse_ops(optarg))
                return false;
            break;
        case 'x':
            shared_create();
            exit(exec_child(optarg));
        default: return false;
        }
    }
    return optind == argc && config.threads > 0 && config.procs > 0 && config.mib > 0
        && config.threads * config.procs <= MAX_WORKERS / 2;
}

static void wait_orphans(void)
{
    uint64_t end = now_ns() + (WAIT_LIMIT + 5) * 1000000000ull;
    while (atomic_load(&shared->orphans) > 0) {
        if (now_ns() > end)
            die_hang(NULL, "an orphaned child");
        sleep_us(1000);
    }
}

int main(int argc, char **argv)
{
    if (!parse(argc, argv)) {
        say("usage: hostile [--seconds N | --rounds N] [--threads T] [--procs P] [--mib M] [--seed S]"
            " [--ops NAME,..|-NAME,..|MASK] [--dir DIR] [--progress FILE]  (T * P <= %d)",
            MAX_WORKERS / 2);
        return EXIT_USAGE;
    }
    shared_create();
    pid_t watchdog = watchdog_start();
    pid_t others[MAX_WORKERS];
    uint64_t procs = config.procs;
    for (unsigned i = 1; i < procs; i++) {
        others[i] = fork();
        if (others[i] < 0)
            die_syscall(NULL, "fork of a process");
        if (others[i] == 0) {
            config.proc_index = i;
            workload();
            _exit(0);
        }
    }
    uint64_t sum = workload();
    for (unsigned i = 1; i < procs; i++)
        wait_child(NULL, others[i], "another process of the workload");
    wait_orphans();
    atomic_store(&shared->finished, 1);
    wait_child(NULL, watchdog, "the watchdog");
    say("threads %lu children %lu signals %u mremap refused %u O_DIRECT refused %u",
        shared->threads, shared->children, shared->signals, shared->mremap_refused,
        shared->odirect_refused);
    if (shared->wrong)
        return EXIT_WRONG;
    printf("OK ops=%lu checksum=%016lx\n", (unsigned long)shared->ops, sum);
    return 0;
}
