/*
 * Stands before the C library in a program that a test watches (LD_PRELOAD): notes in which order it writes, syncs, names
 * and sends, and makes one of these fail where the test says so. Compiled by the test into its own directory; no part of
 * what is shipped.
 *
 *   PARLER_CALLS_TRACE   file that each call is added to as a line: CALL RESULT WHAT
 *   PARLER_CALLS_FAIL    CALL:N:ERRNO:PATH   the N-th CALL on a path with PATH in it fails, or that ends so where PATH ends
 *                        with $; N+ for all from then on
 *   PARLER_CALLS_WHILE   the calls fail only while this file exists
 *
 * CALL is write, sync, rename, link, unlink, truncate, make or mkdir. A sync, a write and a new name are noted when they are
 * done, an answer before it is sent: whatever stands before an answer was done before it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* Longest first line of an answer that is noted, in bytes. */
#define MAX_NOTED 160

static int trace = -1;
static char fail_call[16];
static long fail_number;
static int fail_onwards;
static int fail_errno;
static char fail_path[PATH_MAX];
static const char *fail_while;
static atomic_long seen;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_send)(int, const void *, size_t, int);
static ssize_t (*real_sendmsg)(int, const struct msghdr *, int);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_ftruncate)(int, off_t);
static int (*real_rename)(const char *, const char *);
static int (*real_linkat)(int, const char *, int, const char *, int);
static int (*real_link)(const char *, const char *);
static int (*real_unlink)(const char *);
static int (*real_open)(const char *, int, ...);
static int (*real_mkdir)(const char *, mode_t);

static int error_of(const char *name) {
    if (strcmp(name, "EIO") == 0) return EIO;
    if (strcmp(name, "ENOSPC") == 0) return ENOSPC;
    if (strcmp(name, "EDQUOT") == 0) return EDQUOT;
    if (strcmp(name, "EROFS") == 0) return EROFS;
    _exit(99);
}

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) _exit(99);
    return found;
}

__attribute__((constructor)) static void begin(void) {
    real_write = real("write");
    real_pwrite = real("pwrite64");
    real_writev = real("writev");
    real_send = real("send");
    real_sendmsg = real("sendmsg");
    real_fsync = real("fsync");
    real_mkdir = real("mkdir");
    real_fdatasync = real("fdatasync");
    real_ftruncate = real("ftruncate64");
    real_rename = real("rename");
    real_linkat = real("linkat");
    real_link = real("link");
    real_unlink = real("unlink");
    real_open = real("open64");
    const char *file = getenv("PARLER_CALLS_TRACE");
    if (file) trace = real_open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const char *fail = getenv("PARLER_CALLS_FAIL");
    char number[16], name[16];
    if (fail) {
        if (sscanf(fail, "%15[^:]:%15[^:]:%15[^:]:%4095[^\n]", fail_call, number, name, fail_path) != 4) _exit(99);
        fail_number = atol(number);
        fail_onwards = strchr(number, '+') != NULL;
        fail_errno = error_of(name);
    }
    fail_while = getenv("PARLER_CALLS_WHILE");
}

