// Backend: computes for a device. To port plangrad to a device is to write a Backend.
// Not here: graphs and memory meters. A kernel (autograd/kernels.h has the list) reads tensors and
// writes to tensors that exist already. Chapters 01 and 03.
#pragma once

#include <functional>

#include "autograd/kernel_arguments.h"
#include "autograd/random.h"

namespace plangrad::autograd {

#pragma GCC diagnostic push  // a kernel that a backend does not override ignores its arguments
#pragma GCC diagnostic ignored "-Wunused-parameter"

/// The kernels and the memory of a device. A backend must implement the memory functions; a kernel
/// that it does not override throws an Error that names kernel and device. Shapes are checked by
/// operations (autograd/ops). Results do not depend on the number of threads.
/// units: f32 and bf16 kernels compute in f32, f64 kernels in f64; bf16 results are rounded once
class Backend {
 public:
  using In = const Tensor&;   ///< a tensor whose values a kernel reads
  using Out = const Tensor&;  ///< a tensor that exists already, and whose values a kernel writes

  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  /// Whether kernels compute in f64; if not, the CPU does so for the device.
  virtual bool has_f64() const { return true; }
  /// Whether gemm completes a sum before it adds it (Gemm::add), as accumulate would afterwards.
  virtual bool adds_whole_sums() const { return false; }
  /// The width to which rows of `columns` elements are best filled up, for products to be fast.
  virtual std::int64_t row_pitch(std::int64_t columns) const { return columns; }

  /// Runs `work`, in which kernels take and free the memory that they use beside their tensors, but
  /// neither read nor write: so a blank device learns a kernel's scratch (autograd/blank).
  /// throws: Error if the device can't
  virtual void without_values(const std::function<void()>& work);

  /// Runs `work`. The device may delay its kernels, to launch them together when `work` ends or
  /// needs a value on the host.
  virtual void as_one_launch(const std::function<void()>& work) { work(); }

  // Memory. The contents of new memory are undefined. Any thread may allocate, and may free memory
  // that another thread allocated.
  virtual void* allocate(std::int64_t bytes) = 0;
  virtual void free(void* data, std::int64_t bytes) = 0;
  virtual void copy_from_host(const void* source, Out y) = 0;
  virtual void copy_to_host(In x, void* target) = 0;

  /// Flags of a product: the matrices to transpose, and whether to add it to the result.
  struct Gemm {
    bool transpose_a = false, transpose_b = false;
    bool add = false;
  };

#define PG_KERNEL(name, ...) \
  { no_kernel(#name); }
#include "autograd/kernels.h"
#undef PG_KERNEL

 protected:
  /// throws: Error, always
  [[noreturn]] void no_kernel(const char* kernel) const;
};

#pragma GCC diagnostic pop

/// The type in which gradients of weights of type `dtype` are computed and summed: f32 for bf16.
constexpr DType gradient_dtype(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }
/// The type of row statistics for values of type `dtype`.
constexpr DType statistic_dtype(DType dtype) { return gradient_dtype(dtype); }

}  // namespace plangrad::autograd
