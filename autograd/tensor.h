// Tensor: a cheap handle on values: shared storage, a shape, a type, and possibly a graph's node.
// Not here: mathematics (autograd/ops) and differentiation (autograd/graph.h). Chapter 01.
#pragma once

#include "autograd/device.h"
#include "autograd/shape.h"

namespace plangrad::autograd {

struct Node;

/// A handle on values, whose copies share them. Always contiguous and row-major.
class Tensor {
 public:
  Tensor() = default;
  /// A window on `storage` that starts at `offset` elements.
  Tensor(std::shared_ptr<Storage> storage, std::int64_t offset, Shape shape, DType dtype);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  std::int64_t size(int i) const { return shape_[i]; }
  std::int64_t numel() const { return shape_.numel(); }
  std::int64_t bytes() const { return numel() * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  const DevicePtr& device() const { return storage_->device(); }
  Backend& backend() const { return device()->backend(); }
  const std::shared_ptr<Storage>& storage() const { return storage_; }

  /// The address on the device, for backends; the host may be unable to read it.
  /// throws: Error if T is not the tensor's type
  template <class T>
  T* data() const {
    PG_CHECK(DTypeOf<T>::value == dtype_, "expected a tensor of ", DTypeOf<T>::value, ", got ",
             dtype_);
    return reinterpret_cast<T*>(raw());
  }
  std::byte* raw() const { return storage_->data() + offset_ * size_of(dtype_); }

  /// Elements [offset, offset + shape.numel()) with another shape, outside any graph.
  Tensor window(std::int64_t offset, Shape shape) const;
  /// A tensor with the same values, outside any graph.
  Tensor detach() const;

  /// Whether backward reaches this tensor; node() is the node that it reaches.
  bool requires_grad() const { return node_ != nullptr; }
  const std::shared_ptr<Node>& node() const { return node_; }
  void set_node(std::shared_ptr<Node> node) { node_ = std::move(node); }

 private:
  std::shared_ptr<Storage> storage_;
  std::int64_t offset_ = 0;
  Shape shape_;
  DType dtype_ = DType::f32;
  std::shared_ptr<Node> node_;
};

/// Makes a tensor of uninitialised values, charged to the device's current category.
Tensor empty(Shape shape, DType dtype, const DevicePtr& device);
/// Makes a tensor charged to `category`, not to the device's, which the computing thread sets.
Tensor empty(Shape shape, DType dtype, const DevicePtr& device, Category category);
/// Makes a tensor for use within one operation, charged to Category::workspace.
Tensor workspace(Shape shape, DType dtype, const DevicePtr& device);
inline Tensor empty_like(const Tensor& x) { return empty(x.shape(), x.dtype(), x.device()); }
Tensor zeros(Shape shape, DType dtype, const DevicePtr& device);
Tensor full(Shape shape, double value, DType dtype, const DevicePtr& device);

/// Copies `values` to the device, and rounds them if dtype is narrower.
/// throws: Error if the number of values does not fit the shape
Tensor from_host(const std::vector<float>& values, Shape shape, const DevicePtr& device,
                 DType dtype = DType::f32);
Tensor from_host(const std::vector<double>& values, Shape shape, const DevicePtr& device);
Tensor from_host(const std::vector<std::int32_t>& values, Shape shape, const DevicePtr& device);

/// Copies a tensor of any type to the host.
std::vector<double> to_host(const Tensor& x);
/// The value of a tensor with one element.
double item(const Tensor& x);

/// Describes a tensor in messages: f32 (2,3).
std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace plangrad::autograd
