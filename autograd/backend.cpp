// What a backend says of a kernel that it lacks, and when it is told of those that it runs.
// Not here: kernels (autograd/cpu, cuda/backend).
// Chapter 03.
#include "autograd/backend.h"

namespace paragrad::autograd {

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

}  // namespace paragrad::autograd
