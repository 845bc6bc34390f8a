/* Prints the output that is compared with that of the unmanaged run; no line may depend on chance. */
#include "notice.h"

#include <stdarg.h>
#include <sys/wait.h>

void say(const char *format, ...)
{
    char line[512];
    va_list rest;
    va_start(rest, format);
    int length = vsnprintf(line, sizeof line - 1, format, rest);
    va_end(rest);
    line[length++] = '\n';
    /* The output is not buffered, because a forked child would print the buffer, too. */
    if (write(1, line, (size_t)length) != length)
        FAIL(97, "standard output: %s", strerror(errno));
}

void tell(const char *what, long result)
{
    if (result < 0)
        say("%s: %s", what, strerrorname_np(errno));
    else
        say("%s: %ld", what, result);
}

pid_t child(void)
{
    pid_t pid = fork();
    if (pid < 0)
        FAIL(97, "fork: %s", strerror(errno));
    if (pid == 0)
        alarm(60 * patience());
    return pid;
}

void reap(pid_t pid)
{
    int status = 1;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        FAIL(99, "a child: wait status 0x%x", (unsigned)status);
}

void await_stop(pid_t pid)
{
    int status = 0;
    if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
        FAIL(97, "not stopped: 0x%x", (unsigned)status);
}

void channel(int ends[2])
{
    if (pipe(ends) != 0)
        FAIL(97, "pipe: %s", strerror(errno));
}

void say_mappings(void)
{
    char line[512], range[64], rights[8], offset[32];
    FILE *file = fopen("/proc/self/smaps", "r");
    if (!file)
        FAIL(97, "/proc/self/smaps: %s", strerror(errno));
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "VmFlags:", 8) == 0)
            say("  %.*s", (int)strcspn(line, "\n"), line);
        /* The size of the stack is not compared, because it depends on the environment, which differs. */
        else if (!strstr(line, "[stack]")
                 && sscanf(line, "%63[0-9a-f-] %7[rwxps-] %31s", range, rights, offset) == 3)
            say("%s %s %s", range, rights, offset);
    fclose(file);
}
