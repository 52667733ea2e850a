// Device: one rank's seat: the kernels it computes with, its memory meter, its modes; and Storage:
// memory of it. Not here: globals. Two ranks in one process are two Device objects that share
// nothing. Chapter 01.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "autograd/memory_meter.h"

namespace paragrad::autograd {

class Backend;

/// The call of a kernel: x.backend().softmax(x, y) makes one of these as backend()'s argument. It
/// tells the backend that a kernel begins; and as a temporary object it dies where the expression
/// ends, which tells the backend that the kernel has ended.
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

/// Used by one thread at a time, with two exceptions: its meter, and Storage objects: any thread
/// may make one for a category that it names, and delete any, as a rank's message lane does.
/// Devices that share a backend may be used at the same time.
class Device {
 public:
  explicit Device(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}

  /// For one expression: whoever keeps the reference calls kernels that the backend is not told of.
  Backend& backend(KernelCall&& call = {}) const { return call.on(*backend_); }
  MemoryMeter& meter() { return meter_; }

  /// Whether operations record how to differentiate them; see NoGrad.
  bool records_gradients() const { return records_gradients_; }
  /// What new tensors are charged to; see CategoryScope.
  Category category() const { return category_; }
  /// 1, 2, 3, ...: the order in which graph nodes were made.
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

/// While it lives, a mode of a device has another value.
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

/// While it lives, operations on the device record no graph.
struct NoGrad : ModeScope<bool> {
  explicit NoGrad(Device& device) : ModeScope(device.records_gradients_, false) {}
};

/// While it lives, operations record again: recomputation inside a backward pass needs that.
struct EnableGrad : ModeScope<bool> {
  explicit EnableGrad(Device& device) : ModeScope(device.records_gradients_, true) {}
};

/// While it lives, new tensors of the device are charged to `category`.
struct CategoryScope : ModeScope<Category> {
  CategoryScope(Device& device, Category category) : ModeScope(device.category_, category) {}
};

/// One allocation of a device, charged to its meter for as long as it lives.
class Storage {
 public:
  /// Uninitialised bytes of the device.
  /// throws: Error if the device has no such memory left
  Storage(DevicePtr device, std::int64_t bytes, Category category);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  const DevicePtr& device() const { return device_; }
  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

  /// Gives the memory back, or takes it again with undefined contents, while tensors and graphs
  /// still point here: nobody may read in between. Does nothing if it is so already.
  void vacate();
  void occupy();

 private:
  DevicePtr device_;
  std::int64_t bytes_;
  Category category_;
  std::byte* data_ = nullptr;
};

}  // namespace paragrad::autograd
