// Takes the best of a few products of growing size, and stops after about 0.3 seconds of them.
// Chapter 03.
#include "parallel/session/matmul_rate.h"

#include <algorithm>
#include <chrono>

#include "autograd/backend.h"

namespace paragrad::parallel {

using namespace autograd;

double matmul_rate(const DevicePtr& device) {
  CategoryScope category(*device, Category::workspace);
  double best = 0, spent = 0;
  for (std::int64_t n : {256, 512, 1024}) {
    Tensor a = full({1, n, n}, 0.5, DType::f32, device), c = empty_like(a);
    // A device that is through with its time on small matrices gains nothing from large ones.
    for (int run = 0; run < 8 && spent < 0.3; ++run) {
      auto start = std::chrono::steady_clock::now();
      device->backend().gemm({}, a, a, {}, c);
      to_host(c.window(0, {1}));  // a device may compute while the host goes on
      std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      double size = static_cast<double>(n);
      best = std::max(best, 2 * size * size * size / seconds.count());
      spent += seconds.count();
    }
  }
  return best;
}

}  // namespace paragrad::parallel
