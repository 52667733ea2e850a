// Memory is metered where it is allocated and where it is freed, nowhere else; every change updates
// the live sums and their peaks under one lock, so peaks are exact. Also reports kernels that a
// backend lacks. Chapters 01 and 03.
#include "autograd/device.h"

#include <algorithm>

#include "autograd/backend.h"

namespace plangrad::autograd {

const char* name_of(Category category) {
  static constexpr const char* names[] = {"weights",       "gradients", "optimizer", "activations",
                                          "communication", "workspace", "index"};
  return names[static_cast<int>(category)];
}

void MemoryMeter::add(Category category, std::int64_t bytes) {
  std::lock_guard lock(mutex_);
  PG_CHECK(cap_ == 0 || bytes <= 0 || held_[total].live + bytes <= cap_, "out of memory: ", bytes,
           " bytes more for ", name_of(category), ", beside the ", held_[total].live,
           " that this rank holds, ", "are above the cap of ", cap_,
           "; raise --memory-cap, or use a smaller model or batch, ",
           "more --microbatches or stages, --recompute, --zero or --samo");
  count(category, bytes);
}

void MemoryMeter::move(std::int64_t bytes, Category from, Category to) {
  std::lock_guard lock(mutex_);
  count(from, -bytes);
  count(to, bytes);
}

void MemoryMeter::count(Category category, std::int64_t bytes) {
  for (Held* held : {&held_[index_of(category)], &held_[total]}) {
    held->live += bytes;
    held->peak = std::max(held->peak, held->live);
  }
  if (recording_) {
    std::chrono::duration<double> since = std::chrono::steady_clock::now() - start_;
    events_.push_back({since.count(), category, held_[index_of(category)].live});
  }
}

void MemoryMeter::set_cap(std::int64_t bytes) {
  std::lock_guard lock(mutex_);
  cap_ = bytes;
}

void MemoryMeter::reset_peaks() {
  std::lock_guard lock(mutex_);
  for (Held& held : held_) held.peak = held.live;
}

void MemoryMeter::start_timeline() {
  std::lock_guard lock(mutex_);
  events_.clear();
  start_ = std::chrono::steady_clock::now();
  recording_ = true;
}

std::vector<MemoryMeter::Event> MemoryMeter::stop_timeline() {
  std::lock_guard lock(mutex_);
  recording_ = false;
  return std::exchange(events_, {});
}

void Backend::without_values(const std::function<void()>&) {
  throw Error(text("the device ", name(), " can't say which memory its kernels use"));
}

void Backend::no_kernel(const char* kernel) const {
  throw Error(text(kernel, ": the device ", name(),
                   " has no kernel for it; compute on the CPU, or ",
                   "write the kernel: override Backend::", kernel, " in the backend of ", name()));
}

Storage::Storage(DevicePtr device, std::int64_t bytes, Category category)
    : device_(std::move(device)), bytes_(bytes), category_(category) {
  occupy();
}

void Storage::occupy() {
  if (data_) return;
  device_->meter().add(category_, bytes_);  // throws above the cap
  try {
    data_ = static_cast<std::byte*>(device_->backend().allocate(bytes_));
  } catch (...) {
    device_->meter().remove(category_, bytes_);
    throw;
  }
}

void Storage::vacate() {
  if (!data_) return;
  device_->meter().remove(category_, bytes_);
  device_->backend().free(data_, bytes_);
  data_ = nullptr;
}

void Storage::charge_to(Category category) {
  if (data_) device_->meter().move(bytes_, category_, category);
  category_ = category;
}

}  // namespace plangrad::autograd
