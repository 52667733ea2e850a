// ProfiledBackend: passes every kernel on to another device's backend, and times it.
// Not here: what each kernel must do (profiled_kernels.cpp,
// profiled_moves.cpp), and for which devices it is
// (profiled_device.h). Chapter 03.
#pragma once

#include <vector>

#include "autograd/backend.h"
#include "examples/profile/kernel_profile.h"

namespace plangrad::autograd {

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
  void copy_from_host(const void* source, Out y) override;
  void copy_to_host(In x, void* target) override;
  void copy(In x, Out y) override;
  void fill(double value, Out y) override;
  std::vector<double> sums_of_squares(const std::vector<Tensor>& tensors) override;

#define PG_KERNEL override
#include "autograd/kernels.h"
#undef PG_KERNEL

 private:
  /// A call, from its construction to its end. A kernel that another kernel calls is part of it.
  class Call {
   public:
    Call(KernelProfile& profile, const std::string& kind, const KernelWork& work)
        : profile_(profile), kind_(kind), work_(work), counts_(depth++ == 0 && profile.counts()) {}
    ~Call() {
      --depth;
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begun_;
      if (counts_) profile_.add(kind_, work_, time.count());
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    inline static thread_local int depth = 0;  // calls that the thread is in

    KernelProfile& profile_;
    const std::string& kind_;
    const KernelWork& work_;
    const bool counts_;
    const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  };

  static double bytes_of(const Tensor& x) {
    return x.defined() ? static_cast<double>(x.bytes()) : 0;
  }
  static double bytes_of(const SparsePattern& x) { return bytes_of(x.columns); }
  static double bytes_of(const auto&) { return 0; }

  // [snippet profiled]
  /// Runs a kernel that does this work.
  template <class Result, class... Parameters>
  Result run_as(const std::string& kind, const KernelWork& work,
                Result (Backend::*kernel)(Parameters...), const auto&... arguments) {
    const Call call(profile_, kind, work);
    return (inner_->backend().*kernel)(arguments...);
  }
  /// Runs a kernel that does this work, and reads or writes each of its tensors once besides.
  template <class Result, class... Parameters>
  Result run(const std::string& kind, KernelWork work, Result (Backend::*kernel)(Parameters...),
             const auto&... arguments) {
    ((work.bytes += bytes_of(arguments)), ...);
    return run_as(kind, work, kernel, arguments...);
  }
  // [end snippet]

  DevicePtr inner_;
  KernelProfile profile_;
};

}  // namespace plangrad::autograd
