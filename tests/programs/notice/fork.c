/* Scenarios with children: many children, long-lived children, and children for which no process waits. */
#include "notice.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

static int truth(void)
{
    char *const argv[] = {"true", NULL}, *const env[] = {NULL};
    pid_t pid;
    int error = posix_spawnp(&pid, "true", NULL, NULL, argv, env);
    if (error == 0)
        reap(pid);
    return error;
}

static void vfork_truth(void)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execlp("true", "true", (char *)NULL);
        _exit(1);
    }
    reap(pid);
}

/* Each child reads some paged-out pages, changes some, and ends at once. */
void scenario_fork_storm(void)
{
    uint64_t *at = filled(PAGES, 1);
    for (uint64_t round = 0; round < 4; round++) {
        leaves("the parent's", at, PAGES);
        for (uint64_t i = 0; i < 100; i++) {
            pid_t pid = child();
            if (pid == 0) {
                for (size_t page = i; page < PAGES; page += 64)
                    page_check(at + page * WORDS, page, 1);
                fill(at, 8, i + 2);
                verify(at, 8, i + 2);
                _exit(0);
            }
            reap(pid);
        }
        verify(at, PAGES, 1);
    }
}

/* The child of a vfork(2) runs in its parent's memory, which is paged out; posix_spawn(3) does the same. */
void scenario_vfork_storm(void)
{
    uint64_t *at = filled(PAGES, 1);
    for (uint64_t round = 0; round < 3; round++) {
        leaves("the parent's", at, PAGES);
        for (uint64_t i = 0; i < 60; i++) {
            vfork_truth();
            if (truth() != 0)
                FAIL(97, "posix_spawnp");
        }
        verify(at, PAGES, 1);
    }
}

static void worker(uint64_t *shared, uint64_t number)
{
    uint64_t *own = filled(PAGES / 4, number);
    fill(shared, PAGES / 8, number);
    for (unsigned round = 0; round < 4; round++) {
        leaves("a worker's own", own, PAGES / 4);
        leaves("a worker's copies", shared, PAGES / 8);
        verify(own, PAGES / 4, number);
        verify(shared, PAGES / 8, number);
        for (size_t page = PAGES / 8; page < PAGES; page++)
            page_check(shared + page * WORDS, page, 1);
    }
    _exit(0);
}

/* A pre-fork server: workers share the parent's pages, and have copies of the pages that they wrote. */
void scenario_prefork(void)
{
    uint64_t *shared = filled(PAGES, 1);
    pid_t workers[6];
    leaves("before the fork", shared, PAGES);
    for (uint64_t i = 0; i < 6; i++)
        if ((workers[i] = child()) == 0)
            worker(shared, i + 10);
    for (unsigned i = 0; i < 6; i++)
        reap(workers[i]);
    leaves("after the workers", shared, PAGES);
    verify(shared, PAGES, 1);
}

/* Parent, child and grandchild in turn write and read pages that they had shared. */
void scenario_cow_tree(void)
{
    uint64_t *at = filled(PAGES, 1);
    leaves("the first's", at, PAGES);
    pid_t pid = child();
    if (pid == 0) {
        fill(at, PAGES / 2, 2);
        leaves("the child's copies", at, PAGES / 2);
        pid_t grandchild = child();
        if (grandchild == 0) {
            verify(at, PAGES / 2, 2);
            fill(at, PAGES, 3);
            leaves("the grandchild's", at, PAGES);
            verify(at, PAGES, 3);
            _exit(0);
        }
        fill(at, PAGES / 4, 4);
        reap(grandchild);
        verify(at, PAGES / 4, 4);
        for (size_t page = PAGES / 4; page < PAGES; page++)
            page_check(at + page * WORDS, page, page < PAGES / 2 ? 2 : 1);
        _exit(0);
    }
    verify(at, PAGES / 3, 1);
    reap(pid);
    leaves("the first's again", at, PAGES);
    verify(at, PAGES, 1);
}

/* Forks twice, in a session of its own, as daemons do: the process that it starts outlives the program. */
void scenario_daemon(void)
{
    int ends[2];
    char word[8] = "";
    channel(ends);
    pid_t pid = child();
    if (pid == 0) {
        setsid();
        if (child() != 0)
            _exit(0);
        uint64_t *at = filled(PAGES, 1);
        for (unsigned round = 0; round < 3; round++) {
            leaves("a daemon's", at, PAGES);
            verify(at, PAGES, 1);
        }
        _exit(write(ends[1], "right", 6) == 6 ? 0 : 1);
    }
    reap(pid);
    close(ends[1]);
    tell("told", read(ends[0], word, sizeof word));
    say("the daemon was %s", word);
}