/* One line, in one piece: lines of several threads stand in the order of what they tell. */
static void note(const char *call, long result, const char *what) {
    if (trace < 0) return;
    int saved = errno;
    char line[2 * PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%s %ld %s\n", call, result, what);
    if (length >= (int)sizeof line) length = sizeof line - 1;
    syscall(SYS_write, trace, line, (size_t)length);
    errno = saved;
}

static int is_meant(const char *path) {
    size_t meant = strlen(fail_path), length = strlen(path);
    if (meant == 0 || fail_path[meant - 1] != '$') return strstr(path, fail_path) != NULL;
    return length >= meant - 1 && strncmp(path + length - (meant - 1), fail_path, meant - 1) == 0;
}

/* Whether this call is the one that fails. */
static int fails(const char *call, const char *path) {
    if (!fail_number || strcmp(call, fail_call) != 0 || !is_meant(path)) return 0;
    if (fail_while && syscall(SYS_access, fail_while, F_OK) != 0) return 0;
    long number = atomic_fetch_add(&seen, 1) + 1;
    if (number != fail_number && !(fail_onwards && number > fail_number)) return 0;
    note("fault", fail_errno, path);
    errno = fail_errno;
    return 1;
}

/* What a descriptor is open on. */
static const char *path_of(int fd, char *path) {
    int saved = errno;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlink, link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    errno = saved;
    return path;
}

static int is_socket(const char *path) { return strncmp(path, "socket:", 7) == 0; }

/* The first line of what is sent. */
static void note_sent(const char *bytes, size_t length) {
    char line[MAX_NOTED + 1];
    size_t end = 0;
    while (end < length && end < MAX_NOTED && bytes[end] >= ' ' && bytes[end] <= '~') end++;
    memcpy(line, bytes, end);
    line[end] = 0;
    note("send", (long)length, line);
}

static void note_sent_pieces(const struct iovec *pieces, size_t count) {
    if (count > 0) note_sent(pieces[0].iov_base, pieces[0].iov_len);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    char path[PATH_MAX];
    if (is_socket(path_of(fd, path))) {
        note_sent(bytes, length);
        return real_write(fd, bytes, length);
    }
    if (fails("write", path)) return -1;
    ssize_t written = real_write(fd, bytes, length);
    if (path[0] == '/') note("write", written, path);
    return written;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset) {
    char path[PATH_MAX];
    if (fails("write", path_of(fd, path))) return -1;
    ssize_t written = real_pwrite(fd, bytes, length, offset);
    note("write", written, path);
    return written;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) { return pwrite64(fd, bytes, length, offset); }

ssize_t writev(int fd, const struct iovec *pieces, int count) {
    char path[PATH_MAX];
    if (is_socket(path_of(fd, path))) {
        note_sent_pieces(pieces, count);
        return real_writev(fd, pieces, count);
    }
    if (fails("write", path)) return -1;
    ssize_t written = real_writev(fd, pieces, count);
    if (path[0] == '/') note("write", written, path);
    return written;
}

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
    note_sent(bytes, length);
    return real_send(fd, bytes, length, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    note_sent_pieces(message->msg_iov, message->msg_iovlen);
    return real_sendmsg(fd, message, flags);
}

int fsync(int fd) {
    char path[PATH_MAX];
    if (fails("sync", path_of(fd, path))) return -1;
    int result = real_fsync(fd);
    note("sync", result, path);
    return result;
}

int fdatasync(int fd) {
    char path[PATH_MAX];
    if (fails("sync", path_of(fd, path))) return -1;
    int result = real_fdatasync(fd);
    note("sync", result, path);
    return result;
}

int ftruncate64(int fd, off_t length) {
    char path[PATH_MAX];
    if (fails("truncate", path_of(fd, path))) return -1;
    int result = real_ftruncate(fd, length);
    note("truncate", result, path);
    return result;
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

/* A new name stands alone in its line: what matters is which name is there from then on. */
int rename(const char *from, const char *to) {
    if (fails("rename", to)) return -1;
    int result = real_rename(from, to);
    note("rename", result, to);
    return result;
}

int link(const char *from, const char *to) {
    if (fails("link", to)) return -1;
    int result = real_link(from, to);
    note("link", result, to);
    return result;
}

int linkat(int from_directory, const char *from, int to_directory, const char *to, int flags) {
    if (fails("link", to)) return -1;
    int result = real_linkat(from_directory, from, to_directory, to, flags);
    note("link", result, to);
    return result;
}

int unlink(const char *path) {
    if (fails("unlink", path)) return -1;
    int result = real_unlink(path);
    note("unlink", result, path);
    return result;
}

int open64(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    if ((flags & O_CREAT) && syscall(SYS_access, path, F_OK) != 0 && fails("make", path)) return -1;
    return real_open(path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
    if (syscall(SYS_access, path, F_OK) != 0 && fails("mkdir", path)) return -1;
    return real_mkdir(path, mode);
}

int open(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    return open64(path, flags, mode);
}
