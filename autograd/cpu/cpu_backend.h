// CpuBackend: every kernel on the host's processor, and how many threads it may use.
// Not here: the kernels, which are spread over the .cpp files of this folder by what they do.
// Chapter 03.
#pragma once

#include <mutex>
#include <unordered_map>

#include "autograd/backend.h"

namespace paragrad::autograd {

class CpuBackend : public Backend {
 public:
  ~CpuBackend() override;

  const char* name() const override;
  void* allocate(std::int64_t bytes) override;
  void free(void* data, std::int64_t bytes) override;
  void copy_from_host(const void* source, Out y) override;
  void copy_to_host(In x, void* target) override;
  void copy(In x, Out y) override;
  void fill(double value, Out y) override;

#define PG_KERNEL override
#include "autograd/kernels.h"
#undef PG_KERNEL

 private:
  std::mutex mutex_;  // the message lane of a rank allocates too
  std::unordered_map<std::int64_t, std::vector<void*>> blocks_;  // freed, by size
};

/// A device of its own that computes on the host.
DevicePtr cpu_device();

/// Limits the kernels that the calling thread runs from now on, products by oneDNN among them.
/// Ranks that are threads of one process share its cores this way. Without OpenMP a kernel has one
/// thread, whatever the limit.
/// throws: Error if n is not positive
void set_compute_threads(int n);

/// The limit of the calling thread; before it is set, OpenMP's, which is all cores.
int compute_threads();

}  // namespace paragrad::autograd
