// A device that computes as another one does, and counts its kernels. A device without a profile
// costs nothing: it has no such wrapper around it. KernelProfile: what kernels took while a rank
// trained, by kind: calls, seconds, work. The time of a rank is that in kernels and the rest, so
// the parts add up to the whole.
// Not here: devices whose kernels run on while the host continues: their times would be launches';
// which kernel does what work (autograd/kernel_work.h), and tables (profile.h).
// Chapter 03; Williams, Waterman and Patterson 2009, "Roofline".
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>

#include "autograd/device.h"
#include "autograd/kernel_work.h"

namespace plangrad::examples {

using namespace plangrad::autograd;

/// The best rates of a device, measured with the threads that its kernels have.
struct DeviceRates {
  double f32 = 0, bf16 = 0;  ///< matrix products' floating-point operations per second
  double bandwidth = 0;      ///< bytes that a copy reads and writes per second

  /// The rate of products of a type, never below that of f32: bf16 can be widened to it.
  double of(DType dtype) const { return dtype == DType::bf16 ? std::max(bf16, f32) : f32; }
  /// The seconds that these calls take at least: those of their products or those of their bytes.
  double least_seconds(const KernelCalls& kernel) const {
    return std::max(kernel.flops / of(kernel.dtype), kernel.bytes / bandwidth);
  }
  static auto fields(auto& x) { return std::tie(x.f32, x.bf16, x.bandwidth); }
};

/// Counts between begin() and end(), which the thread that trains calls. Kernels of other threads,
/// which run beside it, are counted apart: a rank's message lane adds up sums.
class KernelProfile {
 public:
  /// The first stretch of time warms up: a second one replaces it.
  void begin();
  void end(int updates);
  void add(const KernelWork& work, double seconds);

  bool counts() const { return counts_; }
  int updates() const { return updates_; }
  double seconds() const { return seconds_; }
  const KernelTable& kernels() const { return kernels_; }
  const KernelTable& beside() const { return beside_; }

 private:
  std::mutex mutex_;
  KernelTable kernels_, beside_;
  std::thread::id trainer_;
  std::chrono::steady_clock::time_point begun_;
  double seconds_ = 0;
  int updates_ = 0, stretches_ = 0;
  std::atomic<bool> counts_ = false;  // the message lane reads it
};

/// Wraps a device of the CPU. Memory is charged to the new device.
DevicePtr profiled_device(const DevicePtr& inner);

/// The profile of a device that profiled_device() made; null for others.
KernelProfile* profile_of(const Device& device);

/// Measures a device, also through its profile: medians of nine products of 512 x 512 matrices, and
/// of five copies of 64 MiB, the like of which no cache holds. Charges no memory to its meter.
DeviceRates measure_rates(const Device& device);

}  // namespace plangrad::examples
