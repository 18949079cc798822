/* Fails the n-th write, fsync or rename on files below a folder, as a disk that is full or breaks would.

   Preloaded (LD_PRELOAD) into a process that calls arm() when it is ready to be failed. Counted are calls on regular
   paths below the folder alone: what goes to pipes and terminals succeeds. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static long *count; /* calls so far, in memory that is shared with whoever wants to know */
static char root[PATH_MAX];
static size_t root_length;
static long fail_at;
static int error_number;
static int stays_full; /* later writes fail too, as on a full disk; else the one call alone, as on a bad block */

void arm(long *shared_count, const char *folder, long n, int number, int full) {
    strncpy(root, folder, sizeof root - 1);
    root_length = strlen(root);
    fail_at = n;
    error_number = number;
    stays_full = full;
    count = shared_count;
}

static int is_below(const char *path) {
    char whole[PATH_MAX];
    if (path[0] != '/') {
        if (!getcwd(whole, sizeof whole) || strlen(whole) + strlen(path) + 2 > sizeof whole) return 0;
        strcat(strcat(whole, "/"), path);
        path = whole;
    }
    return strncmp(path, root, root_length) == 0 && path[root_length] == '/';
}

static int counts(int fd) {
    if (!count) return 0;
    char link[64] = "/proc/self/fd/", path[PATH_MAX], digits[16];
    int i = 15, rest = fd;
    digits[i] = 0;
    do digits[--i] = '0' + rest % 10; while (rest /= 10);
    strcat(link, digits + i);
    int saved = errno;
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

/* 0: goes through. 1: fails. 2: the disk fills in the middle of this write. */
static int verdict(int is_write) {
    long number = __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
    if (!fail_at) return 0;
    if (number == fail_at) return stays_full && is_write ? 2 : 1;
    return stays_full && is_write && number > fail_at;
}

static int failed(void) {
    errno = error_number;
    return -1;
}

ssize_t write(int fd, const void *data, size_t size) {
    int found = counts(fd) ? verdict(1) : 0;
    if (found == 1 || (found == 2 && size < 2)) return failed();
    return REAL(write)(fd, data, found == 2 ? size / 2 : size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    int found = counts(fd) ? verdict(1) : 0;
    if (found == 1 || (found == 2 && size < 2)) return failed();
    return REAL(pwrite64)(fd, data, found == 2 ? size / 2 : size, offset);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return pwrite64(fd, data, size, offset); }

ssize_t writev(int fd, const struct iovec *parts, int num_parts) {
    return counts(fd) && verdict(1) ? failed() : REAL(writev)(fd, parts, num_parts);
}

int fsync(int fd) { return counts(fd) && verdict(0) ? failed() : REAL(fsync)(fd); }

int fdatasync(int fd) { return counts(fd) && verdict(0) ? failed() : REAL(fdatasync)(fd); }

int rename(const char *from, const char *to) {
    return count && is_below(to) && verdict(0) ? failed() : REAL(rename)(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    return count && is_below(to) && verdict(0) ? failed() : REAL(renameat)(from_folder, from, to_folder, to);
}
