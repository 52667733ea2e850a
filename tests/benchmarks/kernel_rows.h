// The kernels of a Backend, as rows of a table: what each reads and writes at least, or computes.
// Not here: how they are timed (device_clock.h) and shown (gpu_kernels.cpp). Chapter 12.
#pragma once

#include "autograd/backend.h"
#include "sparse/samo.h"

namespace plangrad::benchmarks {

using namespace plangrad::autograd;

/// Elements of the large tensors, which no cache should hold, and the other sizes of the kernels.
struct KernelSizes {
  std::int64_t elements, width, vocabulary, product, tokens, time;
};
/// As in training a GPT: rows of 1024, GPT-2's vocabulary, which is odd, 16 times 1024 tokens.
constexpr KernelSizes gpu_sizes{std::int64_t{1} << 26, 1024, 50257, 8192, 16384, 1024};
/// For a moment on the emulator.
constexpr KernelSizes small_sizes{1 << 12, 64, 509, 64, 256, 64};

/// A kernel moves bytes, each input and each result once, or else it computes.
struct KernelRow {
  std::string name;
  double bytes, flops;  ///< one of them is 0
  std::function<void()> run;
  std::function<void()> beside = nullptr;  ///< what it is held against; empty: the device's limit
};

/// Makes rows for one type of values. Tensors live as long as the rows.
class KernelRows {
 public:
  KernelRows(const DevicePtr& device, DType dtype, const KernelSizes& sizes)
      : device_(device), backend_(&device->backend()), dtype_(dtype), s(sizes) {}

  std::vector<KernelRow> element_wise();
  std::vector<KernelRow> sums();
  std::vector<KernelRow> rows_of_width();
  std::vector<KernelRow> vocabulary();
  std::vector<KernelRow> images();
  std::vector<KernelRow> layout();
  std::vector<KernelRow> codecs();
  std::vector<KernelRow> optimizers();
  std::vector<KernelRow> products();
  std::vector<KernelRow> attention();
  std::vector<KernelRow> sparse_products();

 private:
  Tensor make(Shape shape, DType dtype) const {
    const Tensor x = empty(std::move(shape), dtype, device_);
    backend_->fill_uniform(RandomKey(1, "x"), 0.01, 1, x);
    return x;
  }
  Tensor make(Shape shape) const { return make(std::move(shape), dtype_); }
  Tensor statistics(Shape shape) const { return make(std::move(shape), statistic_dtype(dtype_)); }
  /// `count` numbers below `limit`, spread evenly, in no order unless they are `ascending`.
  Tensor indices(std::int64_t count, std::int64_t limit, bool ascending = false) const {
    std::vector<std::int32_t> values(count);
    for (std::int64_t i = 0; i < count; ++i)
      values[i] = static_cast<std::int32_t>(ascending ? i * limit / count : i * 7919 % limit);
    return from_host(values, {count}, device_);
  }
  /// Bytes of so many elements.
  double of(double count) const { return count * static_cast<double>(size_of(dtype_)); }
  double n() const { return static_cast<double>(s.elements); }
  std::int64_t rows(std::int64_t width) const { return s.elements / width; }

