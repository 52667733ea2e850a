// CpuBackend: implements every kernel on the host's processor, with a limited number of threads.
// Not here: the kernels themselves, which are grouped in the .cpp files of this folder.
// Chapter 03.
#pragma once

#include "autograd/backend.h"
#include "autograd/cpu/kept_blocks.h"

namespace plangrad::autograd {

class CpuBackend : public Backend {
 public:
  const char* name() const override;
  void* allocate(std::int64_t bytes) override { return blocks_.take(bytes); }
  void free(void* data, std::int64_t bytes) override { blocks_.put_back(data, bytes); }
  void copy_from_host(const void* source, Out y) override;
  void copy_to_host(In x, void* target) override;
  void copy(In x, Out y) override;
  void fill(double value, Out y) override;

#define PG_KERNEL override
#include "autograd/kernels.h"
#undef PG_KERNEL

 private:
  KeptBlocks blocks_;
};

/// Makes a device that computes on the host; each call makes a new one.
DevicePtr cpu_device();

/// Limits the threads of all kernels that the calling thread runs from now on, including oneDNN's
/// products. Ranks that are threads of one process share its cores this way. Without OpenMP, a
/// kernel has one thread, whatever the limit.
/// throws: Error if n is not positive
void set_compute_threads(int n);

/// Returns the calling thread's limit; until it is set, OpenMP's default, which is all cores.
int compute_threads();

}  // namespace plangrad::autograd
