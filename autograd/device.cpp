// Notifies a backend of the kernels that it runs, and reports kernels that it lacks.
// Memory is metered where it is allocated and where it is freed, nowhere else.
// Chapters 01 and 03.
#include "autograd/device.h"

#include "autograd/backend.h"

namespace plangrad::autograd {

void Backend::no_kernel(const char* kernel) const {
  throw Error(text(kernel, ": the device ", name(),
                   " has no kernel for it; compute on the CPU, or ",
                   "write the kernel: override Backend::", kernel, " in the backend of ", name()));
}

Backend& KernelCall::on(Backend& backend) {
  backend.begin_kernel();
  backend_ = &backend;
  return backend;
}

KernelCall::~KernelCall() {
  if (backend_) backend_->end_kernel();
}

Storage::Storage(DevicePtr device, std::int64_t bytes, Category category)
    : device_(std::move(device)), bytes_(bytes), category_(category) {
  occupy();
}

Storage::~Storage() { vacate(); }

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
