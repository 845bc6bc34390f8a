/* Many threads that start and exit all the time, beside cold memory.
 *
 * At a thread's exit the kernel writes to the thread's memory (clear_child_tid, the robust list), also if
 * this memory is paged out. If such a write were lost, pthread_join would never return.
 *
 *   threads [--alive 64] [--total 20000] [--mib 64]     prints a checksum; 98 if a join hangs */
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>

#define HEAP_PAGES 16

/* Memory of MAP_SHARED: a robust mutex that several processes share, and the data that it protects. */
struct shared {
    pthread_mutex_t mutex;
    uint64_t entries, owners_died;
};

static struct shared *shared;
static _Atomic uint64_t sum, detached_left;
static _Thread_local uint64_t tls[512];

static void robust_enter(bool die_inside)
{
    int error = pthread_mutex_lock(&shared->mutex);
    if (error == EOWNERDEAD) {
        shared->owners_died++;
        pthread_mutex_consistent(&shared->mutex);
    } else if (error) {
        FAIL(97, "robust mutex: %s", strerror(error));
    }
    shared->entries++;
    if (!die_inside)
        pthread_mutex_unlock(&shared->mutex);
}

static void *run(void *argument)
{
    uint64_t number = (uint64_t)(uintptr_t)argument;
    bool detached = number % 5 == 0;
    for (size_t i = 0; i < 512; i++)
        tls[i] = mix(number + i);
    uint64_t *heap = malloc(HEAP_PAGES * PAGE);
    for (size_t i = 0; i < HEAP_PAGES; i++)
        page_fill(heap + i * WORDS, i, number);
    if (number % 3 == 0)
        sleep_us(number % 7000);
    for (size_t i = 0; i < HEAP_PAGES; i++)
        page_check(heap + i * WORDS, i, number);
    for (size_t i = 0; i < 512; i++)
        if (tls[i] != mix(number + i))
            FAIL(99, "thread %lu: thread-local word %zu is wrong", (unsigned long)number, i);
    atomic_fetch_add(&sum, heap[number % WORDS] ^ tls[number % 512]);
    free(heap);
    robust_enter(number % 97 == 0);
    if (detached)
        atomic_fetch_sub(&detached_left, 1);
    return NULL;
}

static void start(uint64_t number, pthread_t *thread)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, number % 2 ? 64 * 1024 : 8 * MIB);
    if (number % 5 == 0) {
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        atomic_fetch_add(&detached_left, 1);
    }
    int error = pthread_create(thread, &attr, run, (void *)(uintptr_t)number);
    if (error)
        FAIL(97, "pthread_create: %s", strerror(error));
    pthread_attr_destroy(&attr);
}

/* Starts a process that dies while it holds the mutex, as a thread does in another part of this test. */
static void child_dies_inside(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        robust_enter(true);
        _exit(0);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        FAIL(99, "the child ended with wait status 0x%x", status);
}

static void on_alarm(int signal)
{
    (void)signal;
    FAIL(98, "threads: nothing ended for 60 s; a join hangs");
}

static void shared_create(void)
{
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        FAIL(97, "mmap: %s", strerror(errno));
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->mutex, &attr);
}

int main(int argc, char **argv)
{
    uint64_t alive = option(argc, argv, "--alive", 64), total = option(argc, argv, "--total", 20000);
    size_t cold_pages = option(argc, argv, "--mib", 64) * MIB / PAGE;
    pthread_t *threads = calloc(alive, sizeof *threads);
    uint64_t *numbers = calloc(alive, sizeof *numbers);
    uint64_t *cold = map_anon(cold_pages * PAGE);
    signal(SIGALRM, on_alarm);
    shared_create();
    for (size_t i = 0; i < cold_pages; i++)
        page_fill(cold + i * WORDS, i, 1);
    for (uint64_t number = 1; number <= total + alive; number++) {
        uint64_t slot = number % alive;
        alarm(60);
        if (numbers[slot] && numbers[slot] % 5 != 0)
            pthread_join(threads[slot], NULL);
        numbers[slot] = number <= total ? number : 0;
        if (number <= total)
            start(number, &threads[slot]);
        if (number % 1000 == 0)
            child_dies_inside();
        page_check(cold + number * 31 % cold_pages * WORDS, number * 31 % cold_pages, 1);
    }
    while (atomic_load(&detached_left) > 0)
        sleep_us(1000);
    for (size_t i = 0; i < cold_pages; i++)
        page_check(cold + i * WORDS, i, 1);
    robust_enter(false);
    printf("OK threads=%lu entries=%lu died=%lu checksum=%016lx\n", (unsigned long)total,
           (unsigned long)shared->entries, (unsigned long)shared->owners_died, (unsigned long)sum);
    return 0;
}
