/* Reads a mapped file from its beginning to its end, again and again, 2 MiB each 20 ms, with an advice for
 * the file.
 *
 *   stream FILE none|sequential|random|noreuse
 *
 * Prints `ready` when the file is mapped, and `read` each time that the end is reached. */
#include "common.h"

#include <fcntl.h>
#include <sys/stat.h>

#define PIECE (2 * MIB)

static int advice(const char *word)
{
    if (strcmp(word, "none") == 0)
        return MADV_NORMAL;
    if (strcmp(word, "sequential") == 0)
        return MADV_SEQUENTIAL;
    if (strcmp(word, "random") == 0)
        return MADV_RANDOM;
    if (strcmp(word, "noreuse") == 0)
        return MADV_NORMAL;
    FAIL(2, "%s is neither none, sequential, random nor noreuse", word);
}

int main(int argc, char **argv)
{
    static volatile char sum;
    struct stat file;
    if (argc != 3)
        FAIL(2, "usage: stream FILE none|sequential|random|noreuse");
    int fd = open(argv[1], O_RDONLY);
    if (fd < 0 || fstat(fd, &file) != 0)
        FAIL(97, "%s: %s", argv[1], strerror(errno));
    size_t length = (size_t)file.st_size;
    const volatile char *at = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED || madvise((void *)at, length, advice(argv[2])) != 0)
        FAIL(97, "%s cannot be mapped: %s", argv[1], strerror(errno));
    if (strcmp(argv[2], "noreuse") == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_NOREUSE) != 0)
        FAIL(97, "%s: no advice", argv[1]);
    for (const char *word = "ready";; word = "read") {
        puts(word);
        fflush(stdout);
        for (size_t page = 0; page < length; page += PAGE) {
            sum += at[page];
            if (page % PIECE == 0)
                sleep_us(20000);
        }
    }
}
