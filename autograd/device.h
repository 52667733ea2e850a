// Device: one rank's kernels, memory meter and modes; Storage: memory of a device.
// Not here: globals. Two ranks in one process are two Device objects that share nothing.
// Chapter 01.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "autograd/memory_meter.h"

namespace plangrad::autograd {

class Backend;

/// A call of a kernel: x.backend().softmax(x, y) makes a KernelCall as the default argument of
/// backend(). The object tells the backend that a kernel begins; it is a temporary, so it dies at
/// the end of the expression, and tells the backend that the kernel has ended.
class KernelCall {
 public:
  KernelCall() = default;
  ~KernelCall();
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

  Backend& on(Backend& backend);

 private:
  Backend* backend_ = nullptr;
};

/// One rank's device. One thread uses it at a time, with two exceptions: the meter, and Storage
/// objects, which any thread may make, for a category that it names, and delete; a rank's message
/// lane does so. Devices that share a backend may be used at the same time.
class Device {
 public:
  explicit Device(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}

  /// Use the reference within one expression: the backend is not told of later calls through it.
  Backend& backend(KernelCall&& call = {}) const { return call.on(*backend_); }
  MemoryMeter& meter() { return meter_; }

  /// Whether operations record how to differentiate them; see NoGrad.
  bool records_gradients() const { return records_gradients_; }
  /// The category that new tensors are charged to; see CategoryScope.
  Category category() const { return category_; }
  /// The next number in the order in which graph nodes are made: 1, 2, 3, ...
  std::uint64_t next_sequence() { return ++sequence_; }

 private:
  friend struct NoGrad;
  friend struct EnableGrad;
  friend struct CategoryScope;

  std::shared_ptr<Backend> backend_;
  MemoryMeter meter_;
  bool records_gradients_ = true;
  Category category_ = Category::activations;
  std::uint64_t sequence_ = 0;
};

using DevicePtr = std::shared_ptr<Device>;

/// Gives a mode of a device another value during the scope's lifetime.
template <class T>
class ModeScope {
 public:
  ModeScope(T& mode, T value) : mode_(mode), before_(std::exchange(mode, value)) {}
  ~ModeScope() { mode_ = before_; }
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  T& mode_;
  T before_;
};

/// During its lifetime, operations on the device record no graph.
struct NoGrad : ModeScope<bool> {
  explicit NoGrad(Device& device) : ModeScope(device.records_gradients_, false) {}
};

/// During its lifetime, operations record again, as recomputation inside a backward pass needs.
struct EnableGrad : ModeScope<bool> {
  explicit EnableGrad(Device& device) : ModeScope(device.records_gradients_, true) {}
};

/// During its lifetime, new tensors of the device are charged to `category`.
struct CategoryScope : ModeScope<Category> {
  CategoryScope(Device& device, Category category) : ModeScope(device.category_, category) {}
};

/// One allocation of a device, charged to its meter for as long as it lives.
class Storage {
 public:
  /// Allocates uninitialised bytes on the device.
  /// throws: Error if the device has too little memory left
  Storage(DevicePtr device, std::int64_t bytes, Category category);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  const DevicePtr& device() const { return device_; }
  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

  /// Frees the memory (vacate), or allocates it again with undefined contents (occupy), while
  /// tensors and graphs still point here; the values must not be read in between. Idempotent.
  void vacate();
  void occupy();

  /// Charges the memory to another category from now on.
  void charge_to(Category category);

 private:
  DevicePtr device_;
  std::int64_t bytes_;
  Category category_;
  std::byte* data_ = nullptr;
};

}  // namespace plangrad::autograd
