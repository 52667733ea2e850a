// ProfiledBackend: passes every kernel on to another device's backend, and times it.
// Not here: what each kernel must do (autograd/kernel_work.h), and for which devices it is
// (profiled_device.h). Chapter 03.
#pragma once

#include "autograd/backend.h"
#include "examples/profile/profiled_device.h"

namespace plangrad::examples {

class ProfiledBackend : public Backend {
 public:
  explicit ProfiledBackend(DevicePtr inner) : inner_(std::move(inner)) {}

  KernelProfile& profile() { return profile_; }
  const DevicePtr& inner() const { return inner_; }

  const char* name() const override { return inner_->backend().name(); }
  bool has_f64() const override { return inner_->backend().has_f64(); }
  void as_one_launch(const std::function<void()>& work) override {
    inner_->backend().as_one_launch(work);
  }
  void* allocate(std::int64_t bytes) override { return inner_->backend().allocate(bytes); }
  void free(void* data, std::int64_t bytes) override { inner_->backend().free(data, bytes); }
  void copy_from_host(const void* source, Out y) override {
    run(KernelWork{"copy_from_host"}.with(y), [&] { inner_->backend().copy_from_host(source, y); });
  }
  void copy_to_host(In x, void* target) override {
    run(KernelWork{"copy_to_host"}.with(x), [&] { inner_->backend().copy_to_host(x, target); });
  }

  // [snippet profiled]
#define PG_KERNEL(name, ...)                                         \
  override {                                                         \
    return run(PG_KERNEL_WORK(name, __VA_ARGS__),                    \
               [&] { return inner_->backend().name(__VA_ARGS__); }); \
  }
#include "autograd/kernels.h"
#undef PG_KERNEL
  // [end snippet]

 private:
  /// A call, from its construction to its end. A kernel that another kernel calls is part of it.
  class Call {
   public:
    Call(KernelProfile& profile, const KernelWork& work)
        : profile_(profile), work_(work), counts_(depth++ == 0 && profile.counts()) {}
    ~Call() {
      --depth;
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begun_;
      if (counts_) profile_.add(work_, time.count());
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    inline static thread_local int depth = 0;  // calls that the thread is in

    KernelProfile& profile_;
    const KernelWork& work_;
    const bool counts_;
    const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  };

  /// Makes a call of a kernel that does this work.
  template <class Kernel>
  std::invoke_result_t<Kernel> run(const KernelWork& work, const Kernel& kernel) {
    const Call call(profile_, work);
    return kernel();
  }

  DevicePtr inner_;
  KernelProfile profile_;
};

}  // namespace plangrad::examples
