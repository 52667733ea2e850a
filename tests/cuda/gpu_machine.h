// GPUs as tests see them: threads come in the order that they come in, and fresh memory is NaN.
// Not here: what tests of the emulator have, too (machine.h); only tests/gpu.sh runs these.
// CUDA Runtime API, stream-ordered memory allocator.
#pragma once

#include <memory>

#include "cuda/backend/cuda_backend.h"

namespace plangrad::tests {

/// What the emulator is asked for. A GPU does as it likes: a test that tries several orders runs
/// several times, and shows that a run repeats its bits.
enum class Order { forward, reverse, random };
enum class QueueSchedule { eager, lazy, random };
struct Settings {
  int compute_capability = 0;
  Order order = Order::forward;
  QueueSchedule schedule = QueueSchedule::lazy;
  std::uint64_t seed = 1;
  double silent_aborts = 0;
};
constexpr Order all_orders[] = {Order::forward, Order::reverse, Order::random};

/// Where a test begins and ends: work that it leaves behind is not another's.
class Machine {
 public:
  explicit Machine(Settings = {}) {
    const cudaError_t found = cudaSetDevice(0);
    PG_CHECK(found == cudaSuccess, "there is no GPU to test on: ", cudaGetErrorString(found),
             "; tests_cuda runs these tests on the emulator");
  }
  ~Machine() { cudaDeviceSynchronize(); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
};

/// Fills fresh memory with bytes of ones, which are NaN, and frees blocks for good, so that tools
/// see what is used after that.
class StrictBackend : public cuda::CudaBackend {
 public:
  explicit StrictBackend(int ordinal) : CudaBackend(ordinal, {.keeps_blocks = false}) {}
  void* allocate(std::int64_t bytes) override {
    void* block = CudaBackend::allocate(bytes);
    use();
    PG_CUDA(cudaMemsetAsync(block, 0xFF, bytes, stream()));
    return block;
  }
};

inline autograd::DevicePtr make_strict_device(int ordinal) {
  return std::make_shared<autograd::Device>(std::make_shared<StrictBackend>(ordinal));
}

constexpr bool nccl_is_built = PLANGRAD_NCCL;

}  // namespace plangrad::tests
