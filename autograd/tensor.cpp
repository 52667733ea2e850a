// Makes tensors, moves values between host and device, and checks every window against its memory.
// Not here: kernels (autograd/kernels.h). Chapter 01.
#include "autograd/tensor.h"

#include "autograd/backend.h"

namespace plangrad::autograd {

Tensor::Tensor(std::shared_ptr<Storage> storage, std::int64_t offset, Shape shape, DType dtype)
    : storage_(std::move(storage)), offset_(offset), shape_(std::move(shape)), dtype_(dtype) {
  PG_CHECK(offset_ >= 0 && (offset_ + numel()) * size_of(dtype_) <= storage_->bytes(), "a ", dtype_,
           " ", shape_, " at element ", offset_, " does not fit a storage of ", storage_->bytes(),
           " bytes");
}

Tensor Tensor::window(std::int64_t offset, Shape shape) const {
  PG_CHECK(offset >= 0 && offset + shape.numel() <= numel(), "a window ", shape, " at element ",
           offset, " does not fit a tensor ", shape_);
  return {storage_, offset_ + offset, std::move(shape), dtype_};
}

Tensor Tensor::detach() const {
  Tensor result = *this;
  result.node_ = nullptr;
  return result;
}

Tensor empty(Shape shape, DType dtype, const DevicePtr& device) {
  return empty(std::move(shape), dtype, device, device->category());
}

Tensor empty(Shape shape, DType dtype, const DevicePtr& device, Category category) {
  std::int64_t bytes = 0;
  PG_CHECK(!__builtin_mul_overflow(shape.numel(), size_of(dtype), &bytes), "a tensor ", shape,
           " of ", dtype, " has more bytes than 64 bits can count");
  return {std::make_shared<Storage>(device, bytes, category), 0, std::move(shape), dtype};
}

Tensor workspace(Shape shape, DType dtype, const DevicePtr& device) {
  return empty(std::move(shape), dtype, device, Category::workspace);
}

Tensor full(Shape shape, double value, DType dtype, const DevicePtr& device) {
  Tensor x = empty(std::move(shape), dtype, device);
  x.backend().fill(value, x);
  return x;
}

Tensor zeros(Shape shape, DType dtype, const DevicePtr& device) {
  return full(std::move(shape), 0, dtype, device);
}

template <class T>
static Tensor copied(const std::vector<T>& values, Shape shape, const DevicePtr& device) {
  PG_CHECK(static_cast<std::int64_t>(values.size()) == shape.numel(), "a tensor ", shape, " needs ",
           shape.numel(), " values, got ", values.size());
  Tensor x = empty(std::move(shape), DTypeOf<T>::value, device);
  x.backend().copy_from_host(values.data(), x);
  return x;
}

Tensor from_host(const std::vector<float>& values, Shape shape, const DevicePtr& device,
                 DType dtype) {
  if (dtype == DType::bf16)
    return copied(std::vector<bf16>(values.begin(), values.end()), shape, device);
  if (dtype == DType::f64)
    return copied(std::vector<double>(values.begin(), values.end()), shape, device);
  PG_CHECK(dtype == DType::f32, "float values make a floating-point tensor, not ", dtype);
  return copied(values, shape, device);
}

Tensor from_host(const std::vector<double>& values, Shape shape, const DevicePtr& device) {
  return copied(values, std::move(shape), device);
}

Tensor from_host(const std::vector<std::int32_t>& values, Shape shape, const DevicePtr& device) {
  return copied(values, std::move(shape), device);
}

std::vector<double> to_host(const Tensor& x) {
  auto values_of = [&]<class T>() {
    std::vector<T> values(x.numel());
    x.backend().copy_to_host(x, values.data());
    return std::vector<double>(values.begin(), values.end());
  };
  if (x.dtype() == DType::i32) return values_of.operator()<std::int32_t>();
  return dispatch(x.dtype(), values_of);
}

double item(const Tensor& x) {
  PG_CHECK(x.numel() == 1, "item: expected a tensor with one element, got ", x);
  return to_host(x)[0];
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) {
  return x.defined() ? out << x.dtype() << ' ' << x.shape() : out << "an undefined tensor";
}

}  // namespace plangrad::autograd
