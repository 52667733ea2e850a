// Adds up calls by kind. A lock is cheap beside a kernel, and there are few threads.
// Chapter 03.
#include "examples/profile/kernel_profile.h"

namespace plangrad::autograd {

void KernelProfile::begin() {
  if (++stretches_ == 2) {
    kernels_.clear();
    beside_.clear();
    seconds_ = 0;
    updates_ = 0;
  }
  trainer_ = std::this_thread::get_id();
  begun_ = std::chrono::steady_clock::now();
  counts_ = true;
}

void KernelProfile::end(int updates) {
  counts_ = false;
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  updates_ += updates;
}

void KernelProfile::add(const KernelWork& work, double seconds) {
  std::lock_guard lock(mutex_);
  (std::this_thread::get_id() == trainer_ ? kernels_ : beside_)[work.kind].add(work, seconds);
}

}  // namespace plangrad::autograd
