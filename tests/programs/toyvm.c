/* A small virtual machine. Only its guest accesses the memory, and the host's page tables show these
 * accesses only as far as the kernel copies them there.
 *
 *   toyvm MIB SECONDS [--memfd] [--long]
 *
 * Fills MIB of memory (anonymous, or a shared memfd), makes it a memory slot of a VM of /dev/kvm, and then
 * never touches it again. The guest adds 1 to a word of each page, ten times a second: in real mode with
 * wide segments; or in long mode with page tables of its own, if KVM refuses real mode or --long is given.
 * If KVM emulates a mode, the guest's accesses go through the page tables of the process. Prints
 *   ready pid=P start=0x... pages=N
 *   vm ran=1 mode=real|long                    after the first pass, or
 *   vm ran=0 errno=E exit=R                    if neither mode runs (then VM, slot and vCPU still exist)
 *   done passes=N last_begin=NS last_end=NS    at the end: of the last whole pass (CLOCK_MONOTONIC)
 * exit is KVM's exit reason, 0 if the call itself failed. */
#include "schedule.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#define DATA 0x40000000u  /* where the guest sees its memory */
#define CODE 0x1000u      /* the other slot, of 64 KiB at 0: code and, from 0x2000, tables */
#define SMALL (64 << 10)
#define PORT 0x10         /* an out here ends a pass */

static const char usage[] = "usage: toyvm MIB SECONDS [--memfd] [--long]    (MIB to 2047)";

/* Guest code in real mode. It adds 1 to a word of each of esi pages, from the address edi on. ebx and ecx
 * hold the first address and the number of pages. */
static const uint8_t real_code[] = {
    0x66, 0x89, 0xdf,                         /* mov edi, ebx */
    0x66, 0x89, 0xce,                         /* mov esi, ecx */
    0x67, 0x66, 0xff, 0x07,                   /* inc dword [edi] */
    0x66, 0x81, 0xc7, 0x00, 0x10, 0x00, 0x00, /* add edi, 4096 */
    0x66, 0x4e,                               /* dec esi */
    0x75, 0xf1,                               /* jnz, 15 back */
    0xe6, PORT,                               /* out PORT, al */
    0xeb, 0xe7,                               /* jmp, 25 back */
};
static const uint8_t long_code[] = {
    0x48, 0x89, 0xdf,                         /* mov rdi, rbx */
    0x48, 0x89, 0xce,                         /* mov rsi, rcx */
    0xff, 0x07,                               /* inc dword [rdi] */
    0x48, 0x81, 0xc7, 0x00, 0x10, 0x00, 0x00, /* add rdi, 4096 */
    0x48, 0xff, 0xce,                         /* dec rsi */
    0x75, 0xf2,                               /* jnz, 14 back */
    0xe6, PORT,                               /* out PORT, al */
    0xeb, 0xe8,                               /* jmp, 24 back */
};

static int kvm, vm, vcpu = -1;
static struct kvm_run *run;
static uint8_t *small;
static uint64_t pages;
static struct { int errno_of, exit; } refused;

static int call(int fd, unsigned long request, void *argument, const char *what)
{
    int result = ioctl(fd, request, argument);
    if (result < 0)
        FAIL(97, "toyvm: %s: %s", what, strerror(errno));
    return result;
}

static void *map_data(size_t bytes, int memfd)
{
    if (!memfd)
        return map_anon(bytes);
    int fd = memfd_create("toyvm", MFD_CLOEXEC);
    void *at = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        FAIL(97, "toyvm: memfd: %s", strerror(errno));
    close(fd);
    return at;
}

static void slot(uint32_t number, uint64_t guest, uint64_t bytes, void *at)
{
    struct kvm_userspace_memory_region region = {number, 0, guest, bytes, (uint64_t)(uintptr_t)at};
    call(vm, KVM_SET_USER_MEMORY_REGION, &region, "KVM_SET_USER_MEMORY_REGION");
}

static void make_vm(void *data)
{
    kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (kvm < 0)
        FAIL(97, "toyvm: /dev/kvm: %s", strerror(errno));
    vm = call(kvm, KVM_CREATE_VM, NULL, "KVM_CREATE_VM");
    ioctl(vm, KVM_SET_TSS_ADDR, 0xfffbd000ul); /* only some processors need it */
    small = map_anon(SMALL);
    slot(0, 0, SMALL, small);
    slot(1, DATA, pages * PAGE, data);
}

/* Makes a new vCPU for each mode, because a vCPU that KVM refused to run may be in any state. */
static void make_vcpu(unsigned long number)
{
    vcpu = call(vm, KVM_CREATE_VCPU, (void *)number, "KVM_CREATE_VCPU");
    int bytes = call(kvm, KVM_GET_VCPU_MMAP_SIZE, NULL, "KVM_GET_VCPU_MMAP_SIZE");
    run = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
    if (run == MAP_FAILED)
        FAIL(97, "toyvm: mmap of the vCPU: %s", strerror(errno));
}

static void set_features(void)
{
    struct kvm_cpuid2 *features = calloc(1, sizeof *features + 256 * sizeof(struct kvm_cpuid_entry2));
    if (!features)
        FAIL(97, "toyvm: no memory");
    features->nent = 256;
    if (ioctl(kvm, KVM_GET_SUPPORTED_CPUID, features) == 0)
        ioctl(vcpu, KVM_SET_CPUID2, features);
    free(features);
}

static void wide(struct kvm_segment *segment, int code)
{
    segment->base = 0;
    segment->limit = 0xffffffff;
    segment->g = 1;
    segment->present = segment->s = 1;
    segment->type = code ? 11 : 3;
}

