/* One system call, and its errno, which a shell does not tell: `0` where it is done.
 *
 *   errno write FILE TEXT | read FILE | mkdir DIR | rmdir DIR | unlink FILE | rename FROM TO | chmod FILE
 *
 * What is written ends with a line break, and `-` is nothing but that. */
#include "../programs/common.h"

#include <fcntl.h>
#include <sys/stat.h>

static int is(const char *one, const char *other)
{
    return strcmp(one, other) == 0;
}

static long done(const char *what, const char *at, const char *text)
{
    char all[4096];
    if (is(what, "mkdir"))
        return mkdir(at, 0755);
    if (is(what, "rmdir"))
        return rmdir(at);
    if (is(what, "unlink"))
        return unlink(at);
    if (is(what, "rename"))
        return rename(at, text);
    if (is(what, "chmod"))
        return chmod(at, 0777);
    int writes = is(what, "write");
    int fd = open(at, writes ? O_WRONLY : O_RDONLY);
    if (fd < 0)
        return -1;
    if (!writes)
        return read(fd, all, sizeof all);
    int length = snprintf(all, sizeof all, "%s\n", is(text, "-") ? "" : text);
    return write(fd, all, (size_t)length);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        FAIL(2, "usage: errno write|read|mkdir|rmdir|unlink|rename|chmod FILE [TEXT]");
    printf("%d\n", done(argv[1], argv[2], argc > 3 ? argv[3] : "") < 0 ? errno : 0);
    return 0;
}
