// Matrix products. On processors with AVX-512, oneDNN's primitives, each compiled once per thread,
// sizes and types: its products in bf16 have instructions of their own. Elsewhere tile_gemm.h,
// which comes close to oneDNN in f32, is as fast in bf16, and has no sum that depends on threads.
// Not here: attention's small products (autograd/cpu/attention.cpp). Chapter 03.
#include "autograd/cpu/tile_gemm.h"

#if PLANGRAD_ONEDNN_PRODUCTS
#include <dnnl.hpp>
#include <map>
#include <tuple>
#endif

namespace plangrad::autograd {
namespace {

#if PLANGRAD_ONEDNN_PRODUCTS

using dnnl::memory;

memory::data_type type_of(const Tensor& x) {
  return x.dtype() == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

/// Describes a batch of row-major matrices (rows,columns), as stored or transposed; empty if x is
/// undefined.
memory::desc describe(const Tensor& x, bool transposed = false) {
  if (!x.defined()) return {};
  memory::dim batch = x.size(0), rows = x.size(1), columns = x.size(2), all = rows * columns;
  if (transposed) return {{batch, columns, rows}, type_of(x), memory::dims{all, 1, columns}};
  return {{batch, rows, columns}, type_of(x), memory::dims{all, columns, 1}};
}

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// A compiled product, which is empty if oneDNN has none, and what it needs to run.
struct Product {
  dnnl::matmul matmul;
  memory::desc scratch;
};

Product compile(Backend::Gemm how, const Tensor& a, const Tensor& b, const Tensor& bias,
                const Tensor& c) {
  dnnl::post_ops after;
  if (how.add) after.append_sum();
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(after);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);  // so that it is metered
  memory::desc x = describe(a, how.transpose_a), y = describe(b, how.transpose_b);
#if DNNL_VERSION_MAJOR < 3  // an operation has a description of its own
  dnnl::matmul::primitive_desc implementation({x, y, describe(bias), describe(c)}, attributes,
                                              engine(), true);
#else
  dnnl::matmul::primitive_desc implementation(engine(), x, y, describe(bias), describe(c),
                                              attributes, true);
#endif
  if (!implementation) return {};
  return {dnnl::matmul(implementation), implementation.scratchpad_desc()};
}

/// Caches compiled products, without effect on results, in each thread, so that none waits for
/// another's. The key holds all that a product depends on.
const Product& compiled(Backend::Gemm how, const Tensor& a, const Tensor& b, const Tensor& bias,
                        const Tensor& c) {
  auto key =
      std::tuple(c.size(0), c.size(1), c.size(2), a.size(how.transpose_a ? 1 : 2), how.transpose_a,
                 how.transpose_b, how.add, bias.defined(), a.dtype(), c.dtype(), compute_threads());
  static thread_local std::map<decltype(key), Product> cache;
  auto found = cache.find(key);
  // A GPT's step takes about thirty products; programs that vary their sizes must not grow.
  if (found == cache.end() && cache.size() == 1024) cache.clear();
  if (found == cache.end()) found = cache.emplace(key, compile(how, a, b, bias, c)).first;
  return found->second;
}

/// Computes an f32 product by oneDNN's sgemm, without a compiled primitive. In two runs, a training
/// step of width 384 was 6 and 13% faster with it than with the primitive, but not if b is
/// transposed. If c is small, sgemm divides a long inner sum among threads, so that its order
/// depends on their number; from 128 rows and columns on, it did not.
bool sgemm(Backend::Gemm how, const Tensor& a, const Tensor& b, const Tensor& c) {
  std::int64_t m = c.size(1), n = c.size(2), k = a.size(how.transpose_a ? 1 : 2);
  for (std::int64_t i = 0; i < c.size(0); ++i) {
    dnnl_status_t status =
        dnnl_sgemm(how.transpose_a ? 'T' : 'N', how.transpose_b ? 'T' : 'N', m, n, k, 1.0f,
                   a.data<float>() + i * m * k, a.size(2), b.data<float>() + i * k * n, b.size(2),
                   how.add ? 1.0f : 0.0f, c.data<float>() + i * m * n, n);
    PG_CHECK(status == dnnl_success, "gemm: oneDNN's sgemm failed with status ", status);
  }
  return true;
}

/// Computes the product, unless oneDNN can't (f64), or its sum would depend on the number of
/// threads: then returns false.
bool onednn_gemm(Backend::Gemm how, const Tensor& a, const Tensor& b, const Tensor& bias,
                 const Tensor& c) {
  if (a.dtype() != DType::f32 && a.dtype() != DType::bf16) return false;
  if (a.dtype() == DType::f32) {
    bool small = std::min(c.size(1), c.size(2)) < 128;
    if (!small && !bias.defined() && !how.transpose_b)
      return cpu::without_values || sgemm(how, a, b, c);
    if (small && how.transpose_a) return false;  // the primitive would call the same sgemm
  }
  Tensor row = bias.defined() ? bias.window(0, {1, 1, bias.numel()}) : bias;
  const auto& [product, scratch] = compiled(how, a, b, row, c);
  if (!product) return false;
  const auto floats = static_cast<std::int64_t>(scratch.get_size() / sizeof(float)) + 1;
  const Tensor room = workspace({floats}, DType::f32, c.device());
  if (cpu::without_values) return true;
  auto argument = [](const Tensor& x, bool transposed = false) {
    return memory(describe(x, transposed), engine(), x.raw());
  };
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, argument(a, how.transpose_a)},
                                            {DNNL_ARG_WEIGHTS, argument(b, how.transpose_b)},
                                            {DNNL_ARG_DST, argument(c)}};
  if (row.defined()) arguments[DNNL_ARG_BIAS] = argument(row);
  arguments[DNNL_ARG_SCRATCHPAD] = memory(scratch, engine(), room.raw());
  dnnl::stream stream(engine());
  product.execute(stream, arguments);
  stream.wait();
  return true;
}

#endif

/// Computes the product by cpu::PackedGemm, matrix after matrix.
template <class T, class U>
void packed(Backend::Gemm how, const Tensor& a, const Tensor& b, const Tensor& bias,
            const Tensor& c) {
  std::int64_t m = c.size(1), n = c.size(2), k = a.size(how.transpose_a ? 1 : 2);
  for (std::int64_t i = 0; i < c.size(0); ++i) {
    cpu::Strided<T> x{a.data<T>() + i * m * k, how.transpose_a ? 1 : k, how.transpose_a ? m : 1};
    cpu::Strided<T> y{b.data<T>() + i * k * n, how.transpose_b ? 1 : n, how.transpose_b ? k : 1};
    const T* row = bias.defined() ? bias.data<T>() : nullptr;
    cpu::PackedGemm<T, U>{m, n, k, x, y, row, c.data<U>() + i * m * n, how.add}.run(c.device());
  }
}

}  // namespace

void CpuBackend::gemm(Gemm how, In a, In b, In bias, Out c) {
  if (c.numel() == 0) return;
#if PLANGRAD_ONEDNN_PRODUCTS
  if (onednn_gemm(how, a, b, bias, c)) return;
#endif
  dispatch(a.dtype(), [&]<class T>() {
    if (c.dtype() == a.dtype()) return packed<T, T>(how, a, b, bias, c);
    PG_CHECK(a.dtype() == DType::bf16 && c.dtype() == DType::f32, "gemm: a is ", a, ", c is ", c,
             "; expected c in a's type, or in f32 for bf16");
    if constexpr (std::is_same_v<T, bf16>) packed<bf16, float>(how, a, b, bias, c);
  });
}

}  // namespace plangrad::autograd
