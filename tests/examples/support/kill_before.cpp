// A library that is loaded before a program (LD_PRELOAD) and kills it before its n-th call that
// changes files, or in the midst of it, as a crash would. Without KILL_AT it counts the calls.
//   KILL_AT=N     kills before call N, counted from 0; if it is a write, after half of it
//   KILL_BY=S     ends it by signal S, which it may handle; SIGKILL if it is not set
//   KILL_COUNT=F  writes the number of calls into the file F at the end
//   NO_EXCHANGE=1 the file system can't exchange two names
// Not here: what must be left (killed_everywhere_test.cpp). Chapter 15.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <tuple>

namespace {

std::atomic<int> calls = 0;

/// The function of the C library that a function here stands for.
template <class F>
F real(F, const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

/// Counts a call. Returns whether the program dies in it.
bool dies() {
  static const char* at = std::getenv("KILL_AT");
  return calls++ == (at ? std::atoi(at) : -1);
}

void die() {
  static const char* by = std::getenv("KILL_BY");
  std::raise(by ? std::atoi(by) : SIGKILL);
}

void die_if_due() {
  if (dies()) die();
}

bool is_file(int descriptor) {
  struct stat found;
  return ::fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode);
}

struct Counter {
  ~Counter() {
    const char* path = std::getenv("KILL_COUNT");
    std::FILE* file = path ? std::fopen(path, "w") : nullptr;
    if (!file) return;
    std::fprintf(file, "%d", calls.load());
    std::fclose(file);
  }
} counter;

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* bytes, size_t size) {
  static const auto next = real(&::write, "write");
  if (is_file(descriptor) && dies()) {
    std::ignore = next(descriptor, bytes, size / 2);
    die();
  }
  return next(descriptor, bytes, size);
}

ssize_t writev(int descriptor, const struct iovec* parts, int count) {
  static const auto next = real(&::writev, "writev");
  if (is_file(descriptor) && dies()) {
    std::ignore = next(descriptor, parts, count / 2);
    die();
  }
  return next(descriptor, parts, count);
}

int open(const char* path, int flags, ...) {
  static const auto next = real(&::open, "open");
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  if (flags & (O_WRONLY | O_RDWR | O_CREAT)) die_if_due();
  return next(path, flags, mode);
}

int fsync(int descriptor) {
  static const auto next = real(&::fsync, "fsync");
  die_if_due();
  return next(descriptor);
}

int ftruncate(int descriptor, off_t size) {
  static const auto next = real(&::ftruncate, "ftruncate");
  die_if_due();
  return next(descriptor, size);
}

int rename(const char* from, const char* to) noexcept {
  static const auto next = real(&::rename, "rename");
  die_if_due();
  return next(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned int flags) noexcept {
  static const auto next = real(&::renameat2, "renameat2");
  if (std::getenv("NO_EXCHANGE")) return errno = EINVAL, -1;
  die_if_due();
  return next(from_folder, from, to_folder, to, flags);
}

int unlink(const char* path) noexcept {
  static const auto next = real(&::unlink, "unlink");
  die_if_due();
  return next(path);
}

int remove(const char* path) noexcept {
  static const auto next = real(&::remove, "remove");
  die_if_due();
  return next(path);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto next = real(&::mkdir, "mkdir");
  die_if_due();
  return next(path, mode);
}

}  // extern "C"
