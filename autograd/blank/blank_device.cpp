// All tensors have one address, at which nothing is. A kernel adds its work to the table, and lets
// the backend that the device is like take and free the kernel's scratch. Chapter 03.
#include "autograd/blank/blank_device.h"

namespace plangrad::autograd {
namespace {

class BlankBackend : public Backend {
 public:
  explicit BlankBackend(std::shared_ptr<Backend> like) : like_(std::move(like)) {}

  KernelTable take() { return std::exchange(kernels_, {}); }

  const char* name() const override { return "blank"; }
  bool adds_whole_sums() const override { return !like_ || like_->adds_whole_sums(); }
  std::int64_t row_pitch(std::int64_t columns) const override {
    return like_ ? like_->row_pitch(columns) : columns;
  }
  void* allocate(std::int64_t) override { return reinterpret_cast<void*>(alignment); }
  void free(void*, std::int64_t) override {}
  void copy_from_host(const void*, Out y) override { count(KernelWork{"copy_from_host"}.with(y)); }
  void copy_to_host(In, void*) override { no_value("copy_to_host"); }

#define PG_KERNEL(name, ...)                        \
  override {                                        \
    count(PG_KERNEL_WORK(name, __VA_ARGS__));       \
    return run(#name, &Backend::name, __VA_ARGS__); \
  }
#include "autograd/kernels.h"
#undef PG_KERNEL

 private:
  static constexpr std::uintptr_t alignment = 64;

  [[noreturn]] void no_value(const char* kernel) const {
    throw Error(text(kernel, ": tensors of the blank device have no values that could be read"));
  }

  void count(const KernelWork& work) {
    if (depth_ == 0) kernels_[work.kind].add(work);
  }

  /// Takes and frees a kernel's scratch. Kernels that it calls are part of it.
  template <class Result, class... Parameters>
  Result run(const char* name, Result (Backend::*kernel)(Parameters...), const auto&... arguments) {
    if constexpr (std::is_void_v<Result>) {
      const ModeScope<int> inside(depth_, depth_ + 1);
      if (like_) like_->without_values([&] { ((*like_).*kernel)(arguments...); });
    } else {
      no_value(name);
    }
  }

  const std::shared_ptr<Backend> like_;
  KernelTable kernels_;
  int depth_ = 0;
};

}  // namespace

DevicePtr blank_device(std::shared_ptr<Backend> like) {
  return std::make_shared<Device>(std::make_shared<BlankBackend>(std::move(like)));
}

KernelTable take_kernels(const Device& device) {
  auto* blank = dynamic_cast<BlankBackend*>(&device.backend());
  return blank ? blank->take() : KernelTable();
}

}  // namespace plangrad::autograd
