/*
 * Runs a command and writes what it took to a file: nanoseconds from fork to exit, microseconds of processor time, user and
 * system, and the KiB of its largest process. All but the first with every process that was waited for below it. A program of
 * its own because a large one is slow to fork, and hands its own size down.
 *
 *   meter FILE COMMAND [ARGUMENT ..]
 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long microseconds(struct timeval time) { return time.tv_sec * 1000000LL + time.tv_usec; }

int main(int count, char **words) {
    struct timespec begun, ended;
    struct rusage used;
    int status;
    if (count < 3) return 125;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    pid_t child = fork();
    if (child == 0) {
        execvp(words[2], words + 2);
        perror(words[2]);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &used) != child) return 125;
    clock_gettime(CLOCK_MONOTONIC, &ended);
    FILE *file = fopen(words[1], "w");
    if (!file) return 125;
    long long wall = (ended.tv_sec - begun.tv_sec) * 1000000000LL + ended.tv_nsec - begun.tv_nsec;
    fprintf(file, "%lld %lld %ld\n", wall, microseconds(used.ru_utime) + microseconds(used.ru_stime), used.ru_maxrss);
    if (fclose(file) != 0) return 125;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
