// What benchmarks of a device share: the device that --device names, its clock, and the two limits
// that kernels are held against: the rates of its copies and of its matrix products.
// Not here: what is measured. Chapter 12; Williams, Waterman and Patterson 2009, "Roofline".
#pragma once

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "autograd/backend.h"
#include "examples/programs/rank_device.h"

namespace plangrad::benchmarks {

using namespace plangrad::autograd;

class DeviceClock {
 public:
  /// `graphs`, `tf32`: see CudaSettings
  explicit DeviceClock(const std::string& name, bool graphs = false, bool tf32 = false)
      : is_gpu_(name == "cuda") {
    const examples::DeviceKind& kind = examples::device_kind(name);
    kind.prepare(1, false);
    device_ = kind.make(0, graphs, tf32);
    mark_ = zeros({1}, DType::f32, device_);
  }

  const DevicePtr& device() const { return device_; }
  bool is_gpu() const { return is_gpu_; }
  /// Waits until the device has done what is queued.
  void wait() const { to_host(mark_); }

  /// Seconds of one run: on a GPU the median of samples of many, which are queued together, so that
  /// the host's share of the time is hidden, unless a run waits by itself, as sums of squares
  /// do; elsewhere nobody wants to know, and one run will do.
  double time_of(const std::function<void()>& run) const {
    if (!is_gpu_) return sample(run, 1);
    sample(run, 2);  // cuBLAS chooses, and clocks rise
    const double once = sample(run, 1);
    const int together = std::clamp(static_cast<int>(0.02 / once), 1, 500);
    std::vector<double> seconds(7);
    for (double& each : seconds) each = sample(run, together) / together;
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }

  /// units: bytes read and written a second, from one tensor of so many bytes to another
  double copy_rate(std::int64_t bytes) const {
    const Tensor x = zeros({bytes}, DType::u8, device_), y = empty_like(x);
    return 2.0 * static_cast<double>(bytes) / time_of([&] { x.backend().copy(x, y); });
  }

  /// units: operations a second, of a product of square matrices of random numbers
  double matmul_rate(DType dtype, std::int64_t size) const {
    const Tensor a = empty({1, size, size}, dtype, device_), b = empty_like(a), c = empty_like(a);
    a.backend().fill_normal(RandomKey(1, "a"), 0, 1, a);
    a.backend().fill_normal(RandomKey(1, "b"), 0, 1, b);
    const auto n = static_cast<double>(size);
    return 2 * n * n * n / time_of([&] { a.backend().gemm({}, a, b, {}, c); });
  }

  /// What the reader must know of figures that do not come from a GPU.
  std::string remark() const {
    return is_gpu_ ? "" : "Not on a GPU: these times say nothing about one.\n\n";
  }

 private:
  double sample(const std::function<void()>& run, int times) const {
    wait();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) run();
    wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  const bool is_gpu_;
  DevicePtr device_;
  Tensor mark_;
};

/// throws: Error if the file can't be written
inline void write_json(const std::string& file, const nlohmann::json& json) {
  std::ofstream out(file);
  out << json.dump(2) << std::endl;
  PG_CHECK(out.good(), "could not write ", file, "; give a file in a folder that is there");
}

}  // namespace plangrad::benchmarks
