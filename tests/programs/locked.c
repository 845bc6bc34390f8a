/* Processes that hold a lock of their memory for as long as a file server does not answer.
 *
 *     locked KIND SECONDS [COUNT]
 *
 * KIND is the system call in which each of COUNT processes waits:
 *   mmap       mmap(2) of a file opened for direct access: holds mmap_lock for writing
 *   munmap     munmap(2) of a dirty page of a shared file: holds mmap_lock for reading
 *   exec       execve(2) that closes a file: holds exec_update_lock
 *
 * The program itself starts the file server, a FUSE server, in a mount namespace of its own; this needs
 * root. When all processes wait, it prints their pids in a line. A line on standard input makes the program
 * kill the file server: then all processes go on, and they live until standard input ends or SECONDS are
 * over. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEAP (16 << 20)

static int device;
/* Descriptor of the file, opened for direct access. The file is opened before the reading process starts,
 * because open(2) waits for the file's pages as mmap(2) does. */
static int direct;
static const char *kind;
static char where[] = "/tmp/pagetide-locked-XXXXXX";

static int is(const char *name) { return !strcmp(kind, name); }

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void die_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }

static void answer(uint64_t request, int error, const void *body, size_t length) {
    char message[4096];
    struct fuse_out_header *header = (void *)message;
    header->len = sizeof *header + length;
    header->error = -error;
    header->unique = request;
    if (length)
        memcpy(header + 1, body, length);
    if (write(device, message, header->len) < 0 && errno != ENOENT)
        fail("answer");
}

static struct fuse_attr attributes(uint64_t node) {
    struct fuse_attr attr = {.ino = node, .nlink = 1, .blksize = 4096};
    attr.mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0666;
    if (node != 1) {
        attr.size = 1 << 20;
        attr.blocks = 2048;
    }
    return attr;
}

/* The FUSE server. It answers all requests except the one for which the processes of this kind must wait. */
static void serve(void) {
    static char buffer[1 << 20];
    static char page[2048];
    int opens = 0;
    for (;;) {
        if (read(device, buffer, sizeof buffer) < 0) {
            if (errno == EINTR)
                continue;
            return;
        }
        struct fuse_in_header *in = (void *)buffer;
        void *body = in + 1;
        struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 65536, .max_readahead = 0};
        /* The name of a file is a number, from which its inode number follows. */
        uint64_t node = in->opcode == FUSE_LOOKUP ? 2 + atoi(body) : 2;
        struct fuse_entry_out entry = {.nodeid = node, .attr_valid = 1000, .entry_valid = 1000, .attr = attributes(node)};
        struct fuse_attr_out attr = {.attr_valid = 1000, .attr = attributes(in->nodeid)};
        struct fuse_open_out open = {.fh = 1};
        switch (in->opcode) {
        case FUSE_INIT:
            if (((struct fuse_init_in *)body)->minor < init.minor)
                init.minor = ((struct fuse_init_in *)body)->minor;
            answer(in->unique, 0, &init, sizeof init);
            break;
        case FUSE_LOOKUP:
            answer(in->unique, 0, &entry, sizeof entry);
            break;
        case FUSE_GETATTR:
        case FUSE_SETATTR:
            answer(in->unique, 0, &attr, sizeof attr);
            break;
        case FUSE_OPEN:
            /* The first open is that of the reading process, whose read never ends. The next opens are
             * those of the processes that wait for this page. */
            open.open_flags = is("mmap") && opens++ ? FOPEN_DIRECT_IO : FOPEN_KEEP_CACHE;
            answer(in->unique, 0, &open, sizeof open);
            break;
        case FUSE_READ:
            if (is("munmap"))
                answer(in->unique, 0, page, sizeof page);
            break;
        case FUSE_WRITE:
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT:
            break;
        case FUSE_FLUSH:
            if (!is("exec"))
                answer(in->unique, 0, 0, 0);
            break;
        case FUSE_RELEASE:
            answer(in->unique, 0, 0, 0);
            break;
        default:
            answer(in->unique, ENOSYS, 0, 0);
        }
    }
}

static void mount_files(void) {
    char options[128];
    /* In a namespace of its own, so that no other process of the machine sees the mount. */
    if (unshare(CLONE_NEWNS) || mount("none", "/", 0, MS_REC | MS_PRIVATE, 0))
        fail("unshare");
    if (!mkdtemp(where))
        fail("mkdtemp");
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0)
        fail("/dev/fuse");
    sprintf(options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device);
    if (mount("locked", where, "fuse", MS_NOSUID | MS_NODEV, options))
        fail("mount");
}

static int open_file(int number, int flags) {
    char path[64];
    sprintf(path, "%s/%d", where, number);
    int file = open(path, flags);
    if (file < 0)
        fail(path);
    return file;
}

/* Touches a part of the heap again and again, so that the pages of the process have different ages. */
static void *work(void *heap) {
    for (;;) {
        for (int at = 0; at < HEAP / 4; at += 4096)
            ((volatile char *)heap)[at]++;
        usleep(10000);
    }
    return 0;
}

/* Waits for the file server in the chosen call. All processes that wait in mmap(2) wait for the same page
 * of the same file. */
static void wait_for_server(int number) {
    int file = is("mmap") ? direct : open_file(number, (is("munmap") ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (is("mmap")) {
        if (mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED)
            perror("mmap");
    } else if (is("munmap")) {
        char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (page == MAP_FAILED)
            fail("mmap");
        page[0] = 1;
        munmap(page, 4096);
    } else {
        execl("/bin/sleep", "sleep", "1000", (char *)0);
        fail("exec");
    }
}

static void be_locked(int number) {
    pthread_t thread;
    die_with_parent();
    char *heap = mmap(0, HEAP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(heap, 1, HEAP);
    if (!is("exec"))
        pthread_create(&thread, 0, work, heap);
    wait_for_server(number);
    for (;;)
        pause();
}

/* Starts a process that waits for a page of the file, and keeps this page locked meanwhile. */
static void read_for_ever(void) {
    char byte;
    int cached = open_file(0, O_RDONLY);
    direct = open_file(0, O_RDONLY);
    if (!fork()) {
        die_with_parent();
        _exit(pread(cached, &byte, 1, 0) < 0);
    }
    usleep(200000);
}

int main(int argc, char **argv) {
    kind = argc > 2 ? strdup(argv[1]) : "";
    if (!is("mmap") && !is("munmap") && !is("exec")) {
        fprintf(stderr, "usage: locked mmap|munmap|exec SECONDS [COUNT]\n");
        return 2;
    }
    int seconds = atoi(argv[2]), count = argc > 3 ? atoi(argv[3]) : 1;
    mount_files();
    pid_t server = fork();
    if (!server) {
        die_with_parent();
        serve();
        _exit(0);
    }
    close(device);
    if (is("mmap"))
        read_for_ever();
    pid_t *all = calloc(count, sizeof *all);
    for (int i = 0; i < count; i++)
        if (!(all[i] = fork()))
            be_locked(i);
    usleep(300000 + count * 10000);
    for (int i = 0; i < count; i++)
        printf("%d%c", all[i], i + 1 < count ? ' ' : '\n');
    fflush(stdout);
    char line[16];
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (poll(&input, 1, seconds * 1000) == 1 && read(0, line, sizeof line) > 0)
        kill(server, SIGKILL);
    kill(server, SIGKILL);
    for (int i = 0; i < count; i++)
        kill(all[i], SIGKILL);
    while (wait(0) > 0)
        ;
    umount2(where, MNT_DETACH);
    rmdir(where);
    return 0;
}
