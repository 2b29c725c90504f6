/* Preloaded: the nth call that writes, makes or renames something below NNKIT_FAULTS_ROOT fails, once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long countdown = -1, points = 0;
static int fault = 0;
static char what[256];

void nnkit_faults_arm(long nth, int number) { countdown = nth; fault = number; points = 0; what[0] = 0; }
long nnkit_faults_points(void) { return points; }
const char *nnkit_faults_what(void) { return what; }

static int fails(const char *call, const char *path) {
    const char *root = getenv("NNKIT_FAULTS_ROOT");
    if (!root || !path || strncmp(path, root, strlen(root))) return 0;
    if (points++ != countdown) return 0;
    snprintf(what, sizeof what, "%s %s", call, path + strlen(root));
    errno = fault;
    return 1;
}

static int fd_fails(const char *call, int fd) {
    char link[64], path[PATH_MAX];
    ssize_t length;
    if (fd < 3) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return fails(call, path);
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    return fd_fails("write", fd) ? -1 : real(fd, data, size);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(pwrite64);
    return fd_fails("write", fd) ? -1 : real(fd, data, size, at);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    return fd_fails("write", fd) ? -1 : real(fd, parts, count);
}
size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
    REAL(fwrite);
    return fd_fails("fwrite", fileno(file)) ? 0 : real(data, size, count, file);
}
ssize_t sendfile64(int out, int in, off64_t *offset, size_t count) {
    static ssize_t (*real)(int, int, off64_t *, size_t);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "sendfile64");
    return fd_fails("sendfile", out) ? -1 : real(out, in, offset, count);
}

#define OPEN(name)                                                             \
    int name(const char *path, int flags, ...) {                               \
        mode_t mode = 0;                                                       \
        REAL(name);                                                            \
        if (flags & (O_CREAT | O_TMPFILE)) {                                   \
            va_list rest;                                                      \
            va_start(rest, flags);                                             \
            mode = va_arg(rest, mode_t);                                       \
            va_end(rest);                                                      \
        }                                                                      \
        if ((flags & O_ACCMODE) != O_RDONLY && fails("open", path)) return -1; \
        return real(path, flags, mode);                                        \
    }
OPEN(open)
OPEN(open64)

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return fails("mkdir", path) ? -1 : real(path, mode);
}
int chmod(const char *path, mode_t mode) {
    REAL(chmod);
    return fails("chmod", path) ? -1 : real(path, mode);
}
int rename(const char *from, const char *to) {
    REAL(rename);
    return fails("rename", from) ? -1 : real(from, to);
}
int link(const char *from, const char *to) {
    REAL(link);
    return fails("link", to) ? -1 : real(from, to);
}
