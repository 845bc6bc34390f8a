// Maps one page of a file COUNT times, and waits until it is killed. Neighbouring mappings have different
// rights, so that the kernel does not merge them. The file is below FOLDER in DEPTH nested folders, whose
// names have 250 letters.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 4 || chdir(argv[1]) != 0) {
        fprintf(stderr, "usage: mappings FOLDER DEPTH COUNT\n");
        return 2;
    }
    char name[251] = "";
    memset(name, 'p', 250);
    for (int depth = atoi(argv[2]); depth > 0; depth--) {
        mkdir(name, 0755);
        if (chdir(name) != 0) {
            perror("chdir");
            return 1;
        }
    }
    int file = open("file", O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096) != 0) {
        perror("file");
        return 1;
    }
    int count = 0;
    for (; count < atoi(argv[3]); count++) {
        int rights = PROT_READ | (count % 2 ? PROT_WRITE : 0);
        if (mmap(NULL, 4096, rights, MAP_PRIVATE, file, 0) == MAP_FAILED)
            break;
    }
    printf("ready %d\n", count);
    fflush(stdout);
    for (;;)
        pause();
}
