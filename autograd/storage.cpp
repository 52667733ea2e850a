// Memory is taken and metered in the constructor, given back in the destructor, nowhere else.
// Chapter 01.
#include "autograd/storage.h"

#include "autograd/backend.h"

namespace paragrad::autograd {

Storage::Storage(DevicePtr device, std::int64_t bytes, Category category)
    : device_(std::move(device)), bytes_(bytes), category_(category) {
  data_ = static_cast<std::byte*>(device_->backend().allocate(bytes));
  device_->meter().add(category, bytes);
}

Storage::~Storage() {
  device_->meter().remove(category_, bytes_);
  device_->backend().free(data_, bytes_);
}

}  // namespace paragrad::autograd
