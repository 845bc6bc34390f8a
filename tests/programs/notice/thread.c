/* Scenarios with threads, and with processes that share memory as threads do. */
#include "notice.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/rseq.h>
#include <sys/wait.h>

static uint64_t *memory;

static void *survivor(void *main_thread)
{
    pthread_join(*(pthread_t *)main_thread, NULL);
    for (unsigned round = 0; round < 3; round++) {
        verify(memory, PAGES, 1);
        /* No page need be paged out: process_madvise(2) does not find a process whose first thread has
         * ended. */
        leaves_share("the rest's", memory, PAGES, 0);
        sleep_us(200000);
    }
    say("done");
    exit(0);
}

/* A process goes on after its first thread has ended. /proc then shows a zombie without memory, though the
 * other threads still use the memory. */
void scenario_main_first(void)
{
    static pthread_t self;
    pthread_t thread;
    self = pthread_self();
    memory = filled(PAGES, 1);
    pthread_create(&thread, NULL, survivor, &self);
    leaves("before", memory, PAGES);
    pthread_exit(NULL);
}

#define EACH (PAGES / 16)

static void *one_of_many(void *argument)
{
    uint64_t number = (uint64_t)(uintptr_t)argument;
    uint64_t *own = memory + number * EACH * WORDS;
    fill(own, EACH, number);
    for (unsigned round = 0; round < 3; round++) {
        leaves("a thread's", own, EACH);
        verify(own, EACH, number);
    }
    return NULL;
}

void scenario_threads64(void)
{
    pthread_t threads[64];
    memory = map_anon(64 * EACH * PAGE);
    for (uintptr_t i = 0; i < 64; i++)
        if (pthread_create(&threads[i], NULL, one_of_many, (void *)i) != 0)
            FAIL(97, "pthread_create");
    for (unsigned i = 0; i < 64; i++)
        pthread_join(threads[i], NULL);
    leaves("all", memory, 64 * EACH);
    for (size_t i = 0; i < 64; i++)
        verify(memory + i * EACH * WORDS, EACH, i);
}

static int other_process(void *argument)
{
    (void)argument;
    verify(memory, PAGES, 1);
    fill(memory, PAGES, 2);
    return 0;
}

/* Two processes with one address space. */
void scenario_clone_vm(void)
{
    memory = filled(PAGES, 1);
    char *stack = map_anon(256 * PAGE);
    leaves("before", memory, PAGES);
    pid_t pid = clone(other_process, stack + 256 * PAGE, CLONE_VM | SIGCHLD, NULL);
    reap(pid);
    leaves("after", memory, PAGES);
    verify(memory, PAGES, 2);
}

static pthread_mutex_t *mutex_in(uint64_t *page, int robust, int protocol)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, robust);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    pthread_mutex_init((pthread_mutex_t *)page, &attributes);
    return (pthread_mutex_t *)page;
}

static void *dies_with_it(void *mutex)
{
    pthread_mutex_lock(mutex);
    leaves("while it is held", memory, PAGES);
    return NULL;
}

/* When a thread dies, the kernel walks the list of its robust mutexes, which are paged out. */
void scenario_robust(void)
{
    memory = filled(PAGES, 1);
    uint64_t *shared = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fill(shared, PAGES, 2);
    pthread_mutex_t *own = mutex_in(memory, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
    pthread_mutex_t *theirs = mutex_in(shared, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_INHERIT);
    pthread_t thread;
    pthread_create(&thread, NULL, dies_with_it, own);
    pthread_join(thread, NULL);
    say("a thread died: %s", strerrorname_np(pthread_mutex_lock(own)));
    say("consistent: %d", pthread_mutex_consistent(own));
    say("unlocked: %d", pthread_mutex_unlock(own));
    pid_t pid = child();
    if (pid == 0) {
        pthread_mutex_lock(theirs);
        leaves_shared("a process holds it", shared, PAGES);
        _exit(0);
    }
    reap(pid);
    say("a process died: %s", strerrorname_np(pthread_mutex_lock(theirs)));
    for (size_t page = 1; page < PAGES; page++)
        page_check(memory + page * WORDS, page, 1);
}

static void *counts(void *mutex)
{
    for (unsigned i = 0; i < 6; i++) {
        pthread_mutex_lock(mutex);
        memory[WORDS]++;
        leaves_share("while it is contended", memory + 2 * WORDS, PAGES - 2, 90);
        pthread_mutex_unlock(mutex);
        sched_yield();
    }
    return NULL;
}

/* A mutex with priority inheritance: the kernel itself reads and writes the mutex. */
void scenario_inherit(void)
{
    memory = filled(PAGES, 1);
    memory[WORDS] = 0;
    pthread_mutex_t *mutex = mutex_in(memory, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT);
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, counts, mutex);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    say("counted: %lu", (unsigned long)memory[WORDS]);
    for (size_t page = 2; page < PAGES; page++)
        page_check(memory + page * WORDS, page, 1);
}

static void *knows_its_cpu(void *argument)
{
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    unsigned wrong = 0;
    (void)argument;
    for (unsigned round = 0; round < 4; round++) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(round % 2, &one);
        /* On a machine with one processor every second call fails, also in the unmanaged run. */
        if (sched_setaffinity(0, sizeof one, &one) != 0)
            say("processor %u: %s", round % 2, strerrorname_np(errno));
        leaves_share("beside the area", memory, PAGES, 90);
        wrong += __atomic_load_n(&area->cpu_id, __ATOMIC_RELAXED) != (unsigned)sched_getcpu();
    }
    say("wrong processors: %u", wrong);
    return NULL;
}

/* rseq: when a thread resumes, the kernel writes the processor's number to the thread's memory, also if
 * this memory is paged out. */
void scenario_rseq(void)
{
    pthread_t thread;
    memory = filled(PAGES, 1);
    say("rseq: %u", __rseq_size);
    pthread_create(&thread, NULL, knows_its_cpu, NULL);
    pthread_join(thread, NULL);
    verify(memory, PAGES, 1);
}

static volatile sig_atomic_t handled;

static void handler(int signal)
{
    (void)signal;
    handled++;
}

/* The kernel delivers a signal on an alternate stack that is paged out. */
void scenario_altstack(void)
{
    memory = filled(PAGES, 1);
    stack_t stack = {.ss_sp = memory, .ss_size = PAGES / 2 * PAGE};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    tell("sigaltstack", sigaltstack(&stack, NULL));
    sigaction(SIGUSR1, &action, NULL);
    for (unsigned round = 0; round < 4; round++) {
        leaves("the stack", memory, PAGES / 2);
        raise(SIGUSR1);
    }
    say("handled: %d", (int)handled);
    for (size_t page = 0; page < PAGES; page++)
        if (page < PAGES / 2 - 32 || page >= PAGES / 2)
            page_check(memory + page * WORDS, page, 1);
}
