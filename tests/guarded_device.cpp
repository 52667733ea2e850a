// The CPU's kernels over memory that mprotect locks whenever none of them runs.
// Not here: whether it does (tests/autograd/guarded_device_test.cpp).
#include "tests/guarded_device.h"

#include <sys/mman.h>

#include <map>

#include "autograd/cpu/cpu_backend.h"

namespace paragrad::tests {

using namespace autograd;

namespace {

/// One range of addresses, in blocks, that is accessible only while somebody has unlocked it.
class Arena {
 public:
  explicit Arena(std::int64_t bytes) : size_(bytes) {
    void* start =
        mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    PG_CHECK(start != MAP_FAILED, "guarded device: no room for ", size_, " bytes");
    start_ = static_cast<std::byte*>(start);
  }
  ~Arena() { munmap(start_, size_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Takes the first gap that is wide enough.
  void* allocate(std::int64_t bytes) {
    std::int64_t wanted = (bytes + 64) / 64 * 64, at = 0;
    for (const auto& [offset, taken] : taken_) {
      if (offset - at >= wanted) break;
      at = offset + taken;
    }
    PG_CHECK(at + wanted <= size_, "guarded device: ", size_, " bytes are full");
    taken_[at] = wanted;
    return start_ + at;
  }
  void free(void* data) {
    PG_CHECK(taken_.erase(static_cast<std::byte*>(data) - start_) == 1,
             "guarded device: freed what was not allocated");
  }

  // Kernels call kernels; the outermost counts.
  void unlock() {
    if (depth_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void lock() {
    if (--depth_ == 0) protect(PROT_NONE);
  }

 private:
  void protect(int access) {
    PG_CHECK(mprotect(start_, size_, access) == 0, "guarded device: mprotect failed");
  }

  std::byte* start_;
  std::int64_t size_;
  std::map<std::int64_t, std::int64_t> taken_;  // offset -> bytes
  int depth_ = 0;
};

struct Unlocked {
  Arena& arena;
  explicit Unlocked(Arena& arena) : arena(arena) { arena.unlock(); }
  ~Unlocked() { arena.lock(); }
};

/// Each kernel is the CPU's, inside an unlocked arena.
class GuardedBackend : public CpuBackend {
 public:
  explicit GuardedBackend(std::int64_t bytes) : arena_(std::make_unique<Arena>(bytes)) {}

  const char* name() const override { return "guarded"; }
  void* allocate(std::int64_t bytes) override { return arena_->allocate(bytes); }
  void free(void* data, std::int64_t) override { arena_->free(data); }

  void copy_from_host(const void* source, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::copy_from_host(source, y);
  }
  void copy_to_host(const Tensor& x, void* target) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::copy_to_host(x, target);
  }
  void copy(const Tensor& x, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::copy(x, y);
  }
  void fill(double value, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::fill(value, y);
  }
  void fill_normal(RandomKey key, double mean, double deviation, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::fill_normal(key, mean, deviation, y);
  }
  void fill_uniform(RandomKey key, double low, double high, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::fill_uniform(key, low, high, y);
  }
  void copy_rows(const Tensor& x, Rows from, std::int64_t rows, std::int64_t width, const Tensor& y,
                 Rows to) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::copy_rows(x, from, rows, width, y, to);
  }
  void permute(const Tensor& x, const std::vector<int>& order, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::permute(x, order, y);
  }
  void gather(const Tensor& x, const Tensor& index, bool add, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::gather(x, index, add, y);
  }
  void expand(const Tensor& x, const Tensor& index, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::expand(x, index, y);
  }
  void unary(Unary op, const Tensor& x, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::unary(op, x, y);
  }
  void unary_backward(Unary op, const Tensor& x, const Tensor& y, const Tensor& dy,
                      const Tensor& dx) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::unary_backward(op, x, y, dy, dx);
  }
  void binary(Binary op, const Tensor& a, const Tensor& b, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::binary(op, a, b, y);
  }
  void affine(const Tensor& x, double scale, double shift, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::affine(x, scale, shift, y);
  }
  void accumulate(const Tensor& x, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::accumulate(x, y);
  }
  void dropout(const Tensor& x, double p, RandomKey key, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::dropout(x, p, key, y);
  }
  void bias_gelu(const Tensor& x, const Tensor& bias, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::bias_gelu(x, bias, y);
  }
  void bias_gelu_backward(const Tensor& x, const Tensor& bias, const Tensor& dy, const Tensor& dx,
                          const Tensor& dbias) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::bias_gelu_backward(x, bias, dy, dx, dbias);
  }
  void reduce(Reduction op, const Tensor& x, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::reduce(op, x, y);
  }
  void max_backward(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::max_backward(x, y, dy, dx);
  }
  double sum_of_squares(const Tensor& x) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::sum_of_squares(x);
  }
  void gemm(Gemm how, const Tensor& a, const Tensor& b, const Tensor& bias,
            const Tensor& c) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::gemm(how, a, b, bias, c);
  }
  void spmm(const SparsePattern& pattern, const Tensor& values, Vectors how, const Tensor& b,
            const Tensor& bias, const Tensor& c) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::spmm(pattern, values, how, b, bias, c);
  }
  void sddmm(const SparsePattern& pattern, Vectors how, const Tensor& d, const Tensor& b,
             const Tensor& values) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::sddmm(pattern, how, d, b, values);
  }
  void softmax(const Tensor& x, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::softmax(x, y);
  }
  void softmax_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::softmax_backward(y, dy, dx);
  }
  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                  const Tensor& y, const Tensor& mean, const Tensor& inverse) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::layer_norm(x, weight, bias, epsilon, y, mean, inverse);
  }
  void layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                           const Tensor& inverse, const Tensor& dy, const Tensor& dx,
                           const Tensor& dweight, const Tensor& dbias) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::layer_norm_backward(x, weight, mean, inverse, dy, dx, dweight, dbias);
  }
  void cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& loss,
                     const Tensor& normalizer) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::cross_entropy(logits, targets, loss, normalizer);
  }
  void cross_entropy_backward(const Tensor& logits, const Tensor& targets, const Tensor& normalizer,
                              const Tensor& dloss, double scale, const Tensor& dlogits) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::cross_entropy_backward(logits, targets, normalizer, dloss, scale, dlogits);
  }
  void embedding(const Tensor& table, const Tensor& ids, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::embedding(table, ids, y);
  }
  void embedding_backward(const Tensor& ids, const Tensor& dy, const Tensor& dtable) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::embedding_backward(ids, dy, dtable);
  }
  void attention(const Tensor& qkv, int heads, const Tensor& y, const Tensor& normalizer) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::attention(qkv, heads, y, normalizer);
  }
  void attention_backward(const Tensor& qkv, int heads, const Tensor& y, const Tensor& normalizer,
                          const Tensor& dy, const Tensor& dqkv) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::attention_backward(qkv, heads, y, normalizer, dy, dqkv);
  }
  void conv2d(const Tensor& x, const Tensor& weight, Window window, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::conv2d(x, weight, window, y);
  }
  void conv2d_backward_input(const Tensor& dy, const Tensor& weight, Window window,
                             const Tensor& dx) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::conv2d_backward_input(dy, weight, window, dx);
  }
  void conv2d_backward_weight(const Tensor& x, const Tensor& dy, Window window,
                              const Tensor& dweight) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::conv2d_backward_weight(x, dy, window, dweight);
  }
  void max_pool2d(const Tensor& x, Window window, const Tensor& y, const Tensor& index) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::max_pool2d(x, window, y, index);
  }
  void max_pool2d_backward(const Tensor& dy, const Tensor& index, const Tensor& dx) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::max_pool2d_backward(dy, index, dx);
  }
  void average_pool2d(const Tensor& x, Window window, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::average_pool2d(x, window, y);
  }
  void average_pool2d_backward(const Tensor& dy, Window window, const Tensor& dx) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::average_pool2d_backward(dy, window, dx);
  }
  void batch_norm_statistics(const Tensor& x, const Tensor& mean, const Tensor& variance) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::batch_norm_statistics(x, mean, variance);
  }
  void batch_norm_apply(const Tensor& x, const Tensor& mean, const Tensor& variance,
                        const Tensor& weight, const Tensor& bias, double epsilon,
                        const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::batch_norm_apply(x, mean, variance, weight, bias, epsilon, y);
  }
  void batch_norm_backward(const Tensor& x, const Tensor& mean, const Tensor& variance,
                           const Tensor& weight, double epsilon, const Tensor& dy, const Tensor& dx,
                           const Tensor& dweight, const Tensor& dbias) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::batch_norm_backward(x, mean, variance, weight, epsilon, dy, dx, dweight,
                                           dbias);
  }
  bool quantize(const Tensor& x, Quantizer how, RandomKey key, const Tensor& bytes) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::quantize(x, how, key, bytes);
  }
  void dequantize(const Tensor& bytes, Quantizer how, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::dequantize(bytes, how, y);
  }
  Magnitude magnitude(const Tensor& x, std::int64_t k) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::magnitude(x, k);
  }
  Selected select(const Tensor& x, Selection which, const Tensor& bytes) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::select(x, which, bytes);
  }
  void collect(const Tensor& x, const Tensor& bytes) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::collect(x, bytes);
  }
  void scatter(const Tensor& bytes, const Tensor& y) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::scatter(bytes, y);
  }
  void sgd(const SgdStep& step, const Tensor& gradient, const Tensor& momentum,
           const Tensor& master, const Tensor& weights) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::sgd(step, gradient, momentum, master, weights);
  }
  void adamw(const AdamWStep& step, const Tensor& gradient, const Tensor& first_moment,
             const Tensor& second_moment, const Tensor& master, const Tensor& weights) override {
    Unlocked unlocked(*arena_);
    return CpuBackend::adamw(step, gradient, first_moment, second_moment, master, weights);
  }

 private:
  std::unique_ptr<Arena> arena_;
};

}  // namespace

DevicePtr guarded_device(std::int64_t bytes) {
  return std::make_shared<Device>(std::make_shared<GuardedBackend>(bytes));
}

}  // namespace paragrad::tests
