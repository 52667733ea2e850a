// Memory is metered where it is taken and where it is given back, nowhere else.
// Chapter 01.
#include "autograd/storage.h"

#include "autograd/backend.h"

namespace paragrad::autograd {

Storage::Storage(DevicePtr device, std::int64_t bytes, Category category)
    : device_(std::move(device)), bytes_(bytes), category_(category) {
  occupy();
}

Storage::~Storage() { vacate(); }

void Storage::occupy() {
  if (data_) return;
  device_->meter().add(category_, bytes_);  // which may refuse
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

}  // namespace paragrad::autograd
