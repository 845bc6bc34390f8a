/* A process whose seccomp filter forbids what a keeper needs, busy on a little memory.
 *
 *   seccomp [--seconds 60] */
#include "common.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int main(int argc, char **argv)
{
    /* userfaultfd and ioctl: EPERM. Everything else passes. */
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    uint64_t end = now_ns() + option(argc, argv, "--seconds", 60) * 1000000000u;
    uint64_t *memory = map_anon(16 * MIB);
    for (size_t page = 0; page < 16 * MIB / PAGE; page++)
        page_fill(memory + page * WORDS, page, 1);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        FAIL(97, "seccomp: %s", strerror(errno));
    dprintf(1, "ready\n");
    while (now_ns() < end) {
        for (size_t page = 0; page < 16 * MIB / PAGE; page++)
            page_check(memory + page * WORDS, page, 1);
        sleep_us(20000);
    }
    return 0;
}
