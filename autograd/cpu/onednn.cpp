// Products by oneDNN's primitives, each compiled once for its sizes and types, in every thread.
// Not here: the loops for products that oneDNN lacks (autograd/cpu/gemm.cpp).
// Chapter 03.
#include "autograd/cpu/onednn.h"

#if PARAGRAD_ONEDNN

#include <algorithm>
#include <dnnl.hpp>
#include <map>
#include <optional>
#include <tuple>

#include "autograd/cpu/threads.h"

namespace paragrad::autograd::cpu {

namespace {

using dnnl::memory;

memory::data_type type_of(const Tensor& x) {
  return x.dtype() == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

/// A batch of row-major matrices (rows,columns) as it stands in memory, or transposed.
memory::desc describe(const Tensor& x, bool transposed) {
  memory::dim batch = x.size(0), rows = x.size(1), columns = x.size(2);
  if (transposed)
    return {{batch, columns, rows}, type_of(x), memory::dims{rows * columns, 1, columns}};
  return {{batch, rows, columns}, type_of(x), memory::dims{rows * columns, columns, 1}};
}

/// All that a compiled product depends on; the last is the number of threads that it will run on.
using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool, bool, DType,
                       DType, bool, bool, int>;

struct Compiled {
  memory::desc a, b, bias, c;
  dnnl::matmul primitive;
};

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// Nothing where oneDNN has no such product: bf16 needs AVX-512.
std::optional<Compiled> compile(Backend::Gemm how, const Tensor& a, const Tensor& b,
                                const Tensor& bias, const Tensor& c) {
  Compiled result{
      describe(a, how.transpose_a), describe(b, how.transpose_b), {}, describe(c, false), {}};
  dnnl::primitive_attr attributes;
  if (how.add) {
    dnnl::post_ops after;
    after.append_sum();
    attributes.set_post_ops(after);
  }
  if (bias.defined())
    result.bias = {
        {1, 1, bias.numel()}, type_of(bias), memory::dims{bias.numel(), bias.numel(), 1}};
  dnnl::matmul::desc desc = bias.defined()
                                ? dnnl::matmul::desc(result.a, result.b, result.bias, result.c)
                                : dnnl::matmul::desc(result.a, result.b, result.c);
  dnnl::matmul::primitive_desc implementation(desc, attributes, engine(), true);
  if (!implementation) return {};
  result.primitive = dnnl::matmul(implementation);
  return result;
}

/// Compiled products are a cache: they change no result. One for each thread, because oneDNN ties
/// a primitive's scratch memory to the thread that made it.
const std::optional<Compiled>& compiled(Backend::Gemm how, const Tensor& a, const Tensor& b,
                                        const Tensor& bias, const Tensor& c) {
  static thread_local std::map<Key, std::optional<Compiled>> cache;
  Key key{c.size(0),       c.size(1),       c.size(2),        a.size(how.transpose_a ? 1 : 2),
          how.transpose_a, how.transpose_b, a.dtype(),        c.dtype(),
          bias.defined(),  how.add,         compute_threads()};
  auto found = cache.find(key);
  if (found == cache.end()) found = cache.emplace(key, compile(how, a, b, bias, c)).first;
  return found->second;
}

/// oneDNN's f32 product without a plan. A training step of width 384 was 6 and 13% faster with it
/// than with the primitive, in two runs; not where b is transposed. Where c is small it shares out
/// a long inner sum, in an order that depends on the number of threads; from 128 rows and columns
/// on it did not.
bool sgemm(Backend::Gemm how, const Tensor& a, const Tensor& b, const Tensor& c) {
  std::int64_t m = c.size(1), n = c.size(2), k = a.size(how.transpose_a ? 1 : 2);
  for (std::int64_t i = 0; i < c.size(0); ++i) {
    dnnl_status_t status =
        dnnl_sgemm(how.transpose_a ? 'T' : 'N', how.transpose_b ? 'T' : 'N', m, n, k, 1.0f,
                   a.data<float>() + i * m * k, a.size(2), b.data<float>() + i * k * n, b.size(2),
                   how.add ? 1.0f : 0.0f, c.data<float>() + i * m * n, n);
    PG_CHECK(status == dnnl_success, "gemm: oneDNN refused with status ", status);
  }
  return true;
}

}  // namespace

bool onednn_gemm(Backend::Gemm how, const Tensor& a, const Tensor& b, const Tensor& bias,
                 const Tensor& c) {
  if (a.dtype() != DType::f32 && a.dtype() != DType::bf16) return false;
  if (a.dtype() == DType::f32) {
    bool small = std::min(c.size(1), c.size(2)) < 128;
    if (!small && !bias.defined() && !how.transpose_b) return sgemm(how, a, b, c);
    if (small && how.transpose_a) return false;  // the primitive would call the same sgemm
  }
  const std::optional<Compiled>& found = compiled(how, a, b, bias, c);
  if (!found) return false;
  dnnl::stream stream(engine());
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, memory(found->a, engine(), a.raw())},
                                            {DNNL_ARG_WEIGHTS, memory(found->b, engine(), b.raw())},
                                            {DNNL_ARG_DST, memory(found->c, engine(), c.raw())}};
  if (bias.defined()) arguments[DNNL_ARG_BIAS] = memory(found->bias, engine(), bias.raw());
  found->primitive.execute(stream, arguments);
  stream.wait();
  return true;
}

}  // namespace paragrad::autograd::cpu

#else

namespace paragrad::autograd::cpu {

bool onednn_gemm(Backend::Gemm, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  return false;
}

}  // namespace paragrad::autograd::cpu

#endif
