/* Whether the kernel takes and runs programs of BPF: a map, a program of no privilege that is run, and
 * one that may look into the kernel. Prints what failed and ends with 1, or ends with 0. */
#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* r0 = 42; exit */
static const struct bpf_insn answer[] = {
    {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 42},
    {.code = BPF_JMP | BPF_EXIT},
};

static int bpf(int command, union bpf_attr *attr)
{
    return (int)syscall(SYS_bpf, command, attr, sizeof *attr);
}

static int fail(const char *what)
{
    printf("%s: %s\n", what, strerror(errno));
    return 1;
}

static int load(enum bpf_prog_type type)
{
    union bpf_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.prog_type = type;
    attr.insns = (uint64_t)(uintptr_t)answer;
    attr.insn_cnt = sizeof answer / sizeof *answer;
    attr.license = (uint64_t)(uintptr_t) "GPL";
    return bpf(BPF_PROG_LOAD, &attr);
}

int main(void)
{
    union bpf_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.map_type = BPF_MAP_TYPE_ARRAY;
    attr.key_size = attr.value_size = 4;
    attr.max_entries = 1;
    if (bpf(BPF_MAP_CREATE, &attr) < 0)
        return fail("a map");
    if (load(BPF_PROG_TYPE_KPROBE) < 0)
        return fail("a program for kprobes");
    int filter = load(BPF_PROG_TYPE_SOCKET_FILTER);
    if (filter < 0)
        return fail("a socket filter");
    char packet[64] = {0};
    memset(&attr, 0, sizeof attr);
    attr.test.prog_fd = (uint32_t)filter;
    attr.test.data_in = (uint64_t)(uintptr_t)packet;
    attr.test.data_size_in = sizeof packet;
    if (bpf(BPF_PROG_TEST_RUN, &attr) < 0)
        return fail("a run");
    if (attr.test.retval != 42) {
        printf("a run gave %u, not 42\n", attr.test.retval);
        return 1;
    }
    return 0;
}
