// Storage: one allocation of a device, charged to its meter for as long as it lives.
// Not here: shape and type; a Tensor is a typed window on a Storage.
// Chapter 01.
#pragma once

#include <cstddef>
#include <cstdint>

#include "autograd/device.h"

namespace paragrad::autograd {

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
  Category category() const { return category_; }

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