  DevicePtr device_;
  Backend* backend_;
  DType dtype_;
  KernelSizes s;
};

inline std::vector<KernelRow> KernelRows::element_wise() {
  const Tensor x = make({rows(s.width), s.width}), y = make(x.shape()), z = make(x.shape());
  const Tensor bias = make({s.width});
  const DType other_type = dtype_ == DType::f32 ? DType::bf16 : DType::f32;
  const Tensor other = make(x.shape(), other_type);
  const Tensor sums = make(x.shape(), gradient_dtype(dtype_));
  const double of_other = n() * static_cast<double>(size_of(other_type));
  Backend* const k = backend_;
  return {
      {"copy to the other type", of(n()) + of_other, 0, [=] { k->copy(x, other); }},
      {"add", of(3 * n()), 0, [=] { k->binary(Binary::add, x, y, z); }},
      {"add a row to all rows", of(2 * n()), 0, [=] { k->binary(Binary::add, x, bias, z); }},
      {"affine", of(2 * n()), 0, [=] { k->affine(x, 2, 1, z); }},
      {"GELU", of(2 * n()), 0, [=] { k->unary(Unary::gelu, x, z); }},
      {"GELU, backward", of(3 * n()), 0, [=] { k->unary_backward(Unary::gelu, x, x, y, z); }},
      {"dropout", of(2 * n()), 0, [=] { k->dropout(x, 0.1, RandomKey(1, "drop"), z); }},
      {"accumulate", of(n()) + 8 * n(), 0, [=] { k->accumulate(x, sums); }},
  };
}

inline std::vector<KernelRow> KernelRows::sums() {
  const std::int64_t r = rows(s.width);
  const Tensor x = make({r, s.width}), rows = statistics({r, 1}),
               columns = statistics({1, s.width});
  Backend* const k = backend_;
  return {
      {"sum of squares", of(n()), 0, [=] { k->sums_of_squares({x}); }},
      {"sum of each row", of(n()), 0, [=] { k->reduce(Reduction::sum, x, rows); }},
      {"sum of each column", of(n()), 0, [=] { k->reduce(Reduction::sum, x, columns); }},
  };
}

inline std::vector<KernelRow> KernelRows::rows_of_width() {
  const std::int64_t r = rows(s.width), c = s.width;
  const Tensor x = make({r, c}), y = make({r, c}), dy = make({r, c}), sum = make({r, c});
  const Tensor w = make({c}), mean = statistics({r}), inverse = statistics({r});
  const Tensor dw = make({c}, gradient_dtype(dtype_)), db = make({c}, gradient_dtype(dtype_));
  Backend* const k = backend_;
  return {
      {"layer norm", of(2 * n()), 0,
       [=] { k->layer_norm(x, {}, w, w, 1e-5, {}, y, mean, inverse); }},
      {"layer norm, backward", of(3 * n()), 0,
       [=] { k->layer_norm_backward(x, w, mean, inverse, dy, {}, y, dw, db); }},
      {"sum and layer norm", of(4 * n()), 0,
       [=] { k->layer_norm(x, dy, w, w, 1e-5, sum, y, mean, inverse); }},
      {"sum and layer norm, backward", of(4 * n()), 0,
       [=] { k->layer_norm_backward(x, w, mean, inverse, dy, sum, y, dw, db); }},
      {"softmax", of(2 * n()), 0, [=] { k->softmax(x, y); }},
      {"softmax, backward", of(3 * n()), 0, [=] { k->softmax_backward(x, dy, y); }},
      {"bias and GELU", of(2 * n()), 0, [=] { k->bias_gelu(x, w, y); }},
      {"bias and GELU, backward", of(3 * n()), 0, [=] { k->bias_gelu_backward(x, w, dy, y, db); }},
  };
}

inline std::vector<KernelRow> KernelRows::vocabulary() {
  Backend* const k = backend_;
  const std::int64_t v = s.vocabulary, r = rows(v), c = s.width, tokens = rows(c);
  const Tensor logits = make({r, k->row_pitch(v)}), loss = statistics({r});
  const Tensor targets = indices(r, v), ids = indices(tokens, v), one_id = indices(tokens, 1);
  const Tensor table = make({v, c}), y = make({tokens, c});
  const Tensor dtable = make({v, c}, gradient_dtype(dtype_));
  const double all = static_cast<double>(r * v), table_size = static_cast<double>(v * c);
  const double summed = of(n()) + 4 * table_size;
  return {
      {"cross-entropy", of(all), 0, [=] { k->cross_entropy(logits, targets, v, 1, loss, {}); }},
      {"cross-entropy and its gradient", of(2 * all), 0,
       [=] { k->cross_entropy(logits, targets, v, 1, loss, logits); }},
      {"embedding", of(table_size + n()), 0, [=] { k->embedding(table, ids, y); }},
      {"embedding, backward", summed, 0, [=] { k->embedding_backward(ids, y, dtable); }},
      {"embedding, backward, ids all alike", summed, 0,
       [=] { k->embedding_backward(one_id, y, dtable); }},
  };
}

inline std::vector<KernelRow> KernelRows::images() {
  const std::int64_t c = s.width / 4, side = 16, images = s.elements / (c * side * side);
  const Tensor x = make({images, c, side, side}), y = make(x.shape()), dy = make(x.shape());
  const Tensor mean = statistics({c}), variance = statistics({c}), w = make({c});
  const Tensor dw = make({c}, gradient_dtype(dtype_)), db = make({c}, gradient_dtype(dtype_));
  const Tensor half = make({images, c, side / 2, side / 2});
  const Tensor index = empty(half.shape(), DType::i32, device_);
  const Window two{2, 2, 2, 0};
  Backend* const k = backend_;
  k->max_pool2d(x, two, half, index);
  return {
      {"batch norm, statistics", of(n()), 0, [=] { k->batch_norm_statistics(x, mean, variance); }},
      {"batch norm", of(2 * n()), 0,
       [=] { k->batch_norm_apply(x, mean, variance, w, w, 1e-5, y); }},
      {"batch norm, backward", of(3 * n()), 0,
       [=] { k->batch_norm_backward(x, mean, variance, w, 1e-5, dy, y, dw, db); }},
      {"max pool", of(1.25 * n()) + n(), 0, [=] { k->max_pool2d(x, two, half, index); }},
      {"max pool, backward", of(1.25 * n()) + n(), 0,
       [=] { k->max_pool2d_backward(half, index, y); }},
  };
}

inline std::vector<KernelRow> KernelRows::layout() {
  const std::int64_t half = s.elements / 2, t = s.time, c = s.width, heads = 16;
  const Tensor x = make({s.elements / (t * c), t, heads, c / heads}),
               y = make({x.size(0), heads, t, c / heads});
  const Tensor matrix = make({rows(c), c}), turned = make({c, rows(c)});
  const Tensor kept = indices(half, s.elements, true), some = make({half}),
               all = make({s.elements});
  const double index_bytes = 2 * n();
  Backend* const k = backend_;
  return {
      {"heads before positions", of(2 * n()), 0,
       [=] {
         k->permute(x, {0, 2, 1, 3}, y);
       }},
      {"transpose", of(2 * n()), 0,
       [=] {
         k->permute(matrix, {1, 0}, turned);
       }},
      {"gather half (SAMO)", of(n()) + index_bytes, 0, [=] { k->gather(all, kept, false, some); }},
      {"expand half (SAMO)", of(1.5 * n()) + index_bytes, 0, [=] { k->expand(some, kept, all); }},
  };
}

inline std::vector<KernelRow> KernelRows::codecs() {
  const Quantizer how{4, 1024, false}, stochastic{4, 1024, true};
  const std::int64_t buckets = (s.elements + 1023) / 1024, slots = s.elements / 100;
  const std::int64_t size = size_of(dtype_);
  const Tensor x = make({s.elements}), y = make({s.elements});
  const Tensor bytes = empty({2 * buckets * size + s.elements / 2}, DType::u8, device_);
  const Tensor message = empty({slots * (4 + size)}, DType::u8, device_);
  const auto encoded = static_cast<double>(bytes.numel());
  const double listed = static_cast<double>(message.numel());
  Backend* const k = backend_;
  return {
      {"quantize to 4 bits", of(n()) + encoded, 0, [=] { k->quantize(x, how, {}, bytes); }},
      {"the same, stochastic", of(n()) + encoded, 0,
       [=] { k->quantize(x, stochastic, RandomKey(1, "round"), bytes); }},
      {"dequantize", of(n()) + encoded, 0, [=] { k->dequantize(bytes, how, y); }},
      {"select 1%", of(n()) + listed, 0,
       [=] {
         k->select(x, {0.99, 0, 0}, message);
       }},
      {"scatter 1%", of(n()) + listed, 0, [=] { k->scatter(message, y); }},
  };
}

/// In f32, whatever the type of the weights is that they write as well.
inline std::vector<KernelRow> KernelRows::optimizers() {
  auto f32 = [&] { return make({s.elements}, DType::f32); };
  const Tensor g = f32(), m = f32(), v = f32(), master = f32();
  const Tensor weights = dtype_ == DType::f32 ? master : make({s.elements});
  const double rounded = dtype_ == DType::f32 ? 0 : of(n());
  const Segments all{{0, s.elements}};
  Backend* const k = backend_;
  return {
      {"SGD", 20 * n() + rounded, 0, [=] { k->sgd({}, all, g, m, master, weights); }},
      {"AdamW", 28 * n() + rounded, 0, [=] { k->adamw({}, all, g, m, v, master, weights); }},
  };
}

}  // namespace plangrad::benchmarks
