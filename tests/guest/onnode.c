/* Runs a program whose memory comes from one node (MPOL_BIND of set_mempolicy(2), which exec keeps): its own and the page
 * cache that it fills.
 *
 *   onnode NODE PROGRAM [ARGUMENT]... */
#include "../programs/common.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        FAIL(2, "usage: onnode NODE PROGRAM [ARGUMENT]...");
    unsigned long node = strtoul(argv[1], NULL, 10), mask = 1UL << node;
    if (syscall(SYS_set_mempolicy, MPOL_BIND, &mask, 8 * sizeof mask) != 0)
        FAIL(77, "no memory of node %lu alone: %s", node, strerror(errno));
    execvp(argv[2], argv + 2);
    FAIL(97, "%s: %s", argv[2], strerror(errno));
}
