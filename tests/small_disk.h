// A disk that is full soon: no file of this process can grow beyond a limit. Not here: the error of
// a real one, which is another ("No space left on device") in the same place.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace plangrad::tests {

class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit smaller{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &smaller);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit before_ = {};
  void (*handler_)(int);
};

}  // namespace plangrad::tests
