/* Hot memory beside page cache: the program touches all of its memory once a second, while it reads a file
 * again and again by read(2).
 *
 *   cached MIB SECONDS FILE
 *
 * The program ends when SECONDS are over and all of the file was read at least once, however slow the disk
 * is. At the end it prints `read MIB`, and `swapped KIB`: the highest VmSwap, which is read before each
 * pass over the memory. */
#include "schedule.h"

#include <fcntl.h>

static const char usage[] = "usage: cached MIB SECONDS FILE";

static uint64_t swapped(void)
{
    char line[200];
    unsigned long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "VmSwap: %lu", &kib);
    if (status)
        fclose(status);
    return kib;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        FAIL(2, "%s", usage);
    uint64_t pages = number(argv[1], 1, 1 << 20, usage) * MIB / PAGE;
    uint64_t seconds = number(argv[2], 1, 1000000, usage), most = 0, bytes = 0;
    uint64_t *memory = map_anon(pages * PAGE);
    for (uint64_t page = 0; page < pages; page++)
        page_fill(memory + page * WORDS, page, 1);
    int file = open(argv[3], O_RDONLY);
    char *buffer = malloc(MIB);
    if (file < 0 || !buffer)
        FAIL(97, "%s: %s", argv[3], strerror(errno));
    off_t size = lseek(file, 0, SEEK_END);
    lseek(file, 0, SEEK_SET);
    uint64_t begin = now_ns(), pass = 0;
    while (now_ns() < begin + seconds * SECOND || bytes < (uint64_t)size) {
        if (now_ns() >= begin + pass * SECOND) {
            pass++;
            most = swapped() > most ? swapped() : most;
            for (uint64_t page = 0; page < pages; page++)
                page_check(memory + page * WORDS, page, 1);
        }
        ssize_t got = read(file, buffer, MIB);
        if (got < 0)
            FAIL(97, "%s: %s", argv[3], strerror(errno));
        if (got == 0)
            lseek(file, 0, SEEK_SET);
        else
            bytes += got;
    }
    printf("read %lu swapped %lu\n", (unsigned long)(bytes / MIB), (unsigned long)most);
    return 0;
}
