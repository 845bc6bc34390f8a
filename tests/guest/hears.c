/* A service manager's end of NOTIFY_SOCKET.
 *
 *   hears SOCKET SECONDS
 *
 * Prints `ready` when it listens, and for so long each line of what it is told. */
#include "../programs/common.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

int main(int argc, char **argv)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (argc != 3 || strlen(argv[1]) >= sizeof at.sun_path)
        FAIL(2, "usage: hears SOCKET SECONDS");
    strcpy(at.sun_path, argv[1]);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at))
        FAIL(97, "%s: %s", argv[1], strerror(errno));
    struct timeval second = {.tv_sec = 1};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second))
        FAIL(97, "a limit: %s", strerror(errno));
    puts("ready");
    for (uint64_t end = now_ns() + (uint64_t)atoi(argv[2]) * 1000000000; now_ns() < end;) {
        char text[4096];
        fflush(stdout);
        ssize_t length = recv(fd, text, sizeof text - 1, 0);
        if (length > 0)
            printf("%.*s\n", (int)length, text);
    }
    return 0;
}
