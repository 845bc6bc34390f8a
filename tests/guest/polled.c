/* Waits for a file to say that it has changed, as files of control groups do.
 *
 *   polled FILE SECONDS
 *
 * Prints `ready` when it has read it, then `woken` as soon as it has changed, or `nothing` after so long. */
#include "../programs/common.h"

#include <fcntl.h>
#include <poll.h>

int main(int argc, char **argv)
{
    char text[4096];
    if (argc != 3)
        FAIL(2, "usage: polled FILE SECONDS");
    int fd = open(argv[1], O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof text) < 0)
        FAIL(97, "%s: %s", argv[1], strerror(errno));
    struct pollfd one = {.fd = fd, .events = POLLPRI};
    puts("ready");
    fflush(stdout);
    int woken = poll(&one, 1, atoi(argv[2]) * 1000);
    if (woken < 0)
        FAIL(97, "poll: %s", strerror(errno));
    puts(woken ? "woken" : "nothing");
    return 0;
}
