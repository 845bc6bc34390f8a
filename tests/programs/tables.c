// Touches one page in each STRIDE KiB of its memory, PAGES of them, twice a second until it is killed. With a stride of 2048
// each page has a page table of its own.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: tables PAGES STRIDE_KIB\n");
        return 2;
    }
    size_t pages = strtoul(argv[1], NULL, 10);
    size_t stride = strtoul(argv[2], NULL, 10) << 10;
    char *memory = mmap(NULL, pages * stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || madvise(memory, pages * stride, MADV_NOHUGEPAGE) != 0) {
        perror("mmap");
        return 1;
    }
    for (;;) {
        for (size_t page = 0; page < pages; page++)
            memory[page * stride]++;
        usleep(500000);
    }
}
