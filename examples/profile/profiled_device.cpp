// Makes devices with a profile, and measures what their kernels are compared to.
// Rates are medians, as the kernels' own times show the usual moment, and not the best one. Calls
// are added up by kind; a lock is cheap beside a kernel, and there are few threads. Chapter 03.
#include "examples/profile/profiled_device.h"

#include "examples/profile/profiled_backend.h"

namespace plangrad::examples {

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

namespace {

ProfiledBackend* profiled(const Device& device) {
  return dynamic_cast<ProfiledBackend*>(&device.backend());
}

double median_seconds(int runs, const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    work();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

double product_rate(DType dtype, const DevicePtr& device) {
  constexpr std::int64_t n = 512;
  const Tensor a = full({1, n, n}, 0.5, dtype, device), c = empty_like(a);
  return 2.0 * n * n * n / median_seconds(9, [&] { device->backend().gemm({}, a, a, {}, c); });
}

}  // namespace

DevicePtr profiled_device(const DevicePtr& inner) {
  return std::make_shared<Device>(std::make_shared<ProfiledBackend>(inner));
}

KernelProfile* profile_of(const Device& device) {
  ProfiledBackend* backend = profiled(device);
  return backend ? &backend->profile() : nullptr;
}

DeviceRates measure_rates(const Device& device) {
  ProfiledBackend* backend = profiled(device);
  PG_CHECK(backend, "measure_rates: the device ", device.backend().name(), " has no profile; ",
           "make it with profiled_device()");
  const DevicePtr& inner = backend->inner();
  DeviceRates rates{product_rate(DType::f32, inner), product_rate(DType::bf16, inner)};
  const Tensor x = full({1 << 24}, 1, DType::f32, inner), y = empty_like(x);
  rates.bandwidth =
      2 * static_cast<double>(x.bytes()) / median_seconds(5, [&] { inner->backend().copy(x, y); });
  return rates;
}

}  // namespace plangrad::examples