/* Makes the guest's page tables: they map the first 4 GiB to themselves, in pages of 2 MiB. */
static void make_tables(void)
{
    uint64_t *top = (uint64_t *)(small + 0x2000), *upper = top + 512, *lower = upper + 512;
    top[0] = 0x3000 | 3;
    for (uint64_t i = 0; i < 4; i++)
        upper[i] = (0x4000 + i * PAGE) | 3;
    for (uint64_t i = 0; i < 2048; i++)
        lower[i] = i << 21 | 0x83;
}

static int prepare(int in_long_mode)
{
    struct kvm_sregs special;
    struct kvm_regs registers = {.rip = CODE, .rflags = 2, .rbx = DATA, .rcx = pages, .rsp = 0x1000};
    call(vcpu, KVM_GET_SREGS, &special, "KVM_GET_SREGS");
    special.cs.selector = 0;
    wide(&special.cs, 1);
    wide(&special.ds, 0);
    wide(&special.es, 0);
    wide(&special.ss, 0);
    if (in_long_mode) {
        set_features();
        make_tables();
        memcpy(small + CODE, long_code, sizeof long_code);
        special.cs.l = 1;
        special.cs.selector = 8;
        special.ds.selector = special.es.selector = special.ss.selector = 16;
        special.cr0 = 0x80010033;
        special.cr3 = 0x2000;
        special.cr4 = 0x20;
        special.efer = 0x500;
    } else {
        memcpy(small + CODE, real_code, sizeof real_code);
    }
    if (ioctl(vcpu, KVM_SET_SREGS, &special) != 0 || ioctl(vcpu, KVM_SET_REGS, &registers) != 0) {
        refused.errno_of = errno;
        return -1;
    }
    return 0;
}

/* Runs one pass of the guest. Returns 1 if the pass is complete, 0 if the time is over, -1 if KVM refuses
 * the mode. The alarm interrupts a guest whose pass never ends. */
static int pass(uint64_t until)
{
    while (now_ns() < until) {
        if (ioctl(vcpu, KVM_RUN, NULL) != 0) {
            if (errno == EINTR || errno == EAGAIN)
                continue;
            refused.errno_of = errno;
            refused.exit = 0;
            return -1;
        }
        if (run->exit_reason == KVM_EXIT_IO && run->io.port == PORT)
            return 1;
        if (run->exit_reason != KVM_EXIT_INTR) {
            refused.errno_of = 0;
            refused.exit = (int)run->exit_reason;
            return -1;
        }
    }
    return 0;
}

static void on_alarm(int number)
{
    (void)number;
}

/* Runs ten passes a second until the time is over or KVM refuses the mode; returns the number of passes. */
static uint64_t passes_in(const char *mode, uint64_t until)
{
    uint64_t passes = 0, first = 0, last = 0, due = now_ns();
    int state = prepare(mode[0] == 'l');
    while (state >= 0) {
        uint64_t begin = now_ns();
        if ((state = pass(until)) <= 0)
            break;
        first = begin;
        last = now_ns();
        if (passes++ == 0)
            printf("vm ran=1 mode=%s\n", mode);
        for (due += SECOND / 10; due < last;)
            due += SECOND / 10;
        sleep_until(due < until ? due : until);
    }
    if (passes && state < 0)
        FAIL(99, "toyvm: stopped after %lu passes: errno=%d exit=%d", (unsigned long)passes,
             refused.errno_of, refused.exit);
    if (passes)
        printf("done passes=%lu last_begin=%lu last_end=%lu\n", (unsigned long)passes,
               (unsigned long)first, (unsigned long)last);
    else
        fprintf(stderr, "toyvm: %s mode does not run here: errno=%d exit=%d\n", mode, refused.errno_of,
                refused.exit);
    return passes;
}

/* The alarm interrupts a guest whose pass never ends. */
static void set_alarm(void)
{
    struct sigaction interrupt = {.sa_handler = on_alarm};
    struct itimerval often = {{0, 100000}, {0, 100000}};
    sigaction(SIGALRM, &interrupt, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

int main(int argc, char **argv)
{
    int memfd = 0, only_long = 0;
    if (argc < 3)
        FAIL(2, "%s", usage);
    for (int i = 3; i < argc; i++) {
        memfd |= strcmp(argv[i], "--memfd") == 0;
        only_long |= strcmp(argv[i], "--long") == 0;
        if (strcmp(argv[i], "--memfd") != 0 && strcmp(argv[i], "--long") != 0)
            FAIL(2, "%s", usage);
    }
    pages = number(argv[1], 1, 2047, usage) * MIB / PAGE;
    uint64_t seconds = number(argv[2], 1, 1000000, usage), passes = 0;
    uint64_t *data = map_data(pages * PAGE, memfd);
    for (uint64_t page = 0; page < pages; page++)
        page_fill(data + page * WORDS, page, 1);
    make_vm(data);
    make_vcpu(0);
    set_alarm();
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready pid=%d start=%#lx pages=%lu\n", (int)getpid(), (unsigned long)data, (unsigned long)pages);
    uint64_t until = now_ns() + seconds * SECOND;
    if (!only_long)
        passes = passes_in("real", until);
    if (passes == 0 && now_ns() < until) {
        if (!only_long)
            make_vcpu(1);
        passes = passes_in("long", until);
    }
    if (passes == 0) {
        printf("vm ran=0 errno=%d exit=%d\n", refused.errno_of, refused.exit);
        sleep_until(until);
        printf("done passes=0 last_begin=0 last_end=0\n");
    }
    return 0;
}
